"""From learning curves to the scores that papers report: windows of training, cumulative maxima, medians over games."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from acer_tf.reproduction.curves import RunCurve

# The ACER paper, §4: "the past 1 million consecutive frames of training"; frames are the emulator's, 4 per step.
ATARI_WINDOW_STEPS = 250_000
Axis = Literal["steps", "seconds"]


def training_score(run: RunCurve, window: float) -> np.ndarray:
    """Mean raw return of the games that ended in the last `window` steps, at the end of each log interval.

    Args:
        run: P log intervals.
        window: steps, at least; whole log intervals are taken. Early in the run, what there is of it.

    Returns:
        [P] float64; NaN where no game ended in the window.
    """
    games = np.diff(run.games, prepend=0.0)
    total = np.cumsum(np.where(games > 0, np.nan_to_num(run.interval_return) * games, 0.0))
    # The last interval that ends before the window begins; -1 where the window reaches back to the start.
    before = np.searchsorted(run.steps, run.steps - window, side="right") - 1
    ended = run.games - np.where(before >= 0, run.games[before], 0.0)
    returns = total - np.where(before >= 0, total[before], 0.0)
    return np.divide(returns, ended, out=np.full(len(ended), np.nan), where=ended > 0)


def final_score(run: RunCurve, window: float) -> float:
    """`training_score` at the end of what was done."""
    return float(training_score(run, window)[-1])


def final_return(run: RunCurve, share: float = 0.1) -> float:
    """`final_score` over the last `share` of the steps done."""
    return final_score(run, share * run.steps[-1])


def cumulative_maximum(values: np.ndarray) -> np.ndarray:
    """The largest value so far; NaN before the first, and from the last on, so that a curve ends where its data do."""
    known = ~np.isnan(values)
    largest = np.fmax.accumulate(values)
    end = np.flatnonzero(known)[-1] + 1 if known.any() else 0
    return np.where(np.arange(len(values)) < end, largest, np.nan)


def reached(runs: Sequence[RunCurve], axis: Axis = "steps") -> float:
    """As far as every one of `runs` has come, in steps or seconds."""
    return min(float(getattr(run, axis)[-1]) for run in runs)


def equally_long(runs: Sequence[RunCurve]) -> list[RunCurve]:
    """`runs` as far as the shortest of them has come."""
    return [run.until(reached(runs)) for run in runs] if runs else []


def score_at(run: RunCurve, points: np.ndarray, window: float, axis: Axis = "steps") -> np.ndarray:
    """`training_score` at each of `points`, linear between log intervals.

    Args:
        run: P log intervals.
        points: [G] steps or seconds.
        window: steps.
        axis: what `points` are.

    Returns:
        [G] float64; NaN before the first score and behind the end.
    """
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
    """Normalised score of each task, mean over its seeds: [tasks, G]; NaN from where the shortest seed ends.

    Args:
        runs: by task.
        points: [G] steps or seconds.
        window: steps.
        normalize: (task, raw score) to normalised score.
        axis: what `points` are.
    """
    means = [np.mean([score_at(run, points, window, axis) for run in seeds], axis=0) for seeds in runs.values()]
    return np.array([[normalize(t, s) for s in mean] for t, mean in zip(runs, means, strict=True)])


def median_over_tasks(scores: np.ndarray) -> np.ndarray:
    """[tasks, G] to [G]; NaN wherever a task has no score, for the median of the others is another quantity."""
    return np.median(scores, axis=0) if len(scores) else np.full(scores.shape[1:], np.nan)
