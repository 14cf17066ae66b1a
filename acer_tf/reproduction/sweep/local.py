"""Runs cells as processes on this machine."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path

from acer_tf import resources
from acer_tf.errors import SweepError
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from acer_tf.training.device import gpu_count


class LocalLauncher:
    """Runs at most `processes` cells at a time.

    Args:
        processes: at least 1.
        threads: of each; 0 for an equal share of the cores.
        gpus_per_cell: of each run, at most 1; 0 leaves the device to the run.
    """

    ray_address = ""

    def __init__(self, processes: int = 1, threads: int = 0, *, gpus_per_cell: float = 0.0) -> None:
        self.threads = threads or max(1, resources.available_cores() // processes)
        self._processes = processes
        self._attempts: dict[str, Attempt] = {}
        self._share = gpus_per_cell
        self._gpus = gpu_count() if gpus_per_cell else 0
        self._gpu_of: dict[str, int] = {}

    def check(self, memory: Sequence[int], actors: int = 0) -> None:
        side_by_side = min(self._processes, len(memory))
        fits = self._gpus * int(1 / self._share + 1e-9) if self._share else side_by_side
        if fits < side_by_side:
            raise SweepError(
                f"--gpus_per_cell={self._share:g}: {side_by_side} cells at a time do not fit on the {self._gpus} GPUs "
                f"that TensorFlow sees here; {f'at most --processes={fits} fits' if fits else 'leave it out'}"
            )
        available = resources.available_memory()
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

    def room(self, actors: int) -> int:
        return self._processes - len(self._attempts)

    def start(self, attempt: Attempt) -> None:
        if self._share:
            taken = collections.Counter(self._gpu_of[name] for name in self._attempts)
            gpu = self._gpu_of[attempt.cell.name] = min(range(self._gpus), key=lambda n: taken[n])
            attempt.command += (f"--device=gpu:{gpu}",)
        self._attempts[attempt.cell.name] = attempt

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
