import math

import numpy as np
import pytest

from acer_tf.reproduction.published import Figure1Method, dqn_zoo_medians, figure1_by_frames, figure1_by_hours

DQN, PRIORITIZED = Figure1Method("DQN"), Figure1Method("Prioritized Double DQN")
METHODS = {Figure1Method("ACER", ratio, trust) for ratio in (0, 1, 4, 8) for trust in (False, True)} | {
    DQN,
    PRIORITIZED,
}
M = 1_000_000
NAN = math.nan


def acer(ratio, trust_region):
    return Figure1Method("ACER", ratio, trust_region)


def first_at(curve, level):
    """Millions of frames, or hours, at the first vertex that reaches a median."""
    reached = np.flatnonzero(curve.median >= level)
    return curve[0][reached[0]] if len(reached) else NAN


# Figure 1, left, as read off at 50, 100, 150, 200 and 250 million frames, at its end, and where it first reaches 1.
@pytest.mark.parametrize(
    ("method", "medians", "end", "last", "human"),
    [
        (acer(0, False), [0.244, 0.404, 0.648, 0.738, 0.876], 899, 1.600, 296),
        (acer(0, True), [0.259, 0.427, 0.563, 0.645, 0.769], 899, 1.664, 266),
        (acer(1, False), [0.311, 0.708, 0.859, 0.946, 1.128], 599, 1.709, 206),
        (acer(1, True), [0.389, 0.752, 0.903, 1.180, 1.243], 599, 1.884, 165),
        (acer(4, False), [0.654, 1.053, 1.116, 1.181, 1.364], 269, 1.451, 97),
        (acer(4, True), [0.687, 1.087, 1.452, 1.531, 1.576], 269, 1.576, 95),
        (acer(8, False), [0.663, 0.953, 1.030, NAN, NAN], 159, 1.102, 139),
        (acer(8, True), [0.842, 1.316, 1.535, NAN, NAN], 159, 1.535, 67),
        (DQN, [0.287, 0.429, 0.453, 0.536, NAN], 199, 0.536, NAN),
        (PRIORITIZED, [1.015, 1.290, 1.428, 1.495, NAN], 200, 1.495, 49),
    ],
    ids=lambda value: value.label if isinstance(value, Figure1Method) else "",
)
def test_figure_1_by_frames_has_the_known_points(method, medians, end, last, human):
    curve = figure1_by_frames()[method]
    found = [curve.at(millions * M) for millions in (50, 100, 150, 200, 250)]
    assert found == pytest.approx(medians, abs=0.0011, nan_ok=True)
    assert curve.frames[-1] == end * M
    assert curve.median[-1] == pytest.approx(last, abs=0.0006)
    assert first_at(curve, 1.0) / M == pytest.approx(human, abs=1.0, nan_ok=True)


# Figure 1, right, as read off at 120 hours.
@pytest.mark.parametrize(
    ("ratio", "without", "with_trust_region"),
    [(0, 1.535, 1.413), (1, 1.615, 1.578), (4, 1.181, 1.475), (8, 0.953, 1.285)],
)
def test_figure_1_by_hours_has_the_known_points(ratio, without, with_trust_region):
    curves = figure1_by_hours()
    assert curves[acer(ratio, False)].at(120) == pytest.approx(without, abs=0.0006)
    assert curves[acer(ratio, True)].at(120) == pytest.approx(with_trust_region, abs=0.0006)


def test_prioritized_takes_48_hours_to_human():
    assert first_at(figure1_by_hours()[PRIORITIZED], 1.0) == pytest.approx(48.0, abs=0.1)


@pytest.mark.parametrize("curves", [figure1_by_frames(), figure1_by_hours()], ids=["frames", "hours"])
def test_figure_1_is_a_cumulative_maximum_of_ten_methods(curves):
    assert set(curves) == METHODS
    for method, curve in curves.items():
        assert (np.diff(curve[0]) > 0).all(), method.label
        assert (np.diff(curve.median) >= 0).all(), method.label


def test_the_axes_have_different_names():
    by_frames, by_hours = figure1_by_frames()[DQN], figure1_by_hours()[DQN]
    assert not hasattr(by_frames, "hours") and not hasattr(by_hours, "frames")
    assert (by_frames.low, by_frames.high) == (None, None)


def test_labels_are_those_of_the_legend():
    assert acer(4, True).label == "ACER, replay 4"
    assert acer(0, False).label == "ACER, replay 0, no trust region"
    assert PRIORITIZED.label == "Prioritized Double DQN"


# DQN Zoo's picture at 200 million frames.
@pytest.mark.parametrize(
    ("agent", "median", "low", "high"),
    [
        ("DQN", 0.4274, 0.3571, 0.4647),
        ("Double DQN", 0.8899, 0.8332, 0.9492),
        ("Prioritized DQN", 1.2475, 1.1707, 1.308),
        ("C51", 1.4417, 1.2455, 1.5865),
        ("QR-DQN", 1.4818, 1.3441, 1.5201),
        ("IQN", 1.7225, 1.6046, 1.8336),
        ("Rainbow", 1.8693, 1.7863, 2.0261),
    ],
)
def test_dqn_zoo_has_the_known_ends(agent, median, low, high):
    curve = dqn_zoo_medians()[agent]
    assert curve.at(200 * M) == median
    assert (curve.low[-1], curve.high[-1]) == (low, high)


def test_dqn_zoo_has_seven_agents_of_100_points_within_their_ranges():
    assert len(dqn_zoo_medians()) == 7
    for agent, curve in dqn_zoo_medians().items():
        np.testing.assert_array_equal(curve.frames, 2 * M * np.arange(1, 101))
        assert (curve.low <= curve.median).all() and (curve.median <= curve.high).all(), agent


def test_a_median_outside_the_curve_is_nan():
    assert math.isnan(figure1_by_frames()[DQN].at(203 * M))
    assert math.isnan(figure1_by_hours()[acer(4, True)].at(123))
    assert math.isnan(dqn_zoo_medians()["DQN"].at(1 * M))
