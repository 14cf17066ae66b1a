"""Runs of the continuous agents in tasks whose optimal policy and values are known in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from acer_tf.policies.policy import Policy, load_policy
from acer_tf.settings import make_settings
from acer_tf.settings.rules import rules_for
from acer_tf.training.train import train
from tests.learning.worlds import LinearQuadratic

pytestmark = [pytest.mark.training, pytest.mark.xla]

TASK = LinearQuadratic()
WIDTH = 3.0  # the action's bound: one of the policy's units


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    gymnasium.register(
        "LinearQuadratic-v0",
        "tests.learning.worlds:LinearQuadraticEnvironment",
        max_episode_steps=20,
        kwargs={"task": TASK},
    )
    gymnasium.register("Endless-v0", "tests.learning.worlds:EndlessEnvironment", max_episode_steps=10)
    yield
    for env_id in ("LinearQuadratic-v0", "Endless-v0"):
        del gymnasium.registry[env_id]


def learn(env_id: str, agent: str, folder: Path, **given: Any) -> Policy:
    task = {"env": env_id, "agent": agent, "preset": "paper_continuous", "learning_rate": 1e-3, "gamma": TASK.gamma}
    small = {"num_envs": 16, "unroll_length": 10, "trajectories_per_update": 0, "replay_capacity": 500}
    return load_policy(train(make_settings(task | small | given), folder / "run", quiet=True))


# On-policy agents take one update per window, the others four; without a trust region large steps do not converge.
BUDGETS = {
    "acer_continuous": {"total_steps": 120_000, "learning_rate": 1e-3},
    "trust_tis": {"total_steps": 200_000, "learning_rate": 1e-3},
    "trust_a3c": {"total_steps": 400_000, "learning_rate": 3e-3},
    "a3c": {"total_steps": 400_000, "learning_rate": 1e-3},
    "tis": {"total_steps": 400_000, "learning_rate": 3e-4},
}
QUICK = ("acer_continuous", "trust_tis")


@pytest.mark.parametrize(
    "agent", [pytest.param(a, marks=() if a in QUICK else pytest.mark.learning) for a in rules_for(continuous=True)]
)
def test_a_linear_quadratic_task_is_solved_and_valued(agent, tmp_path):
    policy = learn("LinearQuadratic-v0", agent, tmp_path, policy_std=TASK.std / WIDTH, **BUDGETS[agent])
    gain, p, constant = TASK.riccati()
    states = np.linspace(-0.8, 0.8, 9, dtype=np.float32)[:, None]
    answer = policy.answer(states)
    slope = np.polyfit(states[:, 0], WIDTH * answer["mean"][:, 0], 1)[0]
    assert slope == pytest.approx(-gain, abs=0.12)
    np.testing.assert_allclose(answer["value"], -p * states[:, 0] ** 2 - constant, atol=0.4)
    np.testing.assert_allclose(answer["greedy_action"], WIDTH * answer["mean"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("agent", ["acer_continuous", pytest.param("a3c", marks=pytest.mark.learning)])
def test_a_time_limit_is_not_a_termination(agent, tmp_path):
    policy = learn("Endless-v0", agent, tmp_path, total_steps=80_000, gamma=0.9)
    value = policy.answer(np.random.default_rng(0).random((50, 2), np.float32))["value"]
    # Without the bootstrap at the truncation after 10 steps it would be 6.5 at most.
    np.testing.assert_allclose(value, 10.0, atol=0.8)


def test_the_optimum_of_the_tests_is_one():
    """No other gain is better, and the values match simulation."""

    def value(gain: float, start: float, noise: np.ndarray) -> float:
        s, total = np.full(noise.shape[1], start), 0.0
        for t, e in enumerate(noise):
            u = -gain * s + TASK.std * e
            total = total - TASK.gamma**t * (TASK.q * s**2 + TASK.r * u**2)
            s = TASK.a * s + TASK.b * u
        return float(np.mean(total))

    gain, p, constant = TASK.riccati()
    noise = np.random.default_rng(0).normal(size=[150, 4000])
    best = value(gain, 0.7, noise)
    assert best == pytest.approx(-p * 0.49 - constant, abs=0.02)
    assert all(value(other, 0.7, noise) < best for other in (0.8 * gain, 1.2 * gain))
