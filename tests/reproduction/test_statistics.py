# ruff: noqa: NPY002 - rliable draws from NumPy's global generator.
import itertools
import math
import warnings

import numpy as np
import pytest

from acer_tf.reproduction import statistics
from acer_tf.reproduction.statistics import (
    interquartile_mean,
    interquartile_mean_curve,
    mean_and_error,
    median,
    permutation_p,
    probability_of_improvement,
    sign_p,
    wins,
)


@pytest.mark.slow
def test_the_middle_half_is_averaged_and_the_interval_is_that_of_the_bootstrap(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 10_000)
    scores = [1.0, 2.0, 3.0, 4.0, 100.0]
    estimate = interquartile_mean(scores)
    assert estimate.value == 3.0
    # All 5⁵ resamples at once, rather than 10,000 random ones.
    means = [np.mean(sorted(draw)[1:4]) for draw in itertools.product(scores, repeat=5)]
    assert estimate.low == pytest.approx(np.percentile(means, 2.5), abs=0.35)
    assert np.percentile(means, 97) <= estimate.high <= np.percentile(means, 98)


@pytest.mark.parametrize(
    "estimate",
    [
        interquartile_mean,
        median,
        lambda x: probability_of_improvement(x, x[::-1] + 0.1).estimate,
        lambda x: interquartile_mean_curve(x[..., None]).low,
    ],
)
def test_intervals_depend_on_no_other_draws_and_disturb_none(estimate):
    scores = np.random.default_rng(0).normal(size=(7, 3))
    np.random.seed(1)
    first = estimate(scores)
    drawn = np.random.random()
    np.random.seed(2)
    assert np.array_equal(estimate(scores), first)
    np.random.seed(1)
    assert np.random.random() == drawn


def test_it_prints_nothing_and_one_run_has_no_interval():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interquartile_mean([1, 5, 2])
    assert str(interquartile_mean([7.0])) == "7.00"
    curve = interquartile_mean_curve(np.array([[[1.0, 5.0]], [[2.0, 6.0]]])[:1])
    assert curve.value.tolist() == [1.0, 5.0] and np.isnan([curve.low, curve.high]).all()


@pytest.mark.parametrize("scores", [[], [1.0, math.nan], [math.inf]])
def test_scores_that_are_not_finite_are_refused(scores):
    with pytest.raises(ValueError, match="one finite score per run"):
        interquartile_mean(scores)


def test_several_tasks_are_pooled_for_the_middle_half_and_averaged_for_the_median():
    scores = np.array([[0.0, 1.0, 10.0], [2.0, 3.0, 10.0]])  # runs × tasks
    # Of 0 1 2 3 10 10, a quarter at either end: scipy's trimmed mean leaves out one whole score.
    assert interquartile_mean(scores).value == pytest.approx((1 + 2 + 3 + 10) / 4)
    assert median(scores).value == 2.0  # of the tasks' means 1, 2 and 10
    low, high = median(scores)[1:]
    assert 0.0 <= low <= 2.0 <= high <= 3.0


@pytest.mark.slow
def test_the_points_of_a_curve_are_separate_estimates(monkeypatch):
    monkeypatch.setattr(statistics, "CURVE_RESAMPLES", 2_000)
    scores = np.random.default_rng(0).normal(size=(8, 2, 4))
    band = interquartile_mean_curve(scores)
    each = [interquartile_mean(scores[..., point]) for point in range(4)]
    assert band.value == pytest.approx([e.value for e in each])
    assert band.low == pytest.approx([e.low for e in each], abs=0.1)
    assert band.high == pytest.approx([e.high for e in each], abs=0.1)


def test_the_probability_of_improvement_is_that_of_pairs_of_runs_by_task():
    x, y = np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[0.0, 5.0], [2.0, 9.0]])
    # First task: 1>0, 1<2, 3>0, 3>2; second: 5=5, 5<9, twice.
    assert probability_of_improvement(x, y).estimate.value == pytest.approx((3 / 4 + (2 * 0.5) / 4) / 2)
    three = (np.tile(each, (2, 1)) for each in (x, y))
    assert probability_of_improvement(next(three) + 10, next(three)).estimate == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="2 and 1"):
        probability_of_improvement(x, y[:, :1])


@pytest.mark.parametrize(("runs", "others", "tasks"), [(4, 4, 1), (3, 2, 2), (2, 2, 3), (1, 1, 5), (3, 5, 1)])
@pytest.mark.parametrize("gap", [0, 2, -4])
def test_the_p_counts_every_way_to_put_the_runs_of_each_task_to_both_methods(runs, others, tasks, gap):
    rng = np.random.default_rng(runs)
    x, y = (rng.integers(0, 6, (count, tasks)) + 0.0 for count in (runs, others))  # with ties
    x += gap
    together, chosen = np.concatenate([x, y]), [list(of) for of in itertools.combinations(range(runs + others), runs)]
    won = [[wins(scores[of, None], np.delete(scores, of)[:, None]) for of in chosen] for scores in together.T]
    every = np.array([sum(of) / tasks for of in itertools.product(*won)])
    sides = (every >= wins(x, y) - 1e-9).mean(), (every <= wins(x, y) + 1e-9).mean()
    assert permutation_p(x, y) == pytest.approx(min(1.0, 2 * min(sides)))


def test_the_p_of_a_difference_of_gains_counts_every_way_of_both_pairs():
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(runs, 1)) + 0.7, rng.normal(size=(others, 1))) for runs, others in ((3, 2), (2, 2))]

    def ways(x, y):
        together = np.concatenate([x, y])
        chosen = (list(of) for of in itertools.combinations(range(len(together)), len(x)))
        return np.array([wins(together[of], np.delete(together, of, axis=0)) for of in chosen])

    every = np.subtract.outer(*(ways(*pair) for pair in pairs))
    (a, b), (c, d) = pairs
    observed = wins(a, b) - wins(c, d)
    sides = (every >= observed - 1e-9).mean(), (every <= observed + 1e-9).mean()
    assert statistics.gain_p(a, b, c, d) == pytest.approx(min(1.0, 2 * min(sides)))


def test_fifteen_of_sixteen_pairs_are_not_shown_although_the_bootstraps_interval_says_so():
    found = probability_of_improvement(np.array([[2.0], [5.0], [6.0], [7.0]]), np.array([[0.0], [1.0], [1.5], [3.0]]))
    assert found.estimate.value == 15 / 16 and found.estimate.low > 0.5
    assert found.p == pytest.approx(4 / 70) and found.side == 0 and found.needs == "about 5 seeds"
    # Here the interval lies above 0.5, too, but the p needs more than one seed more.
    found = probability_of_improvement(np.array([10.0, 29, 21, 28, 16]), np.array([3.0, 18, 3, 3, 19]))
    assert found.estimate.low > 0.5 and found.p == pytest.approx(0.095, abs=0.001) and found.needs == "about 6 seeds"
    assert probability_of_improvement(np.arange(4.0, 8), np.arange(4.0)).side == 1
    assert probability_of_improvement(np.arange(4.0), np.arange(4.0, 8)).side == -1


@pytest.mark.parametrize(
    ("runs", "tasks", "needs"),
    [
        ((1, 1), 1, "4 seeds"),  # 20 orders of three and three, 70 of four and four
        ((3, 3), 1, "4 seeds"),
        ((4, 4), 1, "about 5 seeds"),
        ((2, 2), 2, "3 seeds"),
        ((3, 3), 2, "about 4 seeds"),
        ((1, 40), 1, "4 seeds"),
        ((1, 1), 5, "6 tasks, or 2 seeds"),
        ((1, 1), 6, "about 7 tasks"),
        ((1, 3), 3, "about 4 tasks"),
    ],
)
def test_so_few_runs_that_chance_orders_them_so_have_no_interval(runs, tasks, needs, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 20)
    x, y = (np.full((count, tasks), value) for count, value in zip(runs, (1.0, 0.0), strict=True))
    found = probability_of_improvement(x, y)
    assert found.estimate.value == 1.0 and found.needs == needs
    assert math.isnan(found.estimate.low) == (not needs.startswith("about"))  # with an interval, one more is the least


@pytest.mark.parametrize("gap", [0.3, -0.3])
def test_what_would_decide_grows_with_the_square_of_the_width_over_the_gap(gap):
    draws = np.random.default_rng(0).normal(size=(8, 3))
    found = probability_of_improvement(draws + gap, draws)
    value, low, high = found.estimate
    assert low < 0.5 < high and (value > 0.5) == (gap > 0)
    width = value - low if gap > 0 else high - value
    by_interval = math.ceil(8 * (width / (value - 0.5)) ** 2)
    by_test = next(n for n in itertools.count(8) if abs(value - 0.5) / ((2 * n + 1) / (36 * n**2)) ** 0.5 > 1.96)
    assert found.needs == f"about {max(by_interval, by_test)} seeds" and found.needed == max(by_interval, by_test)
    assert probability_of_improvement(draws, draws).needs == "more than 100 seeds"


def test_with_one_run_of_each_the_tasks_are_resampled():
    x = np.array([[3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 0.0, 0.0]])
    found = probability_of_improvement(x, np.ones((1, 8)))
    assert found.estimate.value == 0.75 and found.estimate.low < 0.5 < found.estimate.high == 1.0
    assert found.needs.endswith(" tasks")


def test_the_standard_error_needs_two_scores():
    assert mean_and_error([1.0, 3.0]) == (2.0, pytest.approx(1.0))
    assert mean_and_error([4.0])[0] == 4.0
    assert math.isnan(mean_and_error([4.0])[1])
    assert all(math.isnan(value) for value in mean_and_error([]))


@pytest.mark.parametrize(
    ("scores", "p"), [([1.0] * 6, 2 / 64), ([1.0, 2.0, 3.0, 4.0, 5.0, -0.5], 4 / 64), ([1.0, -1.0], 1.0)]
)
def test_the_test_of_signs_counts_every_way(scores, p):
    assert sign_p(np.array(scores)) == p


def test_a_mean_gap_has_the_test_of_signs():
    gaps = statistics.mean_gap(np.array([0.1, 0.3, 0.2, 0.1, 0.4, 0.2])[:, None])
    assert (gaps.p, gaps.side) == (2 / 64, 1)
    assert sign_p(np.linspace(-1, 1.5, 40)) > 0.01  # more ways than can be counted


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "least", "most"), [(0.0, 0.09, 0.17), (0.5, 0.055, 0.12)])
def test_the_best_of_thirty_draws_are_no_sample(shared, least, most):
    """Of methods without a difference, whose draws correlate by `shared`: results/figure3_best says 8 to 13 %."""
    rng, found = np.random.default_rng(0), []
    for _ in range(1_000):
        common, own = rng.normal(size=30), rng.normal(size=(2, 30))
        draws = np.sort(shared**0.5 * common + (1 - shared) ** 0.5 * own, axis=1)[:, -5:]
        found.append(permutation_p(*draws[:, :, None]) <= 0.05)
    assert least < np.mean(found) < most
    fair = [permutation_p(*rng.normal(size=(2, 5, 1))) <= 0.05 for _ in range(1_000)]
    assert np.mean(fair) < 0.05


@pytest.mark.parametrize("won", [16, 17, 19])
def test_what_would_decide_is_where_the_exact_test_of_the_same_estimate_is_significant(won, monkeypatch):
    """X wins that many of 25 pairs; n runs each that win the same share."""
    monkeypatch.setattr(statistics, "RESAMPLES", 20)

    def groups(n):
        left, y = round(n * n * won / 25), np.arange(n) + 0.5
        x = []
        for runs in range(n, 0, -1):
            x.append(min(n, -(-left // runs)))
            left -= x[-1]
        return np.array(x, float)[:, None], y[:, None]

    x, y = groups(5)
    assert wins(x, y) == won / 25
    exact = next(n for n in itertools.count(5) if permutation_p(*groups(n)) <= 0.05)
    assert statistics._needed_of_wins(x, y) == pytest.approx(exact, rel=0.15)


@pytest.mark.slow
def test_who_looks_at_four_to_ten_seeds_finds_an_effect_in_a_tenth_of_cases():
    """As the rule of the verdicts says."""
    rng, found = np.random.default_rng(0), []
    for _ in range(1_000):
        x, y = rng.normal(size=(2, 10, 1))
        found.append(any(permutation_p(x[:n], y[:n]) <= 0.05 for n in range(4, 11)))
    assert 0.09 < np.mean(found) < 0.14


@pytest.mark.slow
def test_a_difference_of_gains_needs_the_test_too(monkeypatch):
    """Of few seeds without any effect the interval alone would show one too often."""
    monkeypatch.setattr(statistics, "RESAMPLES", 500)
    rng = np.random.default_rng(1)
    found = [statistics.larger_gain(*rng.normal(size=(4, 3, 5)), what="difference") for _ in range(400)]
    assert 0.05 < np.mean([each._replace(p=np.nan).side != 0 for each in found]) < 0.12
    assert np.mean([each.side != 0 for each in found]) < 0.05
