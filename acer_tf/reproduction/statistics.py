"""Estimates with intervals, by rliable: Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice"."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rliable import library, metrics
from scipy.stats import trim_mean

RESAMPLES, CURVE_RESAMPLES = 2_000, 1_000  # resamples of the bootstrap


class Estimate(NamedTuple):
    """An estimate and its 95 % percentile interval, from a bootstrap stratified by task.

    The interval is NaN if a method has one run.
    """

    value: Any  # float; along a curve [G] float64, as are low and high
    low: Any
    high: Any

    def __str__(self) -> str:
        interval = "" if np.isnan(self.low) else f" [{self.low:z,.2f}, {self.high:z,.2f}]"
        return f"{self.value:z,.2f}{interval}"


def interquartile_mean(scores: Sequence[Any] | np.ndarray) -> Estimate:
    """The mean of the middle half of all scores, [runs] of one task, or [runs, tasks] of several, normalised.

    Raises ValueError without scores, or for one that is not finite.
    """
    return _estimate((_checked(scores),), metrics.aggregate_iqm)


def median(scores: Sequence[Any] | np.ndarray) -> Estimate:
    """The median over tasks of the mean over runs. Arguments and errors as for `interquartile_mean`."""
    return _estimate((_checked(scores),), metrics.aggregate_median)


def interquartile_mean_curve(scores: np.ndarray) -> Estimate:
    """The `interquartile_mean` at each of G points of [runs, tasks, G], each with its own resamples, as in rliable."""
    # metrics.aggregate_iqm of all points at once.
    return _bootstrap(_checked(scores), lambda x: trim_mean(x.reshape(-1, x.shape[-1]), 0.25, axis=0), CURVE_RESAMPLES)


def probability_of_improvement(x: np.ndarray, y: np.ndarray) -> Estimate:
    """The probability that a run of method X, [runs, tasks], beats one of Y, mean over tasks; ties count half.

    Raises ValueError without scores, for one that is not finite, or for numbers of tasks that differ.
    """
    pair = _checked(x), _checked(y)
    if pair[0].shape[1] != pair[1].shape[1]:
        raise ValueError(f"expected the same tasks of both methods, got {pair[0].shape[1]} and {pair[1].shape[1]}")
    # metrics.probability_of_improvement of all pairs at once: thousands of resamples are a matter of seconds.
    return _estimate(pair, lambda a, b: np.mean((np.sign(a[:, None] - b[None]) + 1) / 2))


def mean_and_error(scores: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The mean, and its standard error, which is NaN with fewer than two scores."""
    values = np.asarray(scores, float)
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return (float(values.mean()) if len(values) else np.nan), float(error)


def _estimate(groups: tuple[np.ndarray, ...], metric: Callable[..., float]) -> Estimate:
    if any(len(values) == 1 for values in groups):
        return Estimate(float(metric(*groups)), np.nan, np.nan)
    values = groups if len(groups) > 1 else groups[0]
    return Estimate(*(float(x[0]) for x in _bootstrap(values, lambda *x: np.array([metric(*x)]), RESAMPLES)))


def _bootstrap(values: Any, metric: Callable[..., np.ndarray], resamples: int) -> Estimate:
    # rliable draws from NumPy's global generator, even if it is given a random_state.
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    try:
        points, intervals = library.get_interval_estimates({"": values}, metric, reps=resamples)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    return Estimate(points[""], *intervals[""])


def _checked(scores: Any) -> np.ndarray:
    """Brings scores into the shape of rliable: [runs, tasks, ...] float64."""
    values = np.asarray(scores, float)
    if not (values.size and np.isfinite(values).all()):
        raise ValueError(f"expected one finite score per run, got {values.tolist()}")
    return values[:, None] if values.ndim == 1 else values
