"""DQN, and ACER by priority, from the settings to the exported policy and its evaluation."""

from __future__ import annotations

import tracemalloc

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.policies.evaluation import evaluate
from acer_tf.policies.policy import load_policy
from acer_tf.replay import PrioritizedReplay, RankHeap, SumTree, TrajectoryReplay
from acer_tf.settings import make_settings
from acer_tf.settings.rules import RULES
from acer_tf.training.build import make_agent, make_replay
from acer_tf.training.resolve import resolve
from acer_tf.training.train import train
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import rows_of

ATARI = EnvironmentSpec((4, 84, 84), "uint8", 4, num_actions=18, frames_per_step=4)


def dqn(preset="ddqn_proportional", **given):
    small = {"total_steps": 600, "log_interval": 100, "replay_start": 200, "replay_capacity": 1_000}
    return make_settings({"env": "CartPole-v1", "agent": "dqn", "preset": preset, **small, **given})


def acer(**given):
    small = {"total_steps": 600, "log_interval": 100, "replay_start": 10, "replay_capacity": 100, "num_envs": 4}
    return make_settings({"env": "CartPole-v1", "unroll_length": 5, **small, **given})


@pytest.mark.training
@pytest.mark.parametrize("preset", RULES["dqn"].presets)
def test_every_preset_trains_evaluates_and_exports(preset, trained):
    run_dir = trained(dqn(preset, num_envs=1))
    policy, rows = load_policy(run_dir / "policy"), rows_of(run_dir)
    assert rows[0]["replay/td_error"] == "" and float(rows[-1]["replay/td_error"]) > 0
    # One for every four rows from the 200th on, including masked rows; classic_dqn makes four.
    unrolls = (int(rows[-1]["stored_rows"]) - 200) // 4 + 1
    assert int(rows[-1]["replay_updates"]) == unrolls * (4 if preset == "classic_dqn" else 1)
    assert rows[-1]["on_policy_updates"] == "0"
    assert len(evaluate(policy, episodes=3).returns) == 3
    observation = np.random.default_rng(0).normal(size=[9, 4]).astype(np.float32)
    epsilon = 0.05 if preset in ("dqn", "dqn_rank") else 0.01
    probabilities, q = policy.probabilities(observation), policy.q(observation)
    np.testing.assert_allclose(probabilities.max(axis=1), 1 - epsilon / 2, rtol=1e-6)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), q.argmax(axis=1))


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
def test_one_update_per_four_steps_whatever_the_number_of_environments(tmp_path):
    train(dqn(num_envs=4, replay_start=50), tmp_path / "run", quiet=True)
    row = rows_of(tmp_path / "run")[-1]
    rows, updates = 4 * int(row["stored_rows"]), int(row["replay_updates"])  # masked rows count as steps here
    assert abs(updates - (rows - 200) / 4) <= 4


@pytest.mark.training
def test_acer_learns_from_prioritized_trajectories(tmp_path):
    """By rank: tests/training/test_masked_runs.py."""
    load_policy(train(acer(replay_priority="proportional"), tmp_path / "run", quiet=True))
    assert int(rows_of(tmp_path / "run")[-1]["replay_updates"]) > 50


def test_the_kind_of_replay_that_is_made():
    spec = envs.spec("CartPole-v1")
    kinds = {
        "uniform": type(make_replay(resolve(acer(), spec), spec)),
        "rank": type(make_replay(resolve(acer(replay_priority="rank"), spec), spec)),
        "dqn": type(make_replay(resolve(dqn("dqn"), spec), spec)),
    }
    assert kinds == {"uniform": TrajectoryReplay, "rank": PrioritizedReplay, "dqn": PrioritizedReplay}


@pytest.mark.parametrize("structure", [SumTree, RankHeap])
def test_a_million_atari_transitions_fit_into_7_6_gigabytes(structure):
    tracemalloc.start()
    try:
        priorities = structure(1_000_000)
        priorities.set(np.arange(1_000_000), np.ones(1_000_000))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held > 8e6  # it is seen
    assert PrioritizedReplay.required_bytes(ATARI, 1, 1_000_000) + held <= 7.6e9


def _agent_and_trajectory():
    spec = envs.spec("CartPole-v1")
    settings = resolve(acer(trust_region_delta=0.01), spec)
    rng = np.random.default_rng(0)
    blank = optree.tree_map(lambda a: a[0], make_replay(settings, spec).blank(1, settings.num_envs).trajectory)
    behaviour = rng.dirichlet([1, 1], blank.mask.shape).astype(np.float32)
    trajectory = blank._replace(
        observation=rng.normal(size=blank.observation.shape).astype(np.float32),
        action=rng.integers(0, 2, blank.action.shape).astype(np.int32),
        reward=rng.normal(size=blank.reward.shape).astype(np.float32),
        discount=np.ones(blank.discount.shape, np.float32),
        mask=np.ones(blank.mask.shape, bool),
        behaviour=behaviour,
    )
    return make_agent(settings, spec), trajectory


def test_a_weight_scales_the_projected_gradient_and_the_critic_s_error():
    agent, trajectory = _agent_and_trajectory()
    tensors = optree.tree_map(tf.constant, trajectory)
    weight = np.array([0.5, 1.0, 0.25, 0.0], np.float32)
    rng = np.random.default_rng(1)
    probabilities = tf.constant(rng.dirichlet([1, 1], (4, 6)), tf.float32)
    average = tf.constant(rng.dirichlet([1, 1], (4, 5)), tf.float32)
    q = tf.constant(rng.normal(size=(4, 6, 2)), tf.float32)
    plain = agent.output_gradients(tensors, probabilities, q, average)
    weighted = agent.output_gradients(tensors, probabilities, q, average, tf.constant(weight))
    assert float(plain.diagnostics["trust_region_active"]) > 0.1
    np.testing.assert_allclose(weighted.policy, weight[:, None, None] * plain.policy, rtol=1e-6)
    np.testing.assert_allclose(weighted.q, weight[:, None] * plain.q, rtol=1e-6)
    np.testing.assert_array_equal(weighted.errors, plain.errors)
    # The errors are the critic's mean |Q_ret − Q|: its gradient is −½ (Q_ret − Q) over the 20 rows.
    np.testing.assert_allclose(plain.errors, np.abs(plain.q).mean(axis=1) * 20 / 0.5, rtol=1e-5)
