"""Cells as processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd, Job
from acer_tf.reproduction.sweep.cells import SweepError


class LocalLauncher:
    """Runs at most `processes` cells at a time.

    Args:
        processes: at least 1.
        threads: of each; 0 for an equal share of the cores.
        available: bytes of memory; None for the machine's free memory.
    """

    def __init__(self, processes: int = 1, threads: int = 0, available: int | None = None) -> None:
        self.threads = threads or max(1, len(os.sched_getaffinity(0)) // processes)
        self._processes = processes
        self._available = available
        self._attempts: dict[str, Attempt] = {}

    def check(self, memory: Sequence[int]) -> None:
        from acer_tf.training.build import available_memory  # see launcher.resolved

        available = available_memory() if self._available is None else self._available
        # Any cells may run together, so the largest ones must fit.
        largest = sorted(memory, reverse=True)[: self._processes]
        if sum(largest) <= available:
            return
        fits = max((n for n in range(len(largest)) if sum(largest[:n]) <= available), default=0)
        raise SweepError(
            f"--processes={self._processes}: {len(largest)} cells at a time need up to {sum(largest) / 1e9:.1f} GB of "
            f"memory, but {available / 1e9:.1f} GB are available; "
            + (f"at most --processes={fits} fits" if fits else f"one alone needs {largest[0] / 1e9:.1f} GB")
        )

    def open(self, sweep_dir: Path) -> None:
        pass

    def room(self) -> int:
        return self._processes - len(self._attempts)

    def start(self, job: Job) -> None:
        self._attempts[job.name] = Attempt(job)

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        ended = [(name, end) for name, attempt in self._attempts.items() if (end := attempt.poll()) is not None]
        for name, _ in ended:
            del self._attempts[name]
        return ended

    def stop(self) -> None:
        for attempt in self._attempts.values():
            attempt.stop()

    def close(self) -> None:
        for attempt in self._attempts.values():
            attempt.close()
