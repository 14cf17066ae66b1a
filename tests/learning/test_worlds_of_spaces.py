"""Runs in worlds of other spaces than vectors, whose best actions and values are known exactly.

With seeds 0 to 2 the best actions have 0.999 at least, and Q is 0.08, 0.005 and 0.19 off at most.
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import acer_tf
from acer_tf.policies.policy import Policy
from tests.learning.worlds import TabularEnvironment, chain

pytestmark = [pytest.mark.training, pytest.mark.xla]

GAMMA = 0.9
ONE_STEP = {"num_envs": 32, "unroll_length": 2, "total_steps": 16_000, "replay_start": 20}


def learn(make: Any, folder: Path, **given: Any) -> Policy:
    usual = {"env": "World-v0", "preset": "baselines", "num_envs": 8, "replay_start": 200, "gamma": GAMMA}
    settings = acer_tf.make_settings(usual | {"learning_rate": 3e-3} | given)
    return acer_tf.load_policy(acer_tf.train(settings, folder / "run", env=make, quiet=True))


class Sign(gymnasium.Env):
    """One step: 1 for the side on which the picture has its dot, or if the vector says so, for the other one.

    Whoever does not read both gets 0.5.
    """

    observation_space = spaces.Dict(picture=spaces.Box(0, 1, (3, 4, 1), np.uint8), vector=spaces.Box(-1, 1, (2,)))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.side, self.turned, self.row = self.np_random.integers([2, 2, 3])
        return self.shown(self.side, self.turned, self.row), {}

    def step(self, action: Any) -> Any:
        return self.shown(self.side, self.turned, self.row), float(action == self.side ^ self.turned), True, False, {}

    @staticmethod
    def shown(side: int, turned: int, row: int) -> dict[str, np.ndarray]:
        picture = np.zeros((3, 4, 1), np.uint8)
        picture[row, 3 * side] = 1
        return {"picture": picture, "vector": np.array([2 * turned - 1, 0.5], np.float32)}


def test_a_picture_and_a_vector_are_read_together(tmp_path: Path) -> None:
    policy = learn(Sign, tmp_path, **ONE_STEP)
    assert policy.metadata["network"] == "combined"
    cases = [(side, turned, row) for side in range(2) for turned in range(2) for row in range(3)]
    seen = [Sign.shown(*case) for case in cases]
    observation = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
    best = np.array([side ^ turned for side, turned, _ in cases])
    assert policy.probabilities(observation)[np.arange(len(cases)), best].min() >= 0.95
    np.testing.assert_allclose(policy.q(observation), np.eye(2)[best], rtol=0, atol=0.3)


class Dial(Sign):
    """The same, but the answer is a number, -0.5 or 0.5, and the reward −(answer − that)²."""

    action_space = spaces.Box(-1, 1, (1,))

    def step(self, action: Any) -> Any:
        reward = -((float(action[0]) - self.target(self.side, self.turned)) ** 2)
        return self.shown(self.side, self.turned, self.row), reward, True, False, {}

    @staticmethod
    def target(side: int, turned: int) -> float:
        return (side ^ turned) - 0.5


@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.learning), False])
def test_continuous_acer_reads_a_picture_and_a_vector_together(shared: bool, tmp_path: Path) -> None:
    given = {"agent": "acer_continuous", "preset": "classic_continuous", "shared_torso": shared, "policy_std": 0.2}
    given |= {"optimizer": "adam", "learning_rate": 1e-3, "trajectories_per_update": 0, "total_steps": 24_000}
    policy = learn(Dial, tmp_path, **ONE_STEP | given)
    assert policy.metadata["network"] == "combined"
    cases = [(side, turned, row) for side in range(2) for turned in range(2) for row in range(3)]
    seen = [Dial.shown(*case) for case in cases]
    observation = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
    wanted = np.array([Dial.target(side, turned) for side, turned, _ in cases])
    np.testing.assert_allclose(policy.answer(observation)["mean"][:, 0], wanted, rtol=0, atol=0.15)


class Lock(gymnasium.Env):
    """One step: the share of the entries that are the code of the lock that is shown."""

    observation_space = spaces.Discrete(4, start=1)
    action_space = spaces.MultiDiscrete([[2, 3], [1, 2]], start=[[1, -1], [9, 0]])
    codes = np.array([[[1, 1], [9, 0]], [[2, -1], [9, 1]], [[2, 0], [9, 0]], [[1, 0], [9, 1]]])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.lock = self.np_random.integers(4)
        return self.lock + 1, {}

    def step(self, action: Any) -> Any:
        return self.lock + 1, float((action == self.codes[self.lock]).mean()), True, False, {}


def test_every_entry_of_an_array_of_actions_is_learned(tmp_path: Path) -> None:
    policy = learn(Lock, tmp_path, **ONE_STEP)
    locks = np.eye(4, dtype=np.uint8)
    np.testing.assert_array_equal(policy(locks, greedy=True), Lock.codes)
    best = policy.probabilities(locks).argmax(axis=1)
    np.testing.assert_allclose(policy.q(locks)[np.arange(4), best], 1.0, rtol=0, atol=0.25)


class Pairs(gymnasium.ObservationWrapper):
    """Shows number n of six states as the pair (n // 3, n mod 3)."""

    observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3, start=-1)])

    def observation(self, observation: np.ndarray) -> tuple[int, int]:
        number = int(observation.argmax())
        return number // 3, number % 3 - 1


def test_a_chain_of_pairs_is_walked(tmp_path: Path) -> None:
    optimal = chain().optimal_q(GAMMA)
    policy = learn(
        lambda: Pairs(TabularEnvironment(chain())), tmp_path, num_envs=16, unroll_length=10, total_steps=32_000
    )
    observation = {
        "0": np.repeat(np.eye(2, dtype=np.uint8), 3, axis=0),
        "1": np.tile(np.eye(3, dtype=np.uint8), (2, 1)),
    }
    assert policy.probabilities(observation)[:, 1].min() >= 0.95
    np.testing.assert_allclose(policy.q(observation)[:, 1], optimal[:, 1], rtol=0, atol=0.3)
