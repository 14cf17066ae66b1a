"""Estimates with intervals, by rliable: Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice"."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rliable import library, metrics
from scipy.stats import norm, permutation_test, rankdata, trim_mean

RESAMPLES, CURVE_RESAMPLES = 2_000, 1_000  # resamples of the bootstrap
RANGES = "of two to four runs in one task, [ ] is their range, which is no interval of 95 %"
_LEVEL = 0.05
_ORDERS = 2 / _LEVEL  # where chance can order the runs in fewer ways, even the clearest order has a p above that
_MANY = 100


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


class Comparison(NamedTuple):
    """Whether something is better than something else: the estimate lies above `even` if it is, else below."""

    estimate: Estimate = Estimate(np.nan, np.nan, np.nan)
    even: float = 0.5
    needs: str = "runs of it"  # what would decide it where interval and test do not
    needed: float = math.inf  # the number in it, to compare
    what: str = ""  # the estimate; by default the probability that a run of one kind beats one of the other
    p: float = np.nan  # of the test, two-sided; NaN where `compare` has none

    @property
    def side(self) -> int:
        """1 if it is shown to be better, -1 if it is shown to be worse, 0 if neither is."""
        return 0 if self.p > _LEVEL else int(self.estimate.low > self.even) - int(self.estimate.high < self.even)

    @property
    def known(self) -> tuple[bool, bool]:
        """Whether it has a value, and whether it has an interval."""
        return bool(np.isfinite(self.estimate.value)), bool(np.isfinite(self.estimate.low))

    def __str__(self) -> str:
        even = "" if self.even == (0.0 if self.what else 0.5) else f" (no difference: {self.even:g})"
        p = "" if np.isnan(self.p) else f", p {_shown(self.p)}"
        return "" if np.isnan(self.estimate.value) else f"{self.what} {self.estimate}{p}{even}".lstrip()


def _shown(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


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

    def middle(x: np.ndarray) -> np.ndarray:  # metrics.aggregate_iqm of all points at once
        return np.asarray(trim_mean(x.reshape(-1, x.shape[-1]), 0.25, axis=0))

    values = _checked(scores)
    if len(values) > 1:
        return _bootstrap(values, middle, CURVE_RESAMPLES)
    none = np.full(values.shape[-1], np.nan)
    return Estimate(middle(values), none, none)


class Test(NamedTuple):
    """A test of whether a metric of groups of runs is even: the bootstrap's intervals of few runs are too narrow.

    Both functions take the groups.
    """

    p: Callable[..., float]  # two-sided
    needed: Callable[..., float]  # in how many runs each the same estimate would be significant


def probability_of_improvement(x: np.ndarray, y: np.ndarray, *, unit: str = "seeds") -> Comparison:
    """The probability that a run of method X, [runs, tasks], beats one of Y, mean over tasks; ties count half.

    `unit` as for `compare`.

    Raises ValueError without scores, for one that is not finite, or for numbers of tasks that differ.
    """
    pair = _checked(x), _checked(y)
    if pair[0].shape[1] != pair[1].shape[1]:
        raise ValueError(f"expected the same tasks of both methods, got {pair[0].shape[1]} and {pair[1].shape[1]}")
    return compare(wins, *pair, test=Test(permutation_p, _needed_of_wins), unit=unit)


def larger_gain(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, *, what: str) -> Comparison:
    """Whether A beats B more often than C beats D, [runs, tasks] each; `what` names the difference."""

    def gain(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
        return wins(a, b) - wins(c, d)

    return compare(gain, a, b, c, d, test=Test(gain_p, _needed_of_gains), even=0.0, what=what)


def mean_gap(x: np.ndarray) -> Comparison:
    """Whether the mean of gaps, of runs in one task, [runs, 1], is above 0."""
    return compare(np.mean, x, test=Test(lambda x: sign_p(x[:, 0]), _needed_of_signs), even=0.0, what="mean gap")


def wins(x: np.ndarray, y: np.ndarray) -> float:
    """The share of pairs of a run of X and one of Y, [runs, tasks] each, that X wins, mean over tasks."""
    # metrics.probability_of_improvement of all pairs at once: thousands of resamples are a matter of seconds.
    return float(np.mean((np.sign(x[:, None] - y[None]) + 1) / 2))


def permutation_p(x: np.ndarray, y: np.ndarray) -> float:
    """Twice the smaller tail of `wins`, at most 1, if chance puts the runs of each task to X and Y.

    Exact: every way to put them counts.
    """
    return _two_sided(*_chances(x, y), wins(x, y))


def gain_p(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """As `permutation_p`, of `wins(A, B)` less `wins(C, D)`, if chance puts the runs of each task to both of a pair."""
    (shares, chances), (others, of_others) = _chances(a, b), _chances(c, d)
    less, both = np.subtract.outer(shares, others), np.outer(chances, of_others)
    return _two_sided(less.ravel(), both.ravel(), wins(a, b) - wins(c, d))


def _two_sided(values: np.ndarray, chances: np.ndarray, observed: float) -> float:
    near = 1e-9  # of values that differ in rounding alone
    return float(min(1.0, 2 * min(chances[values < observed + near].sum(), chances[values > observed - near].sum())))


def _chances(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values that `wins` can take if chance puts the runs of each task to X and Y, and the chance of each."""
    runs, others = len(x), len(y)
    won = np.ones(1)  # the chance of each number of pairs that X wins, in halves
    for scores in np.concatenate([x, y]).T:
        ranks = np.rint(2 * rankdata(scores)).astype(int)  # of ties the mean, which is a half of an integer
        ways = np.zeros((runs + 1, runs * (runs + 1) + 2 * runs * others + 1))  # to choose so many, with this sum
        ways[0, 0] = 1.0
        for rank in ranks:
            ways[1:, rank:] += ways[:-1, :-rank].copy()
        won = np.convolve(won, ways[runs, runs * (runs + 1) :] / ways[runs].sum())
    return np.arange(len(won)) / (2 * runs * others * x.shape[1]), won


def sign_p(x: np.ndarray) -> float:
    """Twice the smaller tail of the mean of scores [runs], if chance gives each its sign; exact up to 16 runs."""

    def mean(of: np.ndarray, at: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(np.mean(of - at, axis=axis))

    pairs = x, np.zeros_like(x)
    return float(permutation_test(pairs, mean, permutation_type="samples", n_resamples=2**16, rng=0).pvalue)


def compare(
    metric: Callable[..., float],
    *groups: np.ndarray,
    test: Test | None = None,
    even: float = 0.5,
    unit: str = "seeds",
    what: str = "",
) -> Comparison:
    """The interval of a metric of groups of runs, [runs, tasks] each, from a bootstrap stratified by task.

    With a single run of one of them the tasks are resampled. The interval is NaN if so few runs could not show a
    difference at 95 %, however clear: two groups of a and b runs have C(a + b, a) orders in each task, of which chance
    makes every one; a group of n runs can lie on the sides of a value in 2^n ways.

    Args:
        metric: of resampled groups; above `even` if the claim holds.
        test: which the comparison must pass, too.
        unit: of what `needs` counts: what a run differs from the next one in.
        what: the name of the metric; by default it is a probability of improvement.
    """
    runs, tasks = min(map(len, groups)), groups[0].shape[1]
    value, sizes = float(metric(*groups)), [*map(len, groups)]
    if _orders(sizes, tasks) < _ORDERS or runs == tasks == 1:
        paired = runs == 1 and tasks > 1 and unit != "seeds"  # the tasks are what is counted
        asked = ((n, sizes if paired else [n] * len(groups)) for n in itertools.count(2))
        enough = next(n for n, of in asked if _orders(of, n if paired else tasks) >= _ORDERS)
        more = f"{enough} {unit}"
        if runs == 1 and tasks > 1 and not paired:  # as tasks are resampled where there is one run in each
            more = f"{next(n for n in itertools.count(2) if _orders(sizes, n) >= _ORDERS)} tasks, or {more}"
        return Comparison(Estimate(value, np.nan, np.nan), even, more, enough, what)
    if runs > 1:
        estimate = _estimate(groups, metric)
    else:
        numbers = np.arange(tasks)
        estimate = _estimate((numbers[:, None],), lambda drawn: metric(*(group[:, drawn[:, 0]] for group in groups)))
        runs, unit = (tasks, "tasks") if unit == "seeds" else (tasks, unit)
    # The width of an interval falls with the square root of the runs.
    bound, gap = estimate.low if value > even else estimate.high, abs(value - even)
    needed = runs * (abs(value - bound) / gap) ** 2 if gap else math.inf
    p = test.p(*groups) if test else np.nan
    if test and p > _LEVEL and gap:
        # With the square root of the tasks the estimate's distance from even grows, in standard errors.
        apart = norm.isf(p / 2)
        by_tasks = runs * (norm.isf(_LEVEL / 2) / apart) ** 2 if apart > 0 else math.inf
        needed = max(needed, by_tasks if unit == "tasks" else test.needed(*groups))
    needed = max(runs + 1, math.ceil(needed)) if needed <= _MANY else needed
    text = f"more than {_MANY} {unit}" if needed > _MANY else f"about {needed} {unit}"
    return Comparison(estimate, even, text, needed, what, p)


def _needed_of_wins(x: np.ndarray, y: np.ndarray) -> float:
    """By the variance of `wins` where chance orders n runs of each: (2 n + 1) / (12 n^2) in each task."""
    return _needed(12 * x.shape[1] * (wins(x, y) - 0.5) ** 2)


def _needed_of_gains(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """By twice that variance."""
    return _needed(6 * a.shape[1] * (wins(a, b) - wins(c, d)) ** 2)


def _needed(weight: float) -> float:
    squared = norm.isf(_LEVEL / 2) ** 2
    return float((squared + math.sqrt(squared**2 + weight * squared)) / weight)


def _needed_of_signs(x: np.ndarray) -> float:
    """By the variance of the mean where chance gives each gap its sign."""
    return float(norm.isf(_LEVEL / 2) ** 2 * np.mean(x**2) / np.mean(x) ** 2)


def _orders(sizes: Sequence[int], tasks: int) -> int:
    """In how many orders chance can put the runs of the two smallest groups; of one group, on the sides of a value."""
    first, *others = sorted(sizes)[:2]
    return int((math.comb(first + others[0], first) if others else 2**first) ** tasks)


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
