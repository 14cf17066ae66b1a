"""The usual presets learn: from an environment's name to the evaluation of the exported policy."""

from pathlib import Path
from typing import Any

import pytest

from acer_tf.policies.evaluation import evaluate
from acer_tf.policies.policy import load_policy
from acer_tf.settings import make_settings
from acer_tf.training.train import train

pytestmark = [pytest.mark.training, pytest.mark.xla]

# CartPole-v1: where gymnasium calls it solved. Pendulum-v1: about twice what the best controllers lose.
TASKS = {
    "CartPole-v1": {"agent": "acer", "total_steps": 300_000, "at_least": 475.0},
    "Pendulum-v1": {"agent": "acer_continuous", "total_steps": 300_000, "at_least": -300.0},
}
# Begun to learn: a random policy scores 0.5 (Young & Tian 2019) and about 14.
BEGUN = {
    "minatar/breakout": {"agent": "acer", "total_steps": 300_000, "at_least": 4.0},
    "control/reacher3": {"agent": "acer_continuous", "total_steps": 150_000, "at_least": 35.0},
}


def score(env: str, seed: int, folder: Path, **given: Any) -> float:
    """The mean return of 100 episodes, with sampled actions, after training with the default preset."""
    task = (TASKS | BEGUN)[env]
    settings = make_settings(
        {"env": env, "agent": task["agent"], "seed": seed, "total_steps": task["total_steps"], **given}
    )
    result = evaluate(load_policy(train(settings, folder / "run")), episodes=100, num_envs=100)
    print(f"{env}, seed {seed}: {result.mean:.1f} ± {result.standard_error:.1f}")
    return result.mean


def test_the_usual_preset_begins_to_learn_cartpole(tmp_path: Path) -> None:
    """A random policy scores 22."""
    assert score("CartPole-v1", 0, tmp_path, total_steps=60_000) >= 150.0


@pytest.mark.learning
@pytest.mark.parametrize("env", BEGUN)
def test_the_usual_preset_learns_it(env: str, tmp_path: Path) -> None:
    assert score(env, 0, tmp_path) >= BEGUN[env]["at_least"]


@pytest.mark.learning
@pytest.mark.parametrize("env", TASKS)
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_it_solves_it_with_each_seed(env: str, seed: int, tmp_path: Path) -> None:
    assert score(env, seed, tmp_path) >= TASKS[env]["at_least"]
