"""Runs in worlds whose values are known exactly, checked by the exported policy.

The settings are a preset's, but for γ = 0.9, batches that fit the worlds, and a learning rate of 3e-3, four times the
presets': these runs are a thousandth as long as those that the presets are for. The tolerances are set by seeds 0 to 2
(the tests run seed 0), whose worst case each of them names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from acer_tf.policies.policy import load_policy
from acer_tf.settings import make_settings
from acer_tf.training.train import train
from tests.learning.worlds import World, bandit, chain, rooms

pytestmark = [pytest.mark.training, pytest.mark.xla]

GAMMA = 0.9
HOURS = 5
WORLDS: dict[str, tuple[World, int | None]] = {  # with their time limits
    "TinyBandit-v0": (bandit(), None),
    "TinyChain-v0": (chain(), None),
    "TinyRoomsCut-v0": (rooms(HOURS, ends=False), HOURS),
    "TinyRoomsEnding-v0": (rooms(HOURS, ends=True), None),
}
# `baselines` would wait for 10,000 rows per environment; `paper` replays at once. There 16 windows move the weights one
# after another, or as far as that, where `baselines` takes their mean: a 16th of the rate is as far.
PRESETS = {
    "baselines": {"preset": "baselines", "replay_start": 20},
    "paper": {"preset": "paper", "learning_rate": 3e-3 / 16},
}
EACH_PRESET = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    for env_id, (world, limit) in WORLDS.items():
        entry_point = "tests.learning.worlds:TabularEnvironment"
        gymnasium.register(env_id, entry_point, max_episode_steps=limit, kwargs={"world": world})
    yield
    for env_id in WORLDS:
        del gymnasium.registry[env_id]


def learn(env_id: str, folder: Path, **given: Any) -> tuple[np.ndarray, np.ndarray]:
    """(probabilities [S, A], Q [S, A]) of a run's policy."""
    usual = {"preset": "baselines", "num_envs": 8, "gamma": GAMMA, "learning_rate": 3e-3}
    settings = make_settings({"env": env_id, **usual, **given})
    policy = load_policy(train(settings, folder / "run", quiet=True))
    observations = WORLDS[env_id][0].observations
    return policy.probabilities(observations), policy.q(observations)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"total_steps": 8_000, "replay_start": 20}, id="acer"),
        # The policy's gradient is then the bias correction alone: the mean over all actions of what the critic says.
        pytest.param({"total_steps": 8_000, "replay_start": 20, "importance_truncation": 0.0}, id="acer with c = 0"),
        # One update per row of rewards instead of five, so more rows.
        pytest.param({"total_steps": 32_000, "agent": "a3c"}, id="a3c"),
        pytest.param({"total_steps": 32_000, "agent": "trust_a3c"}, id="trust_a3c"),
    ],
)
def test_a_bandit_is_solved_and_valued(given: dict[str, Any], tmp_path: Path) -> None:
    world = WORLDS["TinyBandit-v0"][0]
    # Half of all rows are masked: 32 environments' two rows are 32 rewards.
    probabilities, q = learn("TinyBandit-v0", tmp_path, num_envs=32, unroll_length=2, **given)

    # Nearly greedy: under an entropy bonus of 0.01 a gap of 0.6 makes any other action e^-60 as likely. What is missing
    # is the way still to go there, at most 0.5 %.
    best = world.rewards.argmax(axis=1)
    assert probabilities[np.arange(world.states), best].min() >= 0.95

    # Steps of RMSProp do not shrink with the gradient, so the rewards' noise of ±0.2 shakes Q: it is up to 0.18 off.
    # 0.3 is half of the gap between two actions, and a third of the γ · 1.0 that bootstrapping after the end would add.
    # Without replay an action's value drifts once it is no longer taken.
    remembered = probabilities > 0.01 if "agent" in given else np.full(q.shape, True)
    np.testing.assert_allclose(q[remembered], world.rewards[remembered], rtol=0, atol=0.3)


@EACH_PRESET
def test_a_chain_with_its_reward_at_the_end_is_walked(preset: dict[str, Any], tmp_path: Path) -> None:
    world = WORLDS["TinyChain-v0"][0]
    optimal, aimless = world.optimal_q(GAMMA), world.policy_q(np.full([6, 2], 0.5), GAMMA)
    assert (optimal.argmax(axis=1) == 1).all()
    assert optimal[0, 1] > 8 * aimless[0].max()  # going on looks no better than leaving until the end is known

    probabilities, q = learn("TinyChain-v0", tmp_path, num_envs=16, unroll_length=10, total_steps=32_000, **preset)
    # Optimal in every state, up to what the entropy bonus and the way still to go leave: at most 0.3 %.
    assert probabilities[:, 1].min() >= 0.98
    # Against the learned policy's own values, which range from 1.0 to 1.9 along the path, Q is up to 0.16 off, for the
    # critic follows a policy that went on improving. Bootstrapping after the end would add γ · 1.9.
    np.testing.assert_allclose(q[:, 1], world.policy_q(probabilities, GAMMA)[:, 1], rtol=0, atol=0.25)


@EACH_PRESET
def test_a_time_limit_is_not_a_termination(preset: dict[str, Any], tmp_path: Path) -> None:
    """An endless world whose episodes are truncated after five steps has the values r / (1 − γ) = 10 and 0.

    Taken as a termination, the value would be (1 − γⁿ) / (1 − γ) with n steps to go: 4.1 at most. Bootstrapped from the
    next episode, which may begin in the other room, the values of both rooms would approach each other.
    """
    world = WORLDS["TinyRoomsCut-v0"][0]
    expected = np.repeat([1 / (1 - GAMMA), 0.0], HOURS)
    np.testing.assert_allclose(world.optimal_q(GAMMA), np.stack([expected, expected], axis=1))

    probabilities, q = learn("TinyRoomsCut-v0", tmp_path, num_envs=16, unroll_length=10, total_steps=16_000, **preset)
    # Nothing is random but where an episode begins, so V settles: it is up to 0.02 off.
    np.testing.assert_allclose((probabilities * q).sum(axis=1), expected, rtol=0, atol=0.2)


@EACH_PRESET
def test_a_termination_is_not_a_time_limit(preset: dict[str, Any], tmp_path: Path) -> None:
    """The same days, but they terminate: the values are those of the remaining steps."""
    world = WORLDS["TinyRoomsEnding-v0"][0]
    left = np.arange(HOURS, 0, -1)
    expected = np.append((1 - GAMMA**left) / (1 - GAMMA), np.zeros(HOURS))
    np.testing.assert_allclose(world.optimal_q(GAMMA), np.stack([expected, expected], axis=1))

    probabilities, q = learn(
        "TinyRoomsEnding-v0", tmp_path, num_envs=16, unroll_length=10, total_steps=16_000, **preset
    )
    np.testing.assert_allclose((probabilities * q).sum(axis=1), expected, rtol=0, atol=0.2)  # up to 0.03 off


SMALL_DQN = {
    "agent": "dqn",
    "num_envs": 8,
    "learning_rate": 1e-3,
    "replay_start": 100,
    "replay_capacity": 2_000,
    "target_period": 500,
    "exploration_final": 0.2,
    "exploration_steps": 4_000,
    "error_clip": 10.0,
}


LONG = [pytest.param(preset, marks=pytest.mark.learning) for preset in ("ddqn_tuned", "ddqn_rank")]


@pytest.mark.parametrize("preset", ["dqn", "ddqn_proportional", *LONG])
def test_q_learning_finds_the_optimal_values_of_a_chain(preset: str, tmp_path: Path) -> None:
    world = WORLDS["TinyChain-v0"][0]
    _, q = learn("TinyChain-v0", tmp_path, preset=preset, total_steps=16_000, **SMALL_DQN)
    optimal = world.optimal_q(GAMMA)
    assert (q.argmax(axis=1) == 1).all()
    # Bootstrapping after the end would add γ · 1.9.
    np.testing.assert_allclose(q, optimal, rtol=0, atol=0.25)


def test_q_learning_bootstraps_at_a_time_limit(tmp_path: Path) -> None:
    _, q = learn("TinyRoomsCut-v0", tmp_path, preset="ddqn_proportional", total_steps=24_000, **SMALL_DQN)
    expected = np.repeat([1 / (1 - GAMMA), 0.0], HOURS)
    np.testing.assert_allclose(q.max(axis=1), expected, rtol=0, atol=0.8)
