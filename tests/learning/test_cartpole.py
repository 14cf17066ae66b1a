"""CartPole-v1 to 475, where gymnasium calls it solved: from settings to the evaluation of the exported policy."""

from pathlib import Path

import pytest

from acer_tf.policy import load_policy
from acer_tf.settings import make_settings
from acer_tf.training.evaluation import evaluate
from acer_tf.training.run import train

SOLVED = 475.0


def score(seed: int, folder: Path) -> float:
    """The mean return of 100 games, with sampled actions, of what 300,000 steps have taught.

    The settings are those of the preset `baselines`, rewards unclipped as in every environment but Atari's, except for
    what is meant for runs a hundred times as long: 16 environments would halve the updates per step, replay would wait
    for 160,000 steps, and with a step size of 7e-4 the policy still dips when 300,000 steps are over (seed 0
    then scored 395), as V is still rising to 1 / (1 − γ) = 100: the games that last to the time limit are no ends.
    """
    settings = make_settings(
        {
            "env": "CartPole-v1",
            "preset": "baselines",
            "seed": seed,
            "total_steps": 300_000,
            "num_envs": 8,
            "replay_start": 200,
            "learning_rate": 1e-3,
        }
    )
    result = evaluate(load_policy(train(settings, folder / "run")), episodes=100, num_envs=100)
    print(f"seed {seed}: {result.mean:.1f} ± {result.standard_error:.1f}")
    return result.mean


def test_it_solves_cartpole(tmp_path: Path) -> None:
    assert score(0, tmp_path) >= SOLVED


@pytest.mark.learning
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_solves_cartpole_with_each_seed(seed: int, tmp_path: Path) -> None:
    assert score(seed, tmp_path) >= SOLVED
