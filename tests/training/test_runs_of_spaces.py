"""Runs in environments of other spaces equal, number for number, those of the same environments with a Box."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.wrappers import TimeLimit

import acer_tf
from tests.training.scripted import rows_of, timeless

SMALL = {"num_envs": 4, "unroll_length": 5, "replay_start": 10, "replay_capacity": 100, "replay_ratio": 2.0}
RUN = {**SMALL, "total_steps": 300, "log_interval": 100}


class Parted(gymnasium.Wrapper):
    """Shows a vector in parts, and acts by arrays."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        low, high = env.observation_space.low, env.observation_space.high
        last = spaces.Tuple([spaces.Box(low[2:], high[2:])])
        self.observation_space = spaces.Dict(a=spaces.Box(low[:1], high[:1]), b=spaces.Box(low[1:2], high[1:2]), c=last)
        if isinstance(env.action_space, spaces.Discrete):
            self.action_space = spaces.MultiDiscrete([[1], [2]], start=[[5], [-1]])

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        return self._parts(observation), info

    def step(self, action: Any) -> Any:
        if isinstance(self.env.action_space, spaces.Discrete):
            assert self.action_space.contains(action)
            action = action[1, 0] + 1
        observation, *others = self.env.step(action)
        return self._parts(observation), *others

    def _parts(self, observation: np.ndarray) -> dict[str, Any]:
        return {"c": (observation[2:],), "a": observation[:1], "b": observation[1:2]}


def cart_pole() -> gymnasium.Env:
    return TimeLimit(CartPoleEnv(), 60)


def parted_cart_pole() -> gymnasium.Env:
    return Parted(cart_pole())


def pendulum() -> gymnasium.Env:
    return TimeLimit(PendulumEnv(), 50)


def parted_pendulum() -> gymnasium.Env:
    return Parted(pendulum())


def rows(
    make: Callable[[], gymnasium.Env], folder: Path, values: dict[str, Any], interrupt: int = 0, **options: Any
) -> list[dict[str, str]]:
    """progress.csv, times aside, of a run that is interrupted after `interrupt` steps, if that is above 0."""
    settings, run_dir = acer_tf.make_settings(env="World-v0", **{**RUN, **values}), folder / make.__name__
    if interrupt:

        def stop(row: Any, policy: Any) -> None:
            if row["steps"] >= interrupt:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            acer_tf.train(settings, run_dir, env=make, quiet=True, threads=1, on_row=stop, **options)
    acer_tf.train(settings, run_dir, env=make, quiet=True, threads=1, **options)
    assert int(rows_of(run_dir)[-1]["replay_updates"]) > 5
    return timeless(run_dir)


TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-"))  # the version that is installed
DISCRETE = {"agent": "acer", "preset": "classic", "normalize_observations": False}
CONTINUOUS = {"agent": "acer_continuous", "preset": "classic_continuous"}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "acer": (cart_pole, parted_cart_pole, DISCRETE),
    "recurrent": (cart_pole, parted_cart_pole, {**DISCRETE, "network": "mlp", "lstm_units": 256, "burn_in": 5}),
    "dqn": (cart_pole, parted_cart_pole, {"agent": "dqn", "preset": "ddqn_proportional"} | {"target_period": 100}),
    "continuous": (pendulum, parted_pendulum, {**CONTINUOUS, "normalize_observations": False}),
    "continuous recurrent": (
        pendulum,
        parted_pendulum,
        {**CONTINUOUS, "normalize_observations": False, "lstm_units": 16, "burn_in": 5, "shared_torso": False},
    ),
}


@pytest.mark.training
@pytest.mark.parametrize("kind", KINDS)
def test_leaves_and_numbered_actions_are_learned_from_as_one_vector_is(kind: str, tmp_path: Path) -> None:
    """Also where the leaves lie in a file."""
    whole, parted, values = KINDS[kind]
    interrupt = 200 if kind == "acer" else 0  # others store leaves in the same way
    options = {"replay_file": tmp_path / "ring"} if kind == "acer" else {}
    assert rows(whole, tmp_path, values, interrupt) == rows(parted, tmp_path, values, interrupt, **options)
    policies = [acer_tf.load_policy(tmp_path / make.__name__ / "policy") for make in (whole, parted)]
    results = [
        acer_tf.evaluate(policy, episodes=3, greedy=True, env=make)
        for policy, make in zip(policies, (whole, parted), strict=True)
    ]
    assert results[0].returns == results[1].returns


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
def test_normalized_leaves_are_learned_from_as_one_vector_is(tmp_path: Path) -> None:
    """But for the order in which the statistics of several arrays are summed."""
    values = {**DISCRETE, "normalize_observations": True}
    for one, other in zip(rows(cart_pole, tmp_path, values), rows(parted_cart_pole, tmp_path, values), strict=True):
        assert {name for name in one if one[name]} == {name for name in other if other[name]}
        numbers = [[float(row[name]) for name in one if row[name]] for row in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=1e-5)


class Labelled(Parted):
    """Also shows which actions are valid, as PettingZoo's environments do: in turn one of them, and both."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Dict({**self.observation_space.spaces, "action_mask": spaces.MultiBinary(2)})
        self.action_space, self._valid = env.action_space, np.ones(2, np.int8)

    def step(self, action: Any) -> Any:
        assert self._valid[action]
        observation, *others = self.env.step(action)
        return self._parts(observation), *others

    def _parts(self, observation: np.ndarray) -> dict[str, Any]:
        self._valid = np.array([1, observation[0] > 0], np.int8)
        return {**super()._parts(observation), "action_mask": self._valid}


@pytest.mark.training
def test_a_mask_among_the_leaves_is_taken_out_of_them(tmp_path: Path) -> None:
    def make() -> gymnasium.Env:
        return Labelled(cart_pole())

    rows(make, tmp_path, DISCRETE)
    policy = acer_tf.load_policy(tmp_path / "make" / "policy")
    assert policy.spec.action_masks and policy.spec.observation_shape.keys() == {"a", "b", "c/0"}
    seen = {name: np.zeros((3, *shape), np.float32) for name, shape in policy.spec.observation_shape.items()}
    mask = np.array([[1, 0], [0, 1], [1, 1]], bool)
    assert (policy.answer(seen, action_mask=mask)["probabilities"][:2].argmax(axis=1) == [0, 1]).all()
    result = acer_tf.evaluate(policy, episodes=2, env=make)
    assert result.returns == result.steps  # a pole's reward is 1 in each step


@pytest.mark.training
@pytest.mark.parametrize("env", [TAXI, "Blackjack-v1"])
def test_gymnasium_s_tasks_of_categories_need_no_flag(env: str, tmp_path: Path) -> None:
    evaluated = {"evaluate_every": 200, "evaluate_episodes": 2}
    settings = acer_tf.make_settings(env=env, total_steps=300, log_interval=100, **evaluated)
    policy = acer_tf.load_policy(acer_tf.train(settings, tmp_path, quiet=True))
    assert policy.metadata["network"] == "mlp"
    result = acer_tf.evaluate(policy, episodes=3, max_episode_steps=100)
    assert all(-1000 <= value <= 20 for value in result.returns) if env == TAXI else {-1, 0, 1} >= {*result.returns}
