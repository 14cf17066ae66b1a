"""Runs the cells of a sweep, through failures and interruptions."""

import collections
import contextlib
import dataclasses
import datetime
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from acer_tf.reproduction.cells import Cell, flags_of, require_distinct
from acer_tf.reproduction.sweep.attempt import STOP_SECONDS, Attempt, AttemptEnd
from acer_tf.reproduction.sweep.folder import CellFolder, locked_sweep
from acer_tf.reproduction.sweep.launcher import Launcher, needs_of
from acer_tf.runs.provenance import now
from acer_tf.runs.signals import StopRequest

# Losing a node does not count as a retry of the cell. But a cell that crashes its node each time must be given up.
LOST_LIMIT = 10
_POLL_SECONDS = 0.2
_WINDOW_SECONDS = 600.0  # over which the rate is measured; cells write rows at irregular intervals
_NAMED = 4  # cells in a line of progress
State = Literal["waiting", "running", "finished", "failed"]


@dataclasses.dataclass(frozen=True)
class SweepEnd:
    """How a sweep ended."""

    states: dict[str, State]  # by the cell's name
    reasons: dict[str, str]  # why a cell is not finished, by its name
    signal_number: int | None  # the signal that stopped it, if one did

    @property
    def given_up(self) -> dict[str, str]:
        """Why cells failed for good, by name."""
        return {name: self.reasons.get(name, "") for name, state in self.states.items() if state == "failed"}

    @property
    def exit_code(self) -> int:
        """0 if all cells are finished, 128 + the signal's number if one stopped it, else 1."""
        if all(state == "finished" for state in self.states.values()):
            return 0
        return 1 if self.signal_number is None else 128 + self.signal_number


def run_sweep(
    experiment: str,
    cells: Sequence[Cell],
    sweep_dir: Path,
    launcher: Launcher,
    *,
    program: Sequence[str],
    cwd: Path,
    retries: int = 2,
    stall_minutes: float = 30.0,
    checkpoint_minutes: float = 10.0,
    progress_seconds: float = 60.0,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
) -> SweepEnd:
    """Runs every cell that is not finished; the same call continues a stopped sweep.

    Args:
        experiment: one per folder. Commands give the family of their environments: its experiments share cells.
        cells: to run, in this order.
        sweep_dir: created if it does not exist.
        launcher: runs the cells; closed at the end.
        program: the command of one cell, to which the flags of `acer_tf train` are appended.
        cwd: its working directory.
        retries: further attempts at a cell that failed.
        stall_minutes: an attempt without progress for this time is stopped and has failed.
        checkpoint_minutes: between the checkpoints of each run.
        progress_seconds: between lines of progress.
        say: prints the lines of progress and the final table.

    Raises:
        SweepError: bad input; nothing was started, and nothing changed (but sweep.json, if a node is refused).
        RunFolderError: another process uses the folder.
    """
    sweep_dir = sweep_dir.absolute()
    with contextlib.ExitStack() as opened:
        opened.callback(launcher.close)
        require_distinct(cells)
        command = (*program, f"--threads={launcher.threads}", *launcher.flags)
        command += f"--checkpoint_minutes={checkpoint_minutes:g}", "--repair=restart"
        options = launcher, command, cwd, {"failed": retries, "lost": LOST_LIMIT}, 60.0 * stall_minutes
        folders = [CellFolder(sweep_dir, cell) for cell in cells]
        needs = needs_of(folders, on_ray=bool(launcher.ray_address))
        places = [Place(folder, n.memory, *options) for folder, n in zip(folders, needs, strict=True)]
        if missing := [n for place, n in zip(places, needs, strict=True) if not place.folder.finished]:
            most = max(n.settings.actors for n in missing), max(n.actor_memory for n in missing)
            launcher.check([n.memory for n in missing], *most)
        opened.enter_context(locked_sweep(sweep_dir, experiment, cells))
        launcher.open(sweep_dir)
        with StopRequest("asking the cells for a checkpoint, then stopping") as stop:
            _run({place.cell.name: place for place in places}, launcher, stop, progress_seconds, say)
    for line in table_of_missing(places, "the sweep was stopped" if stop.signal_number else ""):
        say(line)
    reasons = {place.cell.name: place.reason for place in places if place.reason}
    return SweepEnd({place.cell.name: place.state for place in places}, reasons, stop.signal_number)


@dataclasses.dataclass(eq=False)
class Place:
    """A cell's place in a sweep: it waits, has an attempt under way, waits again if that failed, until it is over."""

    folder: CellFolder
    memory: int
    launcher: Launcher
    command: tuple[str, ...]  # without the flags of the cell
    cwd: Path
    limits: Mapping[str, int]  # how many attempts that end so are followed by another
    stall_seconds: float
    attempt: Attempt | None = None  # under way
    entries: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # of attempts.json, that attempt's the last
    over: State | None = None  # "finished" or "failed"
    reason: str = ""  # why it is not finished
    ends: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # of attempts, by kind
    steps: int | None = None  # as far as `SweepProgress` has seen

    @property
    def cell(self) -> Cell:
        return self.folder.cell

    @property
    def state(self) -> State:
        return self.over or ("running" if self.attempt and self.attempt.begun else "waiting")

    def look(self) -> None:
        """Finds out whether there is anything to run."""
        with self._own_folder():
            if damage := self.folder.set_aside_damaged():
                _warn(damage)
            self.over = "finished" if self.folder.finished else None

    def start(self) -> None:
        folder, settings = self.folder, self.folder.settings()
        # Relative if possible, because records with the command are published.
        inside = folder.run_dir.is_relative_to(self.cwd)
        run_dir = folder.run_dir.relative_to(self.cwd) if inside else folder.run_dir
        command = (*self.command, *flags_of(settings), f"--run_dir={run_dir}")
        if settings.actors and self.launcher.ray_address:
            command += (f"--ray_address={self.launcher.ray_address}",)
        with self._own_folder():
            self.entries = [*folder.attempts(), {"command": command, "started": now()}]
            folder.write_attempts(self.entries)
            log = folder.path / "logs" / f"attempt-{len(self.entries)}"
            attempt = Attempt(folder.cell, command, self.cwd, folder.run_dir, log, self.memory, self.stall_seconds)
            self.launcher.start(attempt)
            self.entries[-1]["command"] = attempt.command  # a launcher may have added a GPU
            self.attempt = attempt

    def end(self, end: AttemptEnd, stopping: bool) -> None:
        if end.kind == "stopped" and not stopping:
            end = dataclasses.replace(end, kind="lost", reason="stopped by another process")
        if end.kind == "ended" and not self.folder.finished:
            end = dataclasses.replace(end, kind="failed", reason="ended without an error, but not finished")
        self.entries[-1] |= {"ended": now(), **dataclasses.asdict(end)}
        self.folder.write_attempts(self.entries)
        self.ends[end.kind] += 1
        if end.kind == "ended":
            self.over, self.reason = "finished", ""
        elif end.kind != "stopped":
            self.reason = end.reason
            if self.ends[end.kind] > self.limits[end.kind]:
                self.over = "failed"
            where = f" on {end.host}" if end.host else ""
            what = "giving up" if self.over else "stopping" if stopping else "trying again"
            _warn(f"'{self.cell.label}' {end.kind}{where}: {end.reason}; {what} ({self.folder.path})")

    @contextlib.contextmanager
    def _own_folder(self) -> Iterator[None]:
        """A context in which a folder that this user may not read or write makes its cell fail, and stops no other."""
        try:
            yield
        except PermissionError as error:
            self.over, self.reason = "failed", error.strerror or str(error)
            _warn(f"'{self.cell.label}' is left out: {self.reason} ({self.folder.path})")


def _run(
    places: Mapping[str, Place],
    launcher: Launcher,
    stop: StopRequest,
    progress_seconds: float,
    say: Callable[[str], None],
) -> None:
    """Moves the cells from state to state until none is under way, and none can begin."""
    for place in places.values():
        place.look()
    progress = SweepProgress()
    reported, stopping, under_way = -math.inf, False, True
    try:
        while under_way:
            if stop.signal_number is not None and not stopping:
                stopping = True
                launcher.stop()
            # The next cell is the first of those with the fewest attempts, among all that wait.
            while waiting := [p for p in places.values() if not (stopping or p.over or p.attempt)]:
                next_one = min(waiting, key=lambda p: p.ends.total())
                if not launcher.room(next_one.cell.train_settings.actors):
                    break
                next_one.start()
            ends = [(places[name], end) for name, end in launcher.poll()]
            for place, _ in ends:
                place.attempt = None
            for place, end in ends:
                place.end(end, stopping)
            under_way = any(p.attempt or not (p.over or stopping) for p in places.values())
            if not under_way or time.monotonic() - reported >= progress_seconds:
                say(progress.line(places.values()))
                reported = time.monotonic()
            if under_way:
                time.sleep(_POLL_SECONDS)
    except OSError:  # a full disk, or nobody reads what `say` prints: the cells end with a checkpoint, unrecorded
        launcher.stop()
        left = {name for name, place in places.items() if place.attempt}
        deadline = time.monotonic() + STOP_SECONDS
        while left and time.monotonic() < deadline:
            left -= {name for name, _ in launcher.poll()}
            time.sleep(_POLL_SECONDS)
        raise


class SweepProgress:
    """Follows steps, rate and time left of all cells."""

    def __init__(self) -> None:
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def line(self, places: Collection[Place]) -> str:
        """One line: cells by state, steps, rate, time left, and the mean returns of running cells."""
        returns, left, total, done = [], 0, 0, 0
        count = collections.Counter(place.state for place in places)
        for place in places:
            state, whole = place.state, place.cell.total_steps
            if state == "finished":
                place.steps = whole
            elif state == "running" or place.steps is None:
                steps, mean_return = place.folder.latest()
                place.steps = min(steps, whole)
                if state == "running" and mean_return is not None:
                    returns.append(f"{place.cell.label}: {mean_return:.2f}")
            total += whole
            done += place.steps
            left += whole - place.steps if state in ("running", "waiting") else 0
        clock = time.monotonic()
        self._seen.append((clock, done))
        while len(self._seen) > 2 and clock - self._seen[0][0] > _WINDOW_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        # A run that resumes from its checkpoint loses steps.
        rate = max(0, done - before) / (clock - then) if clock > then else 0.0
        return "  ".join(
            [
                f"{count['finished']}/{len(places)} done, {count['running']} running, {count['failed']} failed, "
                f"{count['waiting']} waiting",
                f"{100 * done / total:.1f} %",
                f"{done:,}/{total:,} steps",
                f"{rate:,.0f} steps/s",
                f"{datetime.timedelta(seconds=round(left / rate)) if rate else '?'} left",
                *returns[:_NAMED],
                *([f"and {len(returns) - _NAMED} more"] if len(returns) > _NAMED else []),
            ]
        )


def table_of_missing(places: Sequence[Place], otherwise: str) -> list[str]:
    """Lists the cells that are not finished, and why; a cell without a reason of its own has that of `otherwise`."""
    rows = [("cell", "state", "steps", "reason")]
    for place in places:
        if place.state != "finished":
            steps = place.folder.latest()[0]
            shown = "failed" if place.state == "failed" else "interrupted" if steps else "not begun"
            rows.append((place.cell.label, shown, f"{steps:,}/{place.cell.total_steps:,}", place.reason or otherwise))
    if len(rows) == 1:
        return [f"all {len(places)} cells are finished"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"{len(rows) - 1} of {len(places)} cells are missing:",
        *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows),
        "the same command continues them; cells/*/logs/ holds their output",
    ]


def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
