"""Estimates with intervals, by rliable: Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice".

`resamples` and `seed` are the bootstrap's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rliable import library, metrics
from scipy.stats import trim_mean

RESAMPLES = 2_000  # rliable's default


class Estimate(NamedTuple):
    """An estimate and its 95 % percentile interval, from a bootstrap stratified by task; one run has no interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = "" if np.isnan(self.low) else f" [{self.low:z,.2f}, {self.high:z,.2f}]"
        return f"{self.value:z,.2f}{interval}"


class Band(NamedTuple):
    """An estimate along a curve, with its 95 % interval."""

    value: np.ndarray  # [G] float64
    low: np.ndarray  # [G] float64
    high: np.ndarray  # [G] float64


def interquartile_mean(scores: Sequence[Any] | np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Mean of the middle half of all scores.

    Args:
        scores: [runs] of one task, or [runs, tasks] of several, normalised.

    Raises:
        ValueError: no scores, or one that is not finite.
    """
    return _estimate((_checked(scores),), metrics.aggregate_iqm, resamples, seed)


def median(scores: Sequence[Any] | np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Median over tasks of the mean over runs. Arguments and errors as for `interquartile_mean`."""
    return _estimate((_checked(scores),), metrics.aggregate_median, resamples, seed)


def interquartile_mean_curve(scores: np.ndarray, *, resamples: int = 1_000, seed: int = 0) -> Band:
    """`interquartile_mean` at each of G points, each with its own resamples, as in rliable.

    Args:
        scores: [runs, tasks, G].

    Raises:
        ValueError: no scores, or one that is not finite.
    """
    values = _checked(scores)

    def iqm(x: np.ndarray) -> np.ndarray:
        # metrics.aggregate_iqm of all points at once.
        return trim_mean(x.reshape(-1, x.shape[-1]), 0.25, axis=0)

    point, (low, high) = _bootstrap(values, iqm, resamples, seed)
    return Band(point, low, high)


def probability_of_improvement(x: np.ndarray, y: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """The probability that a run of method X beats one of Y, mean over tasks; ties count half.

    Args:
        x: [runs of X, tasks].
        y: [runs of Y, tasks], the same tasks in the same order.

    Raises:
        ValueError: no scores, one that is not finite, or numbers of tasks that differ.
    """
    pair = _checked(x), _checked(y)
    if pair[0].shape[1] != pair[1].shape[1]:
        raise ValueError(f"want the same tasks of both methods, got {pair[0].shape[1]} and {pair[1].shape[1]}")
    # metrics.probability_of_improvement of all pairs at once: thousands of resamples are a matter of seconds.
    return _estimate(pair, lambda a, b: np.mean((np.sign(a[:, None] - b[None]) + 1) / 2), resamples, seed)


def mean_and_error(scores: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean, and standard error of the mean; NaN with fewer than two scores."""
    values = np.asarray(scores, float)
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return (float(values.mean()) if len(values) else np.nan), float(error)


def _estimate(groups: tuple[np.ndarray, ...], metric: Callable[..., float], resamples: int, seed: int) -> Estimate:
    if all(len(values) == 1 for values in groups):
        return Estimate(float(metric(*groups)), np.nan, np.nan)
    values = groups if len(groups) > 1 else groups[0]
    point, (low, high) = _bootstrap(values, lambda *x: np.array([metric(*x)]), resamples, seed)
    return Estimate(float(point[0]), float(low[0]), float(high[0]))


def _bootstrap(
    values: np.ndarray | tuple[np.ndarray, ...], metric: Callable[..., np.ndarray], resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    # rliable draws from NumPy's global generator, even if it is given a random_state.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        points, intervals = library.get_interval_estimates({"": values}, metric, reps=resamples)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    return points[""], intervals[""]


def _checked(scores: Any) -> np.ndarray:
    """[runs, tasks, ...] float64, rliable's shape."""
    values = np.asarray(scores, float)
    if not (values.size and np.isfinite(values).all()):
        raise ValueError(f"want one finite score per run, got {values.tolist()}")
    return values[:, None] if values.ndim == 1 else values
