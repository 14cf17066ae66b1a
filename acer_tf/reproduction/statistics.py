"""Estimates with intervals, by rliable: Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice"."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rliable import library, metrics


class Estimate(NamedTuple):
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float


def interquartile_mean(scores: Sequence[float], *, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Mean of the middle half of several runs' scores in one task, with its percentile bootstrap interval.

    Args:
        scores: one per run.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        ValueError: no scores, or one that is not finite.
    """
    values = np.asarray(scores, float)
    if not (values.size and np.isfinite(values).all()):
        raise ValueError(f"want one finite score per run, got {values.tolist()}")
    runs = {"": values[:, None]}  # rliable's shape: runs × tasks
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "random_state is deprecated", FutureWarning)  # rliable's call of arch
        points, intervals = library.get_interval_estimates(
            runs,
            lambda x: np.array([metrics.aggregate_iqm(x)]),
            reps=resamples,
            random_state=np.random.RandomState(seed),
        )
    low, high = intervals[""][:, 0]
    return Estimate(float(points[""][0]), float(low), float(high))
