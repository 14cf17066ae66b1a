"""Runs the cells of a sweep to their end, through failures and interruptions."""

from __future__ import annotations

import collections
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from acer_tf.reproduction.sweep.attempt import AttemptEnd, Job
from acer_tf.reproduction.sweep.cells import Cell, flags_of, require_distinct
from acer_tf.reproduction.sweep.folder import CellFolder, SweepFolder
from acer_tf.reproduction.sweep.launcher import Launcher, memory_of, resolved
from acer_tf.reproduction.sweep.progress import State, SweepProgress
from acer_tf.training.signals import StopRequest

# A lost node is no fault of the cell, so it costs none of its retries. But what takes down its node each time must end.
LOST_LIMIT = 10
# For a checkpoint of the largest replay.
STOP_SECONDS = 120.0
# A network file system takes a minute or two to free the locks of a host that is gone.
LOCK_SECONDS = 180.0
_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class SweepEnd:
    """How a sweep ended.

    Attributes:
        states: of the cells, by name.
        reasons: why a cell is not finished, by name.
        signal_number: of the signal that stopped it; None where it came to its end.
    """

    states: dict[str, State]
    reasons: dict[str, str]
    signal_number: int | None

    @property
    def exit_code(self) -> int:
        """0 if all cells are finished, 128 + the signal's number where one stopped it, else 1."""
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
    """Runs every cell that is not finished yet; the same call later continues where this one stopped.

    Args:
        experiment: its name. A folder belongs to one.
        cells: to run, in this order.
        sweep_dir: the sweep's folder; made where it does not exist.
        launcher: where the cells run. Closed at the end.
        program: the command that runs one cell, given the flags of `acer_tf train`.
        cwd: where it is run.
        retries: further attempts at a cell that failed.
        stall_minutes: without progress, after which a cell is stopped, and the attempt has failed.
        checkpoint_minutes: between the checkpoints of each run.
        progress_seconds: between lines of progress.
        say: takes the lines of progress and the last table.

    Returns:
        What became of each cell.

    Raises:
        SweepError: bad input; nothing was started, and nothing changed.
    """
    try:
        require_distinct(cells)
        memory = {cell.name: memory_of(*run) for cell, run in zip(cells, resolved(cells), strict=True)}
        open_cells = [c for c in cells if not CellFolder(sweep_dir / "cells" / c.name, c).finished]
        if open_cells:
            launcher.check([memory[cell.name] for cell in open_cells])
        folder = SweepFolder(sweep_dir.absolute(), experiment, cells)
        try:
            launcher.open(folder.path)
            command = [*program, f"--threads={launcher.threads}", f"--checkpoint_minutes={checkpoint_minutes:g}"]
            sweep = _Sweep(folder.cells, launcher, memory, command, cwd, retries, stall_minutes * 60.0)
            for note in folder.notes:
                _warn(note)
            with StopRequest("asking the cells for a checkpoint, then stopping") as stop:
                end = sweep.run(stop, progress_seconds, say)
        finally:
            folder.close()
    finally:
        launcher.close()
    for line in _table(folder.cells, end):
        say(line)
    return end


class _Sweep:
    """The state of one process's share of a sweep."""

    def __init__(
        self,
        cells: Sequence[CellFolder],
        launcher: Launcher,
        memory: dict[str, int],
        command: Sequence[str],
        cwd: Path,
        retries: int,
        stall_seconds: float,
    ) -> None:
        self._cells = {folder.cell.name: folder for folder in cells}
        self._launcher, self._memory, self._command, self._cwd = launcher, memory, command, cwd
        self._retries, self._stall_seconds = retries, stall_seconds
        self._states: dict[str, State] = dict.fromkeys(self._cells, "waiting")
        self._queue: collections.deque[str] = collections.deque()
        self._jobs: dict[str, tuple[int, Job]] = {}
        self._failures: collections.Counter[str] = collections.Counter()
        self._losses: collections.Counter[str] = collections.Counter()
        self._reasons: dict[str, str] = {}

    def run(self, stop: StopRequest, progress_seconds: float, say: Callable[[str], None]) -> SweepEnd:
        for name, folder in self._cells.items():
            if damage := folder.set_aside_damaged():
                _warn(damage)
            if folder.finished:
                self._states[name] = "finished"
            else:
                self._queue.append(name)
        progress = SweepProgress(list(self._cells.values()))
        said, asked = float("-inf"), False
        while self._queue or self._jobs:
            if stop.signal_number is not None and not asked:
                asked = True
                self._queue.clear()
                self._launcher.stop()
            while self._queue and self._launcher.room() > 0:
                self._start(self._queue.popleft())
            for name, end in self._launcher.poll():
                self._ended(name, end, retry=not asked)
            for name, (_, job) in self._jobs.items():
                # The log is opened where the attempt runs, when it begins: until then Ray keeps it waiting.
                self._states[name] = "running" if job.log.with_suffix(".err").exists() else "waiting"
            if time.monotonic() - said >= progress_seconds:
                say(progress.line(self._states))
                said = time.monotonic()
            if self._jobs:
                time.sleep(_POLL_SECONDS)
        say(progress.line(self._states))
        return SweepEnd(self._states, self._reasons, stop.signal_number)

    def _start(self, name: str) -> None:
        folder = self._cells[name]
        settings = dataclasses.replace(folder.cell.settings, **folder.decided())
        # Records are published: they name a folder that every checkout has, rather than one of this machine.
        below = folder.run_dir.is_relative_to(self._cwd)
        run_dir = folder.run_dir.relative_to(self._cwd) if below else folder.run_dir
        command = (*self._command, *flags_of(settings), f"--run_dir={run_dir}")
        number = folder.record_start(command)
        job = Job(
            name=name,
            label=folder.cell.label,
            command=command,
            cwd=self._cwd,
            run_dir=folder.run_dir,
            log=folder.path / "logs" / f"attempt-{number}",
            threads=self._launcher.threads,
            memory=self._memory[name],
            stall_seconds=self._stall_seconds,
            stop_seconds=STOP_SECONDS,
            lock_seconds=LOCK_SECONDS,
        )
        self._jobs[name] = number, job
        self._launcher.start(job)

    def _ended(self, name: str, end: AttemptEnd, *, retry: bool) -> None:
        number, _ = self._jobs.pop(name)
        folder = self._cells[name]
        if end.kind == "stopped" and retry:
            end = dataclasses.replace(end, kind="lost", reason="stopped by someone else")
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
        what = "tried again" if again and retry else "given up" if not again else "left"
        _warn(f"'{folder.cell.label}' {end.kind}{where}: {end.reason}; {what} ({folder.path})")


def _table(folders: Sequence[CellFolder], end: SweepEnd) -> list[str]:
    """What is missing and why."""
    missing = [f for f in folders if end.states[f.cell.name] != "finished"]
    if not missing:
        return [f"all {len(folders)} cells are finished"]
    rows = [("cell", "state", "steps", "reason")]
    for folder in missing:
        name = folder.cell.name
        steps = f"{folder.latest()[0]:,}/{folder.cell.settings.total_steps:,}"
        reason = end.reasons.get(name) or ("the sweep was stopped" if end.signal_number else "")
        state = "failed" if end.states[name] == "failed" else "interrupted" if folder.latest()[0] else "not begun"
        rows.append((folder.cell.label, state, steps, reason))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"{len(missing)} of {len(folders)} cells are missing:",
        *("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows),
        "the same command continues them; cells/*/logs/ has what they said",
    ]


def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
