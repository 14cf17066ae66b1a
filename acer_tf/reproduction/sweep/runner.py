"""Runs the cells of a sweep, through failures and interruptions."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep.attempt import AttemptEnd, Job
from acer_tf.reproduction.sweep.cells import flags_of, require_distinct
from acer_tf.reproduction.sweep.folder import CellFolder, SweepFolder
from acer_tf.reproduction.sweep.launcher import Launcher, memory_of, resolved
from acer_tf.runs.signals import StopRequest
from acer_tf.settings.record import settings_from

# Losing a node does not count as a retry of the cell. But a cell that crashes its node each time must be given up.
LOST_LIMIT = 10
STOP_SECONDS = 120.0  # enough for a checkpoint of the largest replay
LOCK_SECONDS = 180.0  # a network file system takes a minute or two to free the locks of a lost host
_POLL_SECONDS = 0.2
_WINDOW_SECONDS = 600.0  # over which the rate is measured; cells write rows at irregular intervals
_NAMED = 4  # cells in a line of progress
State = Literal["waiting", "running", "finished", "failed"]


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
    try:
        require_distinct(cells)
        memory = {cell.name: memory_of(*run) for cell, run in zip(cells, resolved(cells), strict=True)}
        open_cells = [c for c in cells if not CellFolder(sweep_dir / "cells" / c.name, c).finished]
        if open_cells:
            actors = max(cell.train_settings.actors for cell in open_cells)
            launcher.check([memory[cell.name] for cell in open_cells], actors)
        folder = SweepFolder(sweep_dir.absolute(), experiment, cells)
        try:
            launcher.open(folder.path)
            flags = f"--threads={launcher.threads}", f"--checkpoint_minutes={checkpoint_minutes:g}", "--repair=restart"
            command = [*program, *flags]
            named = {cell_folder.cell.name: cell_folder for cell_folder in folder.cells}
            sweep = _Sweep(named, launcher, memory, command, cwd, retries, stall_minutes * 60.0)
            for note in folder.notes:
                _warn(note)
            with StopRequest("asking the cells for a checkpoint, then stopping") as stop:
                try:
                    end = sweep.run(stop, progress_seconds, say)
                except OSError:  # a full disk, or nobody reads what `say` prints
                    sweep.stop()
                    raise
        finally:
            folder.close()
    finally:
        launcher.close()
    for line in _table(folder.cells, end):
        say(line)
    return end


@dataclasses.dataclass
class _Sweep:
    """The state of a sweep in this process."""

    _cells: dict[str, CellFolder]
    _launcher: Launcher
    _memory: dict[str, int]
    _command: Sequence[str]
    _cwd: Path
    _retries: int
    _stall_seconds: float

    def __post_init__(self) -> None:
        self._states: dict[str, State] = dict.fromkeys(self._cells, "waiting")
        self._queue: collections.deque[str] = collections.deque()
        self._jobs: dict[str, tuple[int, Job]] = {}
        self._failures: collections.Counter[str] = collections.Counter()
        self._losses: collections.Counter[str] = collections.Counter()
        self._reasons: dict[str, str] = {}

    def run(self, stop: StopRequest, progress_seconds: float, say: Callable[[str], None]) -> SweepEnd:
        for name, folder in self._cells.items():
            try:
                damage = folder.set_aside_damaged()
            except PermissionError as error:
                self._give_up(name, error)
                continue
            if damage:
                _warn(damage)
            if folder.finished:
                self._states[name] = "finished"
            else:
                self._queue.append(name)
        progress = SweepProgress(list(self._cells.values()))
        reported, stopping = float("-inf"), False
        while self._queue or self._jobs:
            if stop.signal_number is not None and not stopping:
                stopping = True
                self._queue.clear()
                self._launcher.stop()
            while self._queue and self._launcher.room(self._cells[self._queue[0]].cell.train_settings.actors) > 0:
                self._start(self._queue.popleft())
            ends = [(name, end, self._jobs.pop(name)[0]) for name, end in self._launcher.poll()]
            for name, end, number in ends:
                self._ended(name, number, end, retry=not stopping)
            for name, (_, job) in self._jobs.items():
                # The log file appears when the attempt begins; until then it waits in the cluster's queue.
                self._states[name] = "running" if job.log.with_suffix(".err").exists() else "waiting"
            if time.monotonic() - reported >= progress_seconds:
                say(progress.line(self._states))
                reported = time.monotonic()
            if self._jobs or self._queue:
                time.sleep(_POLL_SECONDS)
        say(progress.line(self._states))
        return SweepEnd(self._states, self._reasons, stop.signal_number)

    def stop(self) -> None:
        """Asks the running cells for a checkpoint, and waits until they have ended, without recording it."""
        self._launcher.stop()
        deadline = time.monotonic() + STOP_SECONDS
        while self._jobs and time.monotonic() < deadline:
            for name, _ in self._launcher.poll():
                del self._jobs[name]
            time.sleep(_POLL_SECONDS)

    def _start(self, name: str) -> None:
        folder = self._cells[name]
        settings = settings_from({**folder.cell.settings, **folder.decided()})
        # Relative if possible, because records with the command are published.
        inside = folder.run_dir.is_relative_to(self._cwd)
        run_dir = folder.run_dir.relative_to(self._cwd) if inside else folder.run_dir
        command = (*self._command, *flags_of(settings), f"--run_dir={run_dir}")
        if settings.actors and self._launcher.ray_address:
            command += (f"--ray_address={self._launcher.ray_address}",)
        try:
            number = folder.record_start(command)
        except PermissionError as error:
            return self._give_up(name, error)
        job = Job(
            name=name,
            label=folder.cell.label,
            command=command,
            cwd=self._cwd,
            run_dir=folder.run_dir,
            log=folder.path / "logs" / f"attempt-{number}",
            actors=settings.actors,
            memory=self._memory[name],
            stall_seconds=self._stall_seconds,
            stop_seconds=STOP_SECONDS,
            lock_seconds=LOCK_SECONDS,
        )
        self._jobs[name] = number, job
        self._launcher.start(job)

    def _give_up(self, name: str, error: PermissionError) -> None:
        """A folder that this user may not read or write stops no other cell."""
        folder, reason = self._cells[name], error.strerror or str(error)
        self._states[name], self._reasons[name] = "failed", reason
        _warn(f"'{folder.cell.label}' is left out: {reason} ({folder.path})")

    def _ended(self, name: str, number: int, end: AttemptEnd, *, retry: bool) -> None:
        folder = self._cells[name]
        if end.kind == "stopped" and retry:
            end = dataclasses.replace(end, kind="lost", reason="stopped by another process")
        if end.kind == "ended" and not folder.finished:
            end = dataclasses.replace(end, kind="failed", reason="ended without an error, but not finished")
        folder.record_end(number, end)
        if end.kind == "ended":
            self._states[name] = "finished"
            self._reasons.pop(name, None)
            return
        self._states[name] = "waiting"
        if end.kind == "stopped":
            return
        self._reasons[name] = end.reason
        count, limit = (self._failures, self._retries) if end.kind == "failed" else (self._losses, LOST_LIMIT)
        count[name] += 1
        again = count[name] <= limit
        if not again:
            self._states[name] = "failed"
        elif retry:
            self._queue.append(name)
        where = f" on {end.host}" if end.host else ""
        what = "trying again" if again and retry else "giving up" if not again else "stopping"
        _warn(f"'{folder.cell.label}' {end.kind}{where}: {end.reason}; {what} ({folder.path})")


class SweepProgress:
    """Steps, rate and time left of all cells."""

    def __init__(self, cells: Sequence[CellFolder]) -> None:
        self._cells = cells
        self._steps: dict[str, int] = {}
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def line(self, states: Mapping[str, State]) -> str:
        """Counts of cells by state, steps, rate, time left, and the running cells' mean returns; `states` by name."""
        returns = {}
        for folder in self._cells:
            name, total = folder.cell.name, folder.cell.total_steps
            if states[name] == "finished":
                self._steps[name] = total
            elif states[name] == "running" or name not in self._steps:
                steps, mean_return = folder.latest()
                self._steps[name] = min(steps, total)
                if states[name] == "running" and mean_return is not None:
                    returns[folder.cell.label] = mean_return
        done = sum(self._steps.values())
        total = sum(f.cell.total_steps for f in self._cells)
        left = sum(
            f.cell.total_steps - self._steps[f.cell.name]
            for f in self._cells
            if states[f.cell.name] in ("running", "waiting")
        )
        rate = self._rate(done)
        count = collections.Counter(states.values())
        parts = [
            f"{count['finished']}/{len(self._cells)} done, {count['running']} running, {count['failed']} failed, "
            f"{count['waiting']} waiting",
            f"{100 * done / total:.1f} %",
            f"{done:,}/{total:,} steps",
            f"{rate:,.0f} steps/s",
            f"{datetime.timedelta(seconds=round(left / rate)) if rate else '?'} left",
        ]
        parts += [f"{label}: {value:.2f}" for label, value in list(returns.items())[:_NAMED]]
        if len(returns) > _NAMED:
            parts.append(f"and {len(returns) - _NAMED} more")
        return "  ".join(parts)

    def _rate(self, done: int) -> float:
        now = time.monotonic()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        # A run that resumes from its checkpoint loses steps.
        return max(0, done - before) / (now - then) if now > then else 0.0


def _table(folders: Sequence[CellFolder], end: SweepEnd) -> list[str]:
    """The cells that are not finished, and why."""
    missing = [f for f in folders if end.states[f.cell.name] != "finished"]
    if not missing:
        return [f"all {len(folders)} cells are finished"]
    rows = [("cell", "state", "steps", "reason")]
    for folder in missing:
        name = folder.cell.name
        steps = f"{folder.latest()[0]:,}/{folder.cell.total_steps:,}"
        reason = end.reasons.get(name) or ("the sweep was stopped" if end.signal_number else "")
        state = "failed" if end.states[name] == "failed" else "interrupted" if folder.latest()[0] else "not begun"
        rows.append((folder.cell.label, state, steps, reason))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"{len(missing)} of {len(folders)} cells are missing:",
        *("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows),
        "the same command continues them; cells/*/logs/ holds their output",
    ]


def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
