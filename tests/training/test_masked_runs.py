"""Runs in environments with action masks, which fail at an action that is not valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.errors import PolicyError
from acer_tf.policies.evaluation import evaluate
from acer_tf.policies.policy import load_policy
from acer_tf.settings import make_settings
from acer_tf.training.build import make_agent, make_replay
from acer_tf.training.resolve import resolve
from acer_tf.training.train import train
from tests.envs.test_masks import CODES, Masked
from tests.replay.checks import check_valid
from tests.replay.twin import latest, sample
from tests.training.scripted import collector_of, rows_of, same

SMALL = {"env": "masked", "preset": "classic", "num_envs": 4, "unroll_length": 5, "replay_start": 10}
SHORT = {**SMALL, "replay_capacity": 100, "total_steps": 400, "log_interval": 100}
DQN = {"agent": "dqn", "preset": "ddqn_proportional", "exploration_steps": 200, "target_period": 100}
KINDS: dict[str, dict[str, Any]] = {
    "acer": {},
    "recurrent": {"network": "mlp", "lstm_units": 256, "burn_in": 3},
    "dqn": DQN,
    "a3c": {"agent": "a3c"},
    "prioritized": {"replay_priority": "rank"},
    "actors": {"actors": 2},
    "evaluated": {"evaluate_every": 200, "evaluate_episodes": 4},
}
COMPILED = ("acer", "recurrent", "dqn")


def truncated() -> Masked:
    return Masked(cut=True)


class Bare(Masked):
    """Shows no masks."""

    def info(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("lstm_units", [0, 256])
def test_what_acting_recorded_is_what_the_update_computes(lstm_units: int, tmp_path: Path) -> None:
    """Masks stand in the rows of their observations, and φ of the behaviour is that of whole windows."""
    env = envs.make("masked", 3, 0, factory=truncated)
    given = {**SMALL, "num_envs": 3, "lstm_units": lstm_units, "replay_capacity": 60}
    settings = resolve(make_settings(given), env.spec)
    agent, replay = make_agent(settings, env.spec), make_replay(settings, env.spec)
    head = agent.network.heads.get_layer("policy")
    head.kernel.assign(1000 * head.kernel)
    collector = collector_of(env, agent.act, replay, seed=0)
    for _ in range(15):  # past the ring's end
        collector.collect(5)
    check_valid(replay)
    windows = [latest(replay), *(sample(replay) for _ in range(10))]
    for window in windows:
        rows = window.mask.shape[1]
        shown = CODES[window.observation[:, -rows - 1 :, 0].astype(int)].astype(bool)
        np.testing.assert_array_equal(window.legal, shown)
        assert np.take_along_axis(window.legal[:, :-1], window.action[..., None], axis=2).all()
        assert not window.behaviour[~window.legal[:, :-1]].any()
        planes = agent.network.planes(tf.constant(window.observation), tf.constant(window.age))
        read = agent.network.burn_in(planes, window.memory, rows + 1)
        probabilities, _ = agent.network.windows(*read, legal=tf.constant(window.legal))
        np.testing.assert_allclose(probabilities[:, :-1], window.behaviour, atol=1e-5)
    assert not all(window.mask.all() for window in windows)
    restored = make_replay(settings, env.spec)
    restored.restore(tmp_path, replay.save(tmp_path))
    assert all(same(sample(restored), sample(replay)) for _ in range(5))


@pytest.mark.training
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.xla if kind in COMPILED else ()) for kind in KINDS]
)
def test_runs_and_their_policies_choose_valid_actions_alone(kind: str, tmp_path: Path) -> None:
    settings = make_settings({**SHORT, **KINDS[kind]})
    env = truncated if kind == "acer" else Masked

    def stop(row: dict[str, Any], policy: Any) -> None:
        if row["steps"] >= 200:
            raise InterruptedError

    if kind == "dqn":  # a recurrent one: tests/training/test_ray_actors.py
        with pytest.raises(InterruptedError):
            train(settings, tmp_path / "run", quiet=True, env=env, on_row=stop)
    before = rows_of(tmp_path / "run") if kind == "dqn" else []
    policy = load_policy(train(settings, tmp_path / "run", quiet=True, env=env))
    rows = rows_of(tmp_path / "run")
    assert rows[: len(before)] == before
    assert int(rows[-1]["steps"]) >= 400 and policy.spec.action_masks
    assert kind != "evaluated" or float(rows[-1]["evaluation_return"]) == 3.0
    assert kind == "a3c" or int(rows[-1]["replay_updates"]) > (50 if kind == "prioritized" else 0)
    for greedy in (False, True):
        assert evaluate(policy, episodes=20, env=env, greedy=greedy).mean == 3.0
    with pytest.raises(PolicyError, match="action_masks"):
        evaluate(policy, episodes=2, env=Bare)


@pytest.mark.training
def test_masks_are_ignored_where_they_are_turned_off(tmp_path: Path) -> None:
    class Lenient(Masked):
        def step(self, action: Any) -> Any:
            self.code |= 1 << int(action)
            return super().step(action)

    policy = load_policy(train(make_settings({**SHORT, "action_masks": False}), tmp_path, quiet=True, env=Lenient))
    assert not policy.spec.action_masks
    assert evaluate(policy, episodes=5, env=Lenient).mean == 3.0
