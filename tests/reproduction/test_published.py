import numpy as np
import pytest

from acer_tf.envs.families import ATARI_GAMES, CONTROL_TASKS
from acer_tf.reproduction.published import published_ablations, published_curves, published_search


# Typed from OpenAI's page, code version 7bfbcf1; in agent steps, not frames.
@pytest.mark.parametrize(("steps", "mean"), [(1_010_070, -19.9748), (2_020_140, -15.8018), (3_030_210, 2.13387)])
def test_pong_has_the_known_points(steps, mean):
    newer, _ = published_curves("atari/Pong")
    assert newer.at(steps) == mean


# Typed from the paper's Figure 3 as read off its vector graphics.
@pytest.mark.parametrize(
    ("task", "steps", "values"),
    [
        ("reacher3", 2e6, {"ACER": 333.03, "Trust-TIS": 275.42, "Trust-A3C": 88.92, "TIS": 56.05, "A3C": 45.31}),
        ("walker2d", 10e6, {"ACER": 8.65, "Trust-TIS": 5.5, "Trust-A3C": 2.66, "TIS": -0.67, "A3C": 0.77}),
    ],
)
def test_figure_3_has_the_known_points(task, steps, values):
    found = {curve.method: curve.at(steps) for curve in published_curves(f"control/{task}")}
    assert found == pytest.approx(values, abs=0.006)


def test_the_older_version_of_openais_code_was_faster_on_breakout():
    newer, older = published_curves("atari/Breakout")
    assert (newer.at(4e6), older.at(4e6)) == pytest.approx((162.7, 191.2), abs=0.1)
    assert newer.method == older.method and newer.label != older.label


@pytest.mark.parametrize("task", CONTROL_TASKS)
def test_every_task_of_figure_3_has_five_methods(task):
    assert len(published_curves(f"control/{task}")) == 5


@pytest.mark.parametrize("version", [4, 5])
def test_a_mujoco_task_has_what_was_published_of_its_older_versions(version):
    curves = published_curves(f"HalfCheetah-v{version}")
    assert [curve.method for curve in curves] == ["PPO", "PPO", "TRPO", "TD3", "TD3"]
    last = [curve.steps[-1] for curve in curves]
    assert last == pytest.approx([3_000_000, 1_000_000, 1_000_000, 3_000_000, 1_000_000], rel=0.01)
    # The last rows of the files, whose names do not say which method they are of.
    assert [curve.mean[-1] for curve in curves] == pytest.approx([3261.62, 1670.16, 1288.01, 11306.0, 9566.56])
    # TD3's paper, Table 1: 9636.95 at 1 M steps (the maximum over evaluations); its authors' files end near it.
    assert 9_000 < curves[4].mean[-1] < 10_000


@pytest.mark.parametrize(
    "env", [f"atari/{g}" for g in ("Pong", "Breakout")] + ["control/fish", "HalfCheetah-v5", "Walker2d-v5"]
)
def test_curves_go_forward_inside_their_bands(env):
    for curve in published_curves(env):
        assert (np.diff(curve.steps) > 0).all(), curve.label
        assert (curve.low <= curve.mean).all() and (curve.mean <= curve.high).all(), curve.label
        assert np.isnan(curve.at(1.02 * curve.steps[-1])) and np.isnan(curve.at(curve.steps[0] - 1))


def test_what_was_not_published_is_not_there():
    none = ["atari/Alien", "minatar/breakout", "control/nothing", "CartPole-v1", "Pendulum-v1"]
    assert all(not published_curves(env) for env in none)
    assert sum(bool(published_curves(f"atari/{game}")) for game in ATARI_GAMES) == 7


# Figure 4's curves at their last point, as read off; the paper draws and does not print them.
@pytest.mark.parametrize(
    ("task", "steps", "ends"),
    [
        ("fish", 79e6, [-7.01, -9.05, -7.02, -11.83, -6.86]),
        ("walker2d", 124e6, [23.53, 6.04, 21.74, 9.87, 23.67]),
        ("humanoid", 79e6, [-4.96, -17.6, -16.86, -43.87, -8.04]),
    ],
)
def test_figure_4_has_the_known_ends(task, steps, ends):
    curves = published_ablations(f"control/{task}")
    methods = ["no trust region", "no SDN", "no Retrace and no Q_opc", "no truncation and bias correction"]
    assert [curve.method for curve in curves] == ["ACER", *methods]
    assert [curve.at(steps) for curve in curves] == pytest.approx(ends, abs=0.006)
    for curve in curves:
        assert curve.steps[-1] == steps
        assert (np.diff(curve.steps) > 0).all()
        assert (curve.low <= curve.mean).all() and (curve.mean <= curve.high).all()


# The best settings of Figures 5 and 6 and how many points each shows, typed from the plots: learning rate, δ, score.
@pytest.mark.parametrize(
    ("task", "points", "best"),
    [
        ("humanoid", 22, [(1.23e-4, 0.20, -3.3), (1.14e-4, 0.40, -3.5), (1.11e-4, 0.31, -4.0)]),
        ("walker2d", 28, [(1.48e-4, 0.70, 25.8), (2.89e-4, 0.22, 23.7), (1.41e-4, 0.42, 23.4)]),
        ("cheetah", 28, [(1.14e-4, 0.42, 19.9), (1.95e-4, 0.11, 19.7), (2.89e-4, 0.22, 19.6)]),
        ("fish", 28, [(1.24e-4, 0.32, -6.6), (1.14e-4, 0.42, -6.8), (1.35e-4, 0.53, -6.9)]),
        ("cartpole_swingup", 30, []),
        ("reacher3", 29, []),
    ],
)
def test_figures_5_and_6_have_the_known_points(task, points, best):
    search = published_search(f"control/{task}")
    assert len(search) == points
    for point in search:  # the ranges that the search drew from, to the plots' resolution
        assert 0.999e-4 <= point.learning_rate <= 1.001 * 10**-3.3
        assert 0.099 <= point.delta <= 2.001
    found = sorted(search, key=lambda point: -point.score)[: len(best)]
    for point, (learning_rate, delta, score) in zip(found, best, strict=True):
        assert point.learning_rate == pytest.approx(learning_rate, abs=0.006e-4)
        assert point.delta == pytest.approx(delta, abs=0.006)
        assert point.score == pytest.approx(score, abs=0.06)


@pytest.mark.parametrize(
    ("load", "env", "message"),
    [
        (
            published_ablations,
            "control/cheetah",
            "Figure 4 of the paper: control/fish, control/walker2d, control/humanoid; not",
        ),
        (published_ablations, "Fish", "not 'Fish'"),
        (
            published_search,
            "dm_control/cheetah-run",
            "Figures 5 and 6 of the paper: control/cartpole_swingup, .*; not 'dm_con",
        ),
    ],
)
def test_a_task_outside_the_figure_is_refused(load, env, message):
    with pytest.raises(ValueError, match=message):
        load(env)
