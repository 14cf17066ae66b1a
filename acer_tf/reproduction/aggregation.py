"""From learning curves to the scores that papers report: means over recent steps, cumulative maxima, medians."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from acer_tf.reproduction.curves import RunCurve

# The ACER paper, §4: "the past 1 million consecutive frames of training"; frames are the emulator's, 4 per step.
ATARI_WINDOW_STEPS = 250_000
Axis = Literal["steps", "seconds"]


def training_score(run: RunCurve, window: float) -> np.ndarray:
    """Mean raw return of the episodes that ended in the last `window` steps, at the end of each log interval.

    Args:
        run: P log intervals.
        window: steps, rounded up to whole log intervals; shorter at the beginning of the run.

    Returns:
        [P] float64; NaN if no episode ended in the window.
    """
    episodes = np.diff(run.episodes, prepend=0.0)
    total = np.cumsum(np.where(episodes > 0, np.nan_to_num(run.interval_return) * episodes, 0.0))
    # The last interval that ends before the window begins; -1 where the window reaches back to the start.
    before = np.searchsorted(run.steps, run.steps - window, side="right") - 1
    ended = run.episodes - np.where(before >= 0, run.episodes[before], 0.0)
    returns = total - np.where(before >= 0, total[before], 0.0)
    return np.divide(returns, ended, out=np.full(len(ended), np.nan), where=ended > 0)


def final_score(run: RunCurve, window: float) -> float:
    """`training_score` at the end of the curve."""
    return float(training_score(run, window)[-1])


def final_return(run: RunCurve, share: float = 0.1) -> float:
    """`final_score` over the last `share` of its steps."""
    return final_score(run, share * run.steps[-1])


def cumulative_maximum(values: np.ndarray) -> np.ndarray:
    """The largest value so far; NaN before the first and after the last value that is not NaN."""
    known = ~np.isnan(values)
    largest = np.fmax.accumulate(values)
    end = np.flatnonzero(known)[-1] + 1 if known.any() else 0
    return np.where(np.arange(len(values)) < end, largest, np.nan)


def reached(runs: Sequence[RunCurve], axis: Axis = "steps") -> float:
    """Where the shortest of `runs` ends, in steps or seconds."""
    return min(float(getattr(run, axis)[-1]) for run in runs)


def hours_per_run(runs: Mapping[str, Sequence[RunCurve]]) -> float:
    """Mean over runs, which are by task."""
    return float(np.mean([run.seconds[-1] / 3600 for seeds in runs.values() for run in seeds]))


def equally_long(runs: Sequence[RunCurve]) -> list[RunCurve]:
    """`runs` up to the end of the shortest."""
    return [run.until(reached(runs)) for run in runs] if runs else []


def score_at(run: RunCurve, points: np.ndarray, window: float, axis: Axis = "steps") -> np.ndarray:
    """`training_score` at each of `points` [G], linear between log intervals: [G] float64; NaN outside the scores."""
    scores, x = training_score(run, window), getattr(run, axis)
    known = ~np.isnan(scores)
    if not known.any():
        return np.full(len(points), np.nan)
    return np.interp(points, x[known], scores[known], left=np.nan, right=np.nan)


def task_scores(
    runs: Mapping[str, Sequence[RunCurve]],
    points: np.ndarray,
    window: float,
    normalize: Callable[[str, float], float],
    axis: Axis = "steps",
) -> np.ndarray:
    """`score_at` of each task, mean over its seeds, normalised: [tasks, G]; NaN after the shortest seed's end."""
    means = [np.mean([score_at(run, points, window, axis) for run in seeds], axis=0) for seeds in runs.values()]
    return np.array([[normalize(t, s) for s in mean] for t, mean in zip(runs, means, strict=True)])
