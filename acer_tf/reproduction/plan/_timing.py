"""Repeated, interleaved measurements."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Measurement(NamedTuple):
    """One figure, measured several times."""

    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


class Workload(NamedTuple):
    """What is measured: `run` does some work and returns the figure, in `unit`."""

    unit: str
    run: Callable[[], float]


def interleaved(workloads: Mapping[str, Workload], repetitions: int) -> dict[str, Measurement]:
    """Runs every workload once to warm up, then all of them in turn, `repetitions` times.

    A machine's speed drifts, above all one that others share: in turn, the drift meets all workloads alike, and ratios
    between them hold.

    Raises:
        ValueError: fewer than one repetition.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1, got {repetitions}")
    values: dict[str, list[float]] = {name: [] for name in workloads}
    for repetition in range(repetitions + 1):
        for name, workload in workloads.items():
            value = workload.run()
            if repetition > 0:
                values[name].append(value)
    return {name: Measurement(workloads[name].unit, tuple(values[name])) for name in workloads}
