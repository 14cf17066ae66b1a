"""Runs the cells of a sweep, through failures and interruptions."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from acer_tf.reproduction.cells import Cell, flags_of, require_distinct
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from acer_tf.reproduction.sweep.folder import CellFolder, SweepFolder
from acer_tf.reproduction.sweep.launcher import Launcher, needs_of
from acer_tf.reproduction.sweep.progress import State, SweepProgress, table_of_missing
from acer_tf.runs.provenance import now
from acer_tf.runs.signals import StopRequest

# Losing a node does not count as a retry of the cell. But a cell that crashes its node each time must be given up.
LOST_LIMIT = 10
STOP_SECONDS = 120.0  # enough for a checkpoint of the largest replay
LOCK_SECONDS = 180.0  # a network file system takes a minute or two to free the locks of a lost host
_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class SweepEnd:
    """How a sweep ended."""

    states: dict[str, State]  # by the cell's name
    reasons: dict[str, str]  # why a cell is not finished, by its name
    signal_number: int | None  # of the signal that stopped it, if one did

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
        experiment: what sweep.json names, one per folder. The commands give the family of their environments, so that
            experiments of one family share cells.
        cells: to run, in this order.
        sweep_dir: the sweep's folder; created if it does not exist.
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
    """
    with contextlib.ExitStack() as opened:
        opened.callback(launcher.close)
        require_distinct(cells)
        memory = {cell.name: needs.memory for cell, needs in zip(cells, needs_of(cells), strict=True)}
        open_cells = [c for c in cells if not CellFolder(sweep_dir / "cells" / c.name, c).finished]
        if open_cells:
            actors = max(cell.train_settings.actors for cell in open_cells)
            launcher.check([memory[cell.name] for cell in open_cells], actors)
        folder = opened.enter_context(contextlib.closing(SweepFolder(sweep_dir.absolute(), experiment, cells)))
        launcher.open(folder.path)
        if folder.note:
            _warn(folder.note)
        flags = f"--threads={launcher.threads}", f"--checkpoint_minutes={checkpoint_minutes:g}", "--repair=restart"
        sweep = _Sweep(
            {each.cell.name: _Place(each, memory[each.cell.name]) for each in folder.cells},
            launcher,
            (*program, *flags),
            cwd,
            {"failed": retries, "lost": LOST_LIMIT},
            60.0 * stall_minutes,
        )
        with StopRequest("asking the cells for a checkpoint, then stopping") as stop:
            sweep.run(stop, progress_seconds, say)
    states = {name: place.state for name, place in sweep.places.items()}
    reasons = {name: place.reason for name, place in sweep.places.items() if place.reason}
    end = SweepEnd(states, reasons, stop.signal_number)
    for line in table_of_missing(folder.cells, states, reasons, "the sweep was stopped" if stop.signal_number else ""):
        say(line)
    return end


@dataclasses.dataclass(eq=False)
class _Place:
    """A cell's place in a sweep: it waits, has an attempt under way, waits again if that failed, until it is over."""

    folder: CellFolder
    memory: int
    attempt: Attempt | None = None  # under way
    entries: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # of attempts.json, that attempt's the last
    over: State | None = None  # "finished" or "failed"
    reason: str = ""  # why it is not finished
    ends: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # of attempts, by kind

    @property
    def waits(self) -> bool:
        return self.over is None and self.attempt is None

    @property
    def state(self) -> State:
        return self.over or ("running" if self.attempt and self.attempt.begun else "waiting")


@dataclasses.dataclass
class _Sweep:
    """Holds the cells of a sweep in this process, and moves them from state to state."""

    places: dict[str, _Place]
    launcher: Launcher
    command: tuple[str, ...]
    cwd: Path
    limits: dict[str, int]  # how many attempts that end so are followed by another
    stall_seconds: float

    def run(self, stop: StopRequest, progress_seconds: float, say: Callable[[str], None]) -> None:
        for place in self.places.values():
            with _own_folder(place):
                if damage := place.folder.set_aside_damaged():
                    _warn(damage)
                place.over = "finished" if place.folder.finished else None
        progress = SweepProgress([place.folder for place in self.places.values()])
        reported, stopping, under_way = float("-inf"), False, True
        try:
            while under_way:
                if stop.signal_number is not None and not stopping:
                    stopping = True
                    self.launcher.stop()
                while not stopping and (waiting := self._next()):
                    if not self.launcher.room(waiting.folder.cell.train_settings.actors):
                        break
                    self._start(waiting)
                ends = [(self.places[name], end) for name, end in self.launcher.poll()]
                for place, _ in ends:
                    place.attempt = None
                for place, end in ends:
                    self._ended(place, end, stopping)
                under_way = any(p.attempt for p in self.places.values()) or not (stopping or self._next() is None)
                if not under_way or time.monotonic() - reported >= progress_seconds:
                    say(progress.line({name: place.state for name, place in self.places.items()}))
                    reported = time.monotonic()
                if under_way:
                    time.sleep(_POLL_SECONDS)
        except OSError:  # a full disk, or nobody reads what `say` prints
            self._wait_for_checkpoints()
            raise

    def _next(self) -> _Place | None:
        """The next cell to start: of those that wait, the first with the fewest attempts."""
        return min((p for p in self.places.values() if p.waits), key=lambda p: p.ends.total(), default=None)

    def _start(self, place: _Place) -> None:
        folder, settings = place.folder, place.folder.settings()
        # Relative if possible, because records with the command are published.
        inside = folder.run_dir.is_relative_to(self.cwd)
        run_dir = folder.run_dir.relative_to(self.cwd) if inside else folder.run_dir
        command = (*self.command, *flags_of(settings), f"--run_dir={run_dir}")
        if settings.actors and self.launcher.ray_address:
            command += (f"--ray_address={self.launcher.ray_address}",)
        with _own_folder(place):
            place.entries = [*folder.attempts(), {"command": command, "started": now()}]
            folder.write_attempts(place.entries)
            log = folder.path / "logs" / f"attempt-{len(place.entries)}"
            limits = self.stall_seconds, STOP_SECONDS, LOCK_SECONDS
            place.attempt = Attempt(folder.cell, command, self.cwd, folder.run_dir, log, place.memory, *limits)
        if place.attempt:
            self.launcher.start(place.attempt)

    def _ended(self, place: _Place, end: AttemptEnd, stopping: bool) -> None:
        folder = place.folder
        if end.kind == "stopped" and not stopping:
            end = dataclasses.replace(end, kind="lost", reason="stopped by another process")
        if end.kind == "ended" and not folder.finished:
            end = dataclasses.replace(end, kind="failed", reason="ended without an error, but not finished")
        place.entries[-1] |= {"ended": now(), **dataclasses.asdict(end)}
        folder.write_attempts(place.entries)
        place.ends[end.kind] += 1
        if end.kind == "ended":
            place.over, place.reason = "finished", ""
        elif end.kind != "stopped":
            place.reason = end.reason
            if place.ends[end.kind] > self.limits[end.kind]:
                place.over = "failed"
            where = f" on {end.host}" if end.host else ""
            what = "giving up" if place.over else "stopping" if stopping else "trying again"
            _warn(f"'{folder.cell.label}' {end.kind}{where}: {end.reason}; {what} ({folder.path})")

    def _wait_for_checkpoints(self) -> None:
        """Asks the running cells for a checkpoint, and waits until they have ended, without recording it."""
        self.launcher.stop()
        left = {name for name, place in self.places.items() if place.attempt}
        deadline = time.monotonic() + STOP_SECONDS
        while left and time.monotonic() < deadline:
            left -= {name for name, _ in self.launcher.poll()}
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _own_folder(place: _Place) -> Iterator[None]:
    """A context in which a folder that this user may not read or write makes its cell fail, and stops no other."""
    try:
        yield
    except PermissionError as error:
        place.over, place.reason = "failed", error.strerror or str(error)
        _warn(f"'{place.folder.cell.label}' is left out: {place.reason} ({place.folder.path})")


def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
