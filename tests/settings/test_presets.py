"""Each preset in full, and which preset a run has."""

import dataclasses
import math

import pytest

from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.settings import make_settings
from acer_tf.settings.presets import PRESETS
from tests.settings.conftest import pong

# Each preset in full, written independently of the code.
BASELINES = {
    "env": "atari/Pong",
    "agent": "acer",
    "preset": "baselines",
    "seed": 0,
    "total_steps": 10_000_000,
    "log_interval": 10_000,
    "evaluate_every": 0,
    "evaluate_episodes": 30,
    "evaluate_greedy": False,
    "evaluate_max_episode_steps": 0,
    "stop_at_return": None,
    "atari_preset": "acer2016",
    "action_masks": True,
    "num_envs": 16,
    "actors": 0,
    "unroll_length": 20,
    "trajectories_per_update": 0,
    "replay_ratio": 4.0,
    "replay_start": 10_000,
    "replay_capacity": 50_000,
    "replay_segments_only": False,
    "burn_in": 10,
    "network": "auto",
    "dense_units": "64,64",
    "dense_activation": "tanh",
    "lstm_units": 0,
    "dense_normalization": False,
    "normalize_observations": False,
    "precision": "auto",
    "initialization": "orthogonal",
    "initialize_from": None,
    "reset_heads": None,
    "optimizer": "rmsprop",
    "learning_rate": 7e-4,
    "learning_rate_final": None,
    "rmsprop_decay": 0.99,
    "rmsprop_epsilon": 1e-5,
    "rmsprop_initial_accumulator": 1.0,
    "max_gradient_norm": 10.0,
    "gamma": 0.99,
    "retrace_lambda": 1.0,
    "importance_truncation": 10.0,
    "bias_correction": True,
    "trust_region_delta": 1.0,
    "average_decay": 0.99,
    "entropy_weight": 0.01,
    "entropy_weight_final": None,
    "entropy_in_trust_region": True,
    "critic_weight": 0.5,
    "reduction": "mean",
    "reward_scale": 1.0,
    "normalize_rewards": False,
    "reward_clip": None,
    "on_policy_updates": True,
    "policy_std": 0.3,
    "shared_torso": True,
    "advantage_samples": 5,
    "dueling": True,
    "retrace": True,
    "replay_poisson": True,
    "replay_priority": "uniform",
    "replay_batch": 0,
    "priority_exponent": 0.6,
    "priority_exponent_final": 0.6,
    "priority_epsilon": 1e-6,
    "importance_exponent": 0.4,
    "importance_exponent_final": 1.0,
    "weights_by_batch": True,
    "rmsprop_centered": False,
    "double_q": True,
    "shared_bias": True,
    "error_clip": 1.0,
    "target_period": 30_000,
    "exploration_final": 0.01,
    "exploration_steps": 1_000_000,
    "evaluation_epsilon": 0.01,
}

PAPER = BASELINES | {
    "preset": "paper",
    "rmsprop_epsilon": 0.1,
    "rmsprop_initial_accumulator": 0.0,
    "trajectories_per_update": 4,
    "max_gradient_norm": 40.0,
    "critic_weight": 1.0,
    "initialization": "fan_in",
    "reduction": "threads",
    "replay_start": 0,
}

PAPER_CONTINUOUS = BASELINES | {
    "preset": "paper_continuous",
    "on_policy_updates": False,
    "unroll_length": 50,
    "trajectories_per_update": 1,
    "replay_start": 0,
    "replay_capacity": 5_000,
    "learning_rate": 1.4e-4,
    "dense_units": "256,256",
    "normalize_observations": True,
    "shared_torso": False,
    "importance_truncation": 5.0,
    "trust_region_delta": 0.42,
    "average_decay": 0.995,
    "entropy_weight": 0.0,
    "critic_weight": 1.0,
}

# The prioritized-replay paper's Table 2, completed from the papers of its baselines.
DDQN = BASELINES | {
    "agent": "dqn",
    "preset": "ddqn_tuned",
    "num_envs": 1,
    "unroll_length": 4,
    "trajectories_per_update": 1,
    "on_policy_updates": False,
    "replay_ratio": 1.0,
    "replay_poisson": False,
    "replay_start": 50_000,
    "replay_capacity": 1_000_000,
    "replay_batch": 32,
    "initialization": "fan_in",
    "learning_rate": 0.00025,
    "rmsprop_decay": 0.95,
    "rmsprop_epsilon": 0.01 / 1024,
    "rmsprop_centered": True,
    "rmsprop_initial_accumulator": 0.0,
    "max_gradient_norm": math.inf,
    "entropy_weight": 0.0,
    "critic_weight": 1.0,
    "trust_region_delta": math.inf,
}

QUARTER = {"learning_rate": 0.0000625, "rmsprop_epsilon": 0.01 / 1024 / 16}

DDQN_PROPORTIONAL = DDQN | QUARTER | {"preset": "ddqn_proportional", "replay_priority": "proportional"}

DDQN_PROPORTIONAL |= {"priority_epsilon": 0.01}

DDQN_RANK = (
    DDQN
    | QUARTER
    | {
        "preset": "ddqn_rank",
        "replay_priority": "rank",
        "priority_exponent": 0.7,
        "priority_exponent_final": 0.7,
        "importance_exponent": 0.5,
    }
)

DQN = DDQN | {
    "preset": "dqn",
    "double_q": False,
    "shared_bias": False,
    "target_period": 10_000,
    "exploration_final": 0.1,
    "evaluation_epsilon": 0.05,
}

DQN_RANK = (
    DQN
    | QUARTER
    | {
        "preset": "dqn_rank",
        "replay_priority": "rank",
        "priority_exponent": 0.5,
        "priority_exponent_final": 0.0,
        "importance_exponent": 0.0,
        "importance_exponent_final": 0.0,
    }
)


@pytest.mark.parametrize(
    "values", [BASELINES, PAPER, PAPER_CONTINUOUS, DQN, DQN_RANK, DDQN, DDQN_RANK, DDQN_PROPORTIONAL]
)
def test_a_preset_is_complete_and_as_designed(values):
    agent = "acer_continuous" if values["preset"] == "paper_continuous" else values["agent"]
    assert dataclasses.asdict(pong(agent=agent, preset=values["preset"])) == values | {"agent": agent}


def test_presets_of_the_other_kind_of_actions_are_refused():
    with pytest.raises(
        SettingsError, match="--preset=classic: --agent=acer_continuous takes one of classic_continuous,"
    ):
        make_settings(env="Pendulum-v1", agent="acer_continuous", preset="classic")
    with pytest.raises(SettingsError, match="--preset=paper_continuous: --agent=acer takes"):
        make_settings(env="CartPole-v1", preset="paper_continuous")
    for preset in ("classic", "classic_continuous"):  # a3c has both, and so may a rule of one's own
        assert make_settings(env="CartPole-v1", agent="a3c", preset=preset).preset == preset
        assert make_settings(env="CartPole-v1", agent="my_rules:Rule", preset=preset).preset == preset


def test_presets_of_dqn_and_of_the_others_are_not_mixed_up():
    wanted = "--preset=baselines: --agent=dqn takes one of dqn, dqn_rank, ddqn_tuned, ddqn_rank, ddqn_proportional"
    with pytest.raises(SettingsError, match=wanted):
        pong(agent="dqn", preset="baselines")
    with pytest.raises(SettingsError, match="--preset=dqn: --agent=acer"):
        pong(preset="dqn")


def test_a3c_is_replay_ratio_0_without_trust_region_and_trust_a3c_is_with():
    assert dataclasses.asdict(pong(agent="a3c", preset="baselines")) == BASELINES | {
        "agent": "a3c",
        "replay_ratio": 0.0,
        "trust_region_delta": math.inf,
    }
    assert dataclasses.asdict(pong(agent="trust_a3c", preset="paper")) == PAPER | {
        "agent": "trust_a3c",
        "replay_ratio": 0.0,
    }
    assert not pong(agent="a3c").trust_region
    assert pong(agent="trust_a3c").trust_region


def test_what_is_given_comes_before_the_agent_and_the_agent_before_the_preset(monkeypatch):
    monkeypatch.setitem(PRESETS, "odd", {"replay_ratio": 2.0, "entropy_weight": 0.5, "gamma": 0.9})
    assert pong(preset="odd").replay_ratio == 2.0
    settings = pong(preset="odd", agent="trust_a3c", gamma=0.8)
    assert (settings.replay_ratio, settings.entropy_weight, settings.gamma) == (0.0, 0.5, 0.8)


def test_the_name_of_an_environment_that_a_function_makes_needs_a_preset_where_the_agent_takes_both_kinds_of_actions():
    with pytest.raises(InvalidEnvironment, match="'corridor'.*give --preset=classic or --preset=classic_continuous"):
        make_settings(env="corridor", agent="a3c")
    assert make_settings(env="corridor", agent="a3c", preset="classic").preset == "classic"


@pytest.mark.parametrize(
    ("env", "agent", "preset"),
    [
        ("atari/Pong", "acer", "paper"),
        ("atari/Pong", "trust_a3c", "paper"),
        ("minatar/breakout", "acer", "minatar"),
        ("minatar/breakout", "dqn", "minatar_dqn"),
        ("CartPole-v1", "dqn", "classic_dqn"),
        ("atari/Pong", "dqn", "dqn"),
        ("CartPole-v1", "trust_a3c", "classic"),
        ("Pendulum-v1", "trust_a3c", "classic_continuous"),
        ("CartPole-v1", "acer", "classic"),
        ("Pendulum-v1", "acer_continuous", "classic_continuous"),
        ("control/reacher3", "a3c", "paper_continuous"),
        ("dm_control/cheetah-run-v0", "tis", "paper_continuous"),
    ],
)
def test_without_a_preset_a_run_has_the_usual_one(env, agent, preset):
    assert make_settings(env=env, agent=agent).preset == preset
    assert make_settings(env=env, agent=agent, preset="auto") == make_settings({"env": env, "agent": agent})


def test_a_value_of_the_preset_that_does_not_fit_is_said_to_be_the_presets():
    with pytest.raises(SettingsError, match=r"--num_envs=2.*--preset=paper$"):
        make_settings(env="CartPole-v1", preset="paper", num_envs=2)
    with pytest.raises(SettingsError, match="or be 0 for all environments$"):
        make_settings(env="CartPole-v1", preset="paper", num_envs=2, trajectories_per_update=4)
