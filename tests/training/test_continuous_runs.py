"""Continuous actions from the settings to the exported policy and its evaluation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.agents.acer_continuous import AcerContinuous
from acer_tf.errors import InvalidEnvironment, PolicyError, SettingsError
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.policies.evaluation import evaluate
from acer_tf.policies.export import export_policy
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.settings import make_settings
from acer_tf.settings.rules import rules_for
from acer_tf.training.train import train
from tests.training.scripted import rows_of

PENDULUM = "Pendulum-v1"  # its only action is in [-2, 2]
SMALL = {"env": PENDULUM, "preset": "paper_continuous", "num_envs": 4, "unroll_length": 10, "replay_capacity": 100}


def settings_of(agent: str = "acer_continuous", **given):
    return make_settings({"agent": agent, "total_steps": 800, "log_interval": 400, **SMALL, **given})


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exported") / "policy"
    network = ContinuousNetwork(envs.spec(PENDULUM), critic="dueling", policy_std=0.5, seed=3)
    observation = np.random.default_rng(0).normal(5.0, 3.0, [100, 3]).astype(np.float32)
    network.normalization.update(observation)
    # Means from far below to far above the bounds.
    network.heads.get_layer("mean").kernel.assign_add(tf.random.stateless_normal([256, 1], [0, 1], stddev=0.2))
    given = {"agent": "acer_continuous", "preset": "paper_continuous", "steps": 10, "commit": None, "versions": {}}
    export_policy(network, directory, {"env": PENDULUM, "atari_preset": None, **given})
    answer, policy = network(observation), load_policy(directory)
    np.testing.assert_allclose(policy.answer(observation)["mean"], answer[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(policy.answer(observation)["value"], answer[1], rtol=1e-4, atol=1e-5)
    return directory


@pytest.fixture
def policy(exported: Path) -> Policy:
    return load_policy(exported)


def test_the_policy_answers_action_mean_std_and_value(policy):
    observation = np.random.default_rng(1).normal(5.0, 3.0, [64, 3]).astype(np.float32)
    answer = policy.answer(observation)
    assert {name: value.shape for name, value in answer.items()} == {
        "action": (64, 1),
        "greedy_action": (64, 1),
        "mean": (64, 1),
        "std": (64, 1),
        "value": (64,),
    }
    assert np.all(answer["std"] == np.float32(0.5))
    assert (np.abs(answer["mean"]) > 1).any() and (np.abs(answer["mean"]) < 1).any()
    np.testing.assert_allclose(answer["greedy_action"], 2 * np.clip(answer["mean"], -1, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(policy(observation, greedy=True), answer["greedy_action"])


def test_sampled_actions_have_the_policy_s_mean_and_std_inside_the_bounds(policy):
    one = np.random.default_rng(2).normal(5.0, 3.0, [200, 3]).astype(np.float32)
    inside = one[np.argmin(np.abs(policy.answer(one)["mean"][:, 0]))]
    answer = policy.answer(np.tile(inside, (50_000, 1)))
    mean, action = answer["mean"][0, 0], answer["action"][:, 0]
    assert action.min() == -2 and action.max() == 2
    share = (np.abs(action) < 2).mean()
    noise = np.random.default_rng(0).normal(mean, 0.5, 1_000_000)
    assert abs(share - (np.abs(noise) < 1).mean()) < 0.01
    assert abs(action.mean() - 2 * np.clip(noise, -1, 1).mean()) < 0.02
    assert abs(action.std() - 2 * np.clip(noise, -1, 1).std()) < 0.02


@pytest.mark.process
def test_tensorflow_alone_runs_it(exported, tmp_path):
    program = f"""
import json, sys, tensorflow as tf
act = tf.saved_model.load({str(exported)!r}).signatures["serving_default"]
print(json.dumps({{k: v.numpy().tolist() for k, v in act(observation=tf.constant([[1.0, 2.0, 3.0]])).items()}}))
assert not [m for m in sys.modules if m.startswith("acer_tf")]
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    wanted = load_policy(exported).answer(np.array([[1.0, 2.0, 3.0]], np.float32))
    got = json.loads(done.stdout)
    for name in ("mean", "std", "value", "greedy_action"):
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"action_low": [-2.0, -2.0], "action_high": [2.0, 2.0]},
        {"action_low": [-1.0], "action_high": [1.0]},
        {"action_low": [], "action_high": [], "num_actions": 5},
    ],
)
def test_a_policy_of_other_actions_than_the_environment_s_is_refused(policy, changes):
    altered = {**policy.metadata, **changes}
    with pytest.raises(PolicyError, match="does not fit the installed Pendulum-v1: .* there, .* here"):
        evaluate(Policy(altered, policy._saved_model), episodes=1)


def greedy_of(mean):
    """The environment's action at the policy's mean."""
    return 2 * np.clip(mean, -1, 1)


@pytest.mark.training
@pytest.mark.parametrize("agent", rules_for(continuous=True))
def test_every_agent_trains_evaluates_and_exports(agent, tmp_path):
    observation, means = np.random.default_rng(0).normal(size=[32, 3]).astype(np.float32), []

    def on_row(row, policy):
        means.append(policy.network(observation)[0].numpy())
        np.testing.assert_allclose(policy(observation, greedy=True), greedy_of(means[-1]), rtol=1e-4, atol=1e-6)

    policy = load_policy(train(settings_of(agent), tmp_path / "run", quiet=True, on_row=on_row))
    np.testing.assert_allclose(policy(observation, greedy=True), greedy_of(means[-1]), rtol=1e-4, atol=1e-6)
    assert means[-1].std() > 1e-3 and (means[-1] != means[0]).any()
    result = evaluate(policy, episodes=3, num_envs=3)
    assert all(-2000 < value < 0 for value in result.returns) and result.steps == (200, 200, 200)
    row = rows_of(tmp_path / "run")[-1]
    replayed, on_policy = int(row["replay_updates"]), int(row["on_policy_updates"])
    if agent in ("a3c", "trust_a3c"):
        assert (replayed, on_policy) == (0, 80)  # one per environment and window
    else:
        assert on_policy == 0 and 4 * 80 - 100 < replayed < 4 * 80 + 100
    assert policy.metadata["agent"] == agent


@pytest.mark.parametrize(("dueling", "critic"), [(True, "dueling"), (False, "separate")])
def test_the_critic_is_the_one_that_is_asked_for(dueling, critic):
    assert AcerContinuous.network_options(settings_of(dueling=dueling)) == {"critic": critic}


@pytest.mark.training
def test_all_ablations_train_together(tmp_path):
    flags = {"dueling": False, "importance_truncation": np.inf, "retrace": False, "trust_region_delta": np.inf}
    paths = set()

    def on_row(row, policy):
        paths.update(variable.path for variable in policy.network.variables)

    load_policy(train(settings_of(**flags), tmp_path / "run", quiet=True, on_row=on_row))
    assert {"critic_torso/kernel", "critic_torso/bias", "critic_action/kernel"} <= paths


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("policy_std", 0.0, "--policy_std=0.0"),
        ("policy_std", -0.3, "--policy_std=-0.3"),
        ("policy_std", np.nan, "--policy_std=nan"),
        ("advantage_samples", 0, "--advantage_samples=0"),
        ("importance_truncation", -1.0, "--importance_truncation=-1.0"),
    ],
)
def test_numbers_out_of_range_are_refused(flag, value, message):
    with pytest.raises(SettingsError, match=message):
        settings_of(**{flag: value})


@pytest.mark.parametrize("agent", ["acer_continuous", "tis", "trust_tis"])
def test_discrete_actions_are_refused_before_anything_is_written(agent, tmp_path):
    with pytest.raises(
        InvalidEnvironment, match=r"CartPole-v1 has a discrete action space \(2 actions\).*--agent=acer"
    ):
        train(settings_of(agent, env="CartPole-v1"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
