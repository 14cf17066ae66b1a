"""Repeated, interleaved measurements, and their median and spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Measurement(NamedTuple):
    """One figure, measured several times."""

    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def document(self) -> dict[str, Any]:
        """For JSON: the unit, the median, the extremes, and every value."""
        return {
            "unit": self.unit,
            "median": self.median,
            "low": min(self.values),
            "high": max(self.values),
            "values": list(self.values),
        }


class Group(NamedTuple):
    """The outcome of one group."""

    measurements: dict[str, Measurement]
    facts: dict[str, Any]  # counts and settings, JSON-able


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


def milliseconds(call: Callable[[], Any], calls: int) -> Workload:
    """The time of one call, as the mean of `calls` calls in a row."""
    return Workload("ms", lambda: 1e3 * _seconds(call, calls) / calls)


def rate(call: Callable[[], Any], calls: int, amount: float, unit: str) -> Workload:
    """`amount` per call and second, over `calls` calls in a row."""
    return Workload(unit, lambda: amount * calls / _seconds(call, calls))


def steps_per_second(loop: Any, iterations: int) -> float:
    """Environment steps per second of so many iterations of a `training.loop.Loop`."""
    steps, began = loop.collector.steps, time.perf_counter()
    for _ in range(iterations):
        loop.iterate()
    return (loop.collector.steps - steps) / (time.perf_counter() - began)


def _seconds(call: Callable[[], Any], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - began
