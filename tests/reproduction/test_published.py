import numpy as np
import pytest

from acer_tf.envs.names import ATARI_GAMES, CONTROL_TASKS
from acer_tf.reproduction.published import published_curves


# Typed from OpenAI's page, code version 7bfbcf1; in agent steps, not frames.
@pytest.mark.parametrize(("steps", "mean"), [(1_010_070, -19.9748), (2_020_140, -15.8018), (3_030_210, 2.13387)])
def test_pong_has_the_known_points(steps, mean):
    (curve,) = published_curves("atari/Pong")
    assert curve.at(steps) == mean


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


@pytest.mark.parametrize("task", CONTROL_TASKS)
def test_every_task_of_figure_3_has_five_methods(task):
    assert len(published_curves(f"control/{task}")) == 5


@pytest.mark.parametrize("version", [4, 5])
def test_a_mujoco_task_has_what_was_published_of_its_older_versions(version):
    curves = published_curves(f"HalfCheetah-v{version}")
    assert [curve.method for curve in curves] == ["PPO", "PPO", "TRPO", "TD3", "TD3"]
    last = [curve.steps[-1] for curve in curves]
    assert last == pytest.approx([3_000_000, 1_000_000, 1_000_000, 3_000_000, 1_000_000], rel=0.01)
    # TD3's paper, Table 1: 9636.95 at 1 M steps (the maximum over evaluations); its authors' files end near it.
    assert 9_000 < curves[4].mean[-1] < 10_000


@pytest.mark.parametrize(
    "env", [f"atari/{g}" for g in ("Pong", "Breakout")] + ["control/fish", "HalfCheetah-v5", "Walker2d-v5"]
)
def test_curves_go_forward_inside_their_bands(env):
    for curve in published_curves(env):
        assert (np.diff(curve.steps) > 0).all(), curve.label
        assert (curve.low <= curve.mean).all() and (curve.mean <= curve.high).all(), curve.label
        assert np.isnan(curve.at(curve.steps[-1] + 1)) and np.isnan(curve.at(curve.steps[0] - 1))


def test_what_was_not_published_is_not_there():
    none = ["atari/Alien", "minatar/breakout", "control/nothing", "CartPole-v1", "Pendulum-v1"]
    assert all(not published_curves(env) for env in none)
    assert sum(bool(published_curves(f"atari/{game}")) for game in ATARI_GAMES) == 7
