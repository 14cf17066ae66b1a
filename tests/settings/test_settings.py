"""What makes settings of given values, and refuses them."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from acer_tf.envs import UNLIMITED
from acer_tf.errors import SettingsError
from acer_tf.settings import make_settings, setting_types
from acer_tf.settings.rules import RULES, rule_of
from tests.settings.conftest import pong

INF, NAN = math.inf, math.nan


def test_dqn_replays_single_transitions_and_explores_from_where_it_learns():
    assert pong(agent="dqn", preset="dqn").window_length == 1
    assert pong().window_length == 20
    assert pong(agent="dqn", preset="dqn").exploration_start == 50_000
    assert pong(agent="dqn", preset="dqn", num_envs=4, replay_start=100).exploration_start == 400


def test_a_fixed_number_of_updates_is_whole():
    with pytest.raises(SettingsError, match="--replay_ratio=0.5: .*--noreplay_poisson"):
        pong(replay_poisson=False, replay_ratio=0.5)


def test_settings_are_made_from_a_mapping_or_from_keywords_which_count_where_both_are_given():
    given = {"env": "CartPole-v1", "seed": 1, "gamma": 0.9}
    assert make_settings(given) == make_settings(**given) == make_settings({"env": "CartPole-v1", "seed": 1}, gamma=0.9)
    assert make_settings(given, seed=2) == make_settings(given | {"seed": 2})
    with pytest.raises(SettingsError, match="'gama'; did you mean gamma?"):
        make_settings(env="CartPole-v1", gama=0.9)


NOT_POSITIVE = "above 0 and finite (1e-30 to 1e30)"

BAD_VALUES = [
    ("optimizer", "sgd", "rmsprop, adam"),
    ("actors", -1, "at least 0"),
    ("actors", 3, "must divide --num_envs=16"),
    ("evaluate_every", -1, "at least 0"),
    ("evaluate_every", 9_999, "at least --log_interval=10000"),
    ("evaluate_max_episode_steps", -1, "at least 0"),
    ("evaluate_max_episode_steps", UNLIMITED + 1, f"at most {UNLIMITED:,}"),
    ("unroll_length", 0, "at least 1"),
    ("lstm_units", -1, "at least 0"),
    ("lstm_units", 4097, "at most 4,096"),
    ("dense_units", "", "such as 128,128"),
    ("dense_units", "64,0", "such as 128,128"),
    ("dense_units", "64;64", "such as 128,128"),
    ("dense_units", ",".join(["8"] * 17), "up to 16 layers"),
    ("dense_activation", "sin", "one of tanh, relu"),
    ("unroll_length", -20, "at least 1"),
    ("replay_ratio", -0.5, "at least 0"),
    ("replay_ratio", INF, "at most 1,000"),
    ("replay_ratio", 1e300, "at most 1,000"),
    ("total_steps", 10**18, "at most 1,000,000,000,000"),
    ("num_envs", 10**18, "at most 100,000"),
    ("replay_batch", 10**18, "at most 100,000"),
    ("advantage_samples", 10**18, "at most 10,000"),
    ("learning_rate", 1e39, NOT_POSITIVE),  # float32 has no such numbers
    ("learning_rate", 1e-40, NOT_POSITIVE),
    ("learning_rate", 10**400, NOT_POSITIVE),  # nor float64
    ("trust_region_delta", 1e300, "above 0 (1e-30 to 1e30; inf turns it off)"),
    ("critic_weight", 1e39, "at least 0 and finite (at most 1e30)"),
    ("trust_region_delta", 0.0, "above 0 (1e-30 to 1e30; inf turns it off)"),
    ("trust_region_delta", -1.0, "above 0 (1e-30 to 1e30; inf turns it off)"),
    ("average_decay", 1.0, "in [0, 1)"),
    ("average_decay", -0.1, "in [0, 1)"),
    ("importance_truncation", -1.0, "at least 0"),
    ("gamma", 1.01, "in [0, 1]"),
    ("gamma", -0.1, "in [0, 1]"),
    ("retrace_lambda", 1.5, "in [0, 1]"),
    ("learning_rate", 0.0, NOT_POSITIVE),
    ("learning_rate", INF, NOT_POSITIVE),
    ("learning_rate_final", -1e-9, "at least 0 and finite"),
    ("learning_rate_final", INF, "at least 0 and finite"),
    ("rmsprop_epsilon", 0.0, NOT_POSITIVE),
    ("rmsprop_decay", 1.0, "in [0, 1)"),
    ("rmsprop_initial_accumulator", -1.0, "at least 0"),
    ("max_gradient_norm", 0.0, "above 0"),
    ("entropy_weight", -0.01, "at least 0"),
    ("entropy_weight_final", -0.01, "at least 0 and finite"),
    ("entropy_weight_final", INF, "at least 0 and finite"),
    ("critic_weight", -0.5, "at least 0"),
    ("reward_clip", 0.0, "above 0"),
    ("reward_scale", 0.0, NOT_POSITIVE),
    ("reward_scale", INF, NOT_POSITIVE),
    ("reward_clip", -1.0, "above 0"),
    ("seed", -1, "at least 0"),
    ("num_envs", 0, "at least 1"),
    ("total_steps", 0, "at least 1"),
    ("log_interval", 0, "at least 1"),
    ("replay_start", -1, "at least 0"),
    ("replay_capacity", 0, "at least 1"),
    ("replay_capacity", 19, "--unroll_length=20"),
    ("trajectories_per_update", -1, "at least 0"),
    ("trajectories_per_update", 3, "must divide --num_envs=16"),
    ("trajectories_per_update", 32, "must divide --num_envs=16"),
    ("replay_start", 50_001, "--replay_capacity=50000"),
    ("preset", "papers", "one of baselines, paper, minatar"),
    ("agent", "ddqn", "one of acer, acer_continuous, a3c, trust_a3c, tis, trust_tis, dqn"),
    ("replay_priority", "ranked", "one of uniform, proportional, rank"),
    ("replay_batch", -1, "at least 0"),
    ("priority_exponent", -0.1, "in [0, 1]"),
    ("priority_exponent", NAN, "in [0, 1]"),
    ("priority_exponent_final", 1.1, "in [0, 1]"),
    ("importance_exponent", 1.5, "in [0, 1]"),
    ("importance_exponent_final", -1.0, "in [0, 1]"),
    ("priority_epsilon", -1e-9, "at least 0"),
    ("priority_epsilon", INF, "at least 0 and finite"),
    ("error_clip", 0.0, "above 0"),
    ("target_period", 0, "at least 1"),
    ("exploration_final", 1.2, "in [0, 1]"),
    ("exploration_steps", -1, "at least 0"),
    ("evaluation_epsilon", -0.1, "in [0, 1]"),
    ("atari_preset", "acer2017", "one of acer2016, machado2018"),
    ("network", "resnet", "one of auto, nature, image, small, "),
    ("precision", "float16", "one of auto, float32, bfloat16"),
    ("initialization", "xavier", "one of orthogonal, fan_in"),
    ("initialize_from", "", "the folder of a run or of an exported policy"),
    ("reset_heads", "", "all, or some of policy, q, mean, value, critic, joined by commas"),
    ("reset_heads", "policy,torso", "all, or some of policy"),
    ("reduction", "max", "one of mean, sum"),
]

# Wrong types: a float for a count, a string for a number, a number for a truth value.
BAD_TYPES = (
    [(name, value, "type int") for name, kind in setting_types().items() if kind is int for value in (20.5, "20", True)]
    + [(name, value, "type float") for name, kind in setting_types().items() if kind is float for value in ("1", True)]
    + [(name, value, "type bool") for name, kind in setting_types().items() if kind is bool for value in (1, "true")]
    + [(name, 3, "type str") for name, kind in setting_types().items() if kind is str]
    + [(name, None, "type str") for name in ("env", "agent", "network", "optimizer", "dense_units")]
)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    BAD_VALUES + [(name, NAN, "") for name, kind in setting_types().items() if kind is float],
)
def test_a_bad_value_is_refused_with_its_flag_the_value_and_what_is_right(name, value, wanted):
    with pytest.raises(SettingsError) as refused:
        pong(**{name: value})
    message = str(refused.value)
    assert message.startswith(f"--{name}={value}: ")
    assert wanted in message


@pytest.mark.parametrize(("name", "value", "wanted"), [*BAD_TYPES, ("preset", ["paper"], "type str")])
def test_a_value_of_another_type_is_refused(name, value, wanted):
    with pytest.raises(SettingsError, match=rf"^--{name}={re.escape(repr(value))}: must be of {wanted}$"):
        pong(**{name: value})


@pytest.mark.parametrize("name", [name for name, kind in setting_types().items() if kind is float])
def test_an_integer_where_a_float_belongs_is_that_float(name):
    value = getattr(pong(**{name: 0 if name in ("average_decay", "rmsprop_decay") else 1}), name)
    assert isinstance(value, float)
    assert json.dumps(value) in ("0.0", "1.0")


def test_values_at_the_edge_of_their_range_are_taken():
    edge = pong(
        unroll_length=1,
        replay_ratio=0,
        replay_start=50_000,
        trust_region_delta=INF,
        average_decay=0.0,
        importance_truncation=0.0,
        gamma=1.0,
        retrace_lambda=0.0,
        max_gradient_norm=INF,
        reward_clip=INF,
    )
    assert edge.importance_truncation == 0.0
    assert pong(importance_truncation=INF).importance_truncation == INF
    assert pong(unroll_length=50_000, replay_start=0).replay_capacity == 50_000


@pytest.mark.parametrize(
    ("agent", "name", "value", "others"),
    [
        ("a3c", "replay_ratio", 4.0, "acer, acer_continuous, tis or trust_tis"),
        ("a3c", "trust_region_delta", 1.0, "trust_a3c"),
        ("trust_a3c", "replay_ratio", 0.5, "acer, acer_continuous, tis or trust_tis"),
        ("tis", "trust_region_delta", 1.0, "trust_tis"),
    ],
)
def test_an_agent_keeps_what_makes_it_that_agent_and_another_is_named(agent, name, value, others):
    defined = f"--{name}={value}: --agent={agent} is defined by {name}"
    preset = "paper_continuous" if agent == "tis" else "paper"
    with pytest.raises(SettingsError, match=rf"^{defined} .*use another agent, such as {others}$"):
        pong(agent=agent, preset=preset, **{name: value})
    assert getattr(pong(agent="acer", **{name: value}), name) == value


def test_on_policy_agents_update_on_policy_whatever_the_preset_says():
    assert pong(agent="a3c", preset="paper_continuous").on_policy_updates
    assert not pong(agent="tis", preset="paper_continuous").on_policy_updates
    with pytest.raises(SettingsError, match="--on_policy_updates=False: --agent=a3c"):
        pong(agent="a3c", on_policy_updates=False)


@pytest.mark.parametrize("agent", ["trust_a3c", "trust_tis"])
def test_an_agent_of_the_trust_region_has_one(agent):
    with pytest.raises(
        SettingsError, match=f"^--trust_region_delta=inf: .*it is --agent={agent.removeprefix('trust_')}$"
    ):
        make_settings({"env": "CartPole-v1", "agent": agent, "trust_region_delta": INF})


def test_a_run_without_any_update_is_refused():
    with pytest.raises(SettingsError, match="--noon_policy_updates .*--replay_ratio=0.0"):
        pong(on_policy_updates=False, replay_ratio=0)


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("critic_weight", {"agent": "dqn", "critic_weight": 0}),
        ("importance_truncation", {"env": "Pendulum-v1", "agent": "trust_tis", "importance_truncation": 0}),
        ("importance_truncation", {"importance_truncation": 0, "bias_correction": False}),
        ("reduction", {"agent": "dqn", "reduction": "sum"}),
    ],
)
def test_what_would_learn_nothing_or_not_as_it_says_is_refused(flag, given):
    with pytest.raises(SettingsError, match=f"^--{flag}="):
        make_settings({"env": "CartPole-v1", **given})


def test_an_exponent_of_priorities_changes_only_if_its_end_is_given():
    given = {"env": "CartPole-v1", "replay_priority": "proportional", "priority_exponent": 0.9}
    assert make_settings(given).priority_exponent_final == 0.9
    assert make_settings(given, priority_exponent_final=0.3).priority_exponent_final == 0.3
    ends = make_settings(env="CartPole-v1", agent="dqn", preset="dqn_rank", priority_exponent=0.9)
    assert ends.priority_exponent_final == 0.0, "the preset's"
    constant = {"env": "CartPole-v1", "agent": "dqn", "preset": "ddqn_rank"}
    assert make_settings(constant).priority_exponent_final == 0.7
    assert make_settings(constant, priority_exponent=0.5).priority_exponent_final == 0.5
    assert make_settings(env="CartPole-v1", replay_priority="proportional").priority_exponent_final == 0.6


def test_the_bias_correction_alone_and_a_replay_that_is_not_read_are_none_of_these():
    assert pong(importance_truncation=0).importance_truncation == 0
    assert make_settings(env="Pendulum-v1", agent="a3c", unroll_length=6_000).replay_ratio == 0


def test_tis_is_a3c_with_the_weights_of_trajectories():
    assert {name for name, rule in RULES.items() if rule.trajectory_weights} == {"tis", "trust_tis"}
    assert rule_of("my_rules:MyTis").trajectory_weights
    assert pong(agent="trust_tis", preset="paper_continuous").trust_region_delta == 0.42
    assert pong(agent="tis", preset="paper_continuous").trust_region_delta == INF


def test_replay_may_start_anywhere_where_nothing_is_replayed():
    assert pong(preset="baselines", replay_ratio=0, replay_capacity=100).replay_start == 10_000


def test_a_missing_environment_and_an_unknown_name_are_refused():
    with pytest.raises(SettingsError, match="^--env "):
        make_settings({})
    meant = ("learning_rat", "did you mean learning_rate"), ("n_envs", "use num_envs"), ("threads", "are arguments of")
    for name, hint in meant:
        with pytest.raises(SettingsError, match=f"'{name}'.*{hint}"):
            pong(**{name: 1})


def test_numbers_of_numpy_and_whole_ones_of_any_type_are_taken_and_an_environment_alone():
    made = make_settings("CartPole-v1", seed=np.int64(3), total_steps=1e5, gamma=np.float32(0.5), retrace=np.True_)
    assert made == make_settings(env="CartPole-v1", seed=3, total_steps=100_000, gamma=0.5)
    assert [type(value) for value in (made.seed, made.total_steps, made.gamma, made.retrace)] == [int, int, float, bool]
    assert json.loads(json.dumps(dataclasses.asdict(made)))["total_steps"] == 100_000


def test_rewards_are_clipped_to_1_on_atari_alone_unless_given():
    assert pong().effective_reward_clip == 1.0
    assert make_settings({"env": "minatar/breakout"}).effective_reward_clip == INF
    assert make_settings({"env": "CartPole-v1"}).effective_reward_clip == INF
    assert pong(reward_clip=INF).effective_reward_clip == INF
    assert make_settings({"env": "CartPole-v1", "reward_clip": 2.0}).effective_reward_clip == 2.0


def test_an_environment_is_no_settings():
    with pytest.raises(SettingsError, match=r"got a Settings: dataclasses.replace"):
        make_settings(make_settings("CartPole-v1"), seed=3)
    with pytest.raises(SettingsError, match="takes an environment's name.*got a list.*goes to train"):
        make_settings([])  # type: ignore[arg-type]
    for env in (CartPoleEnv(), CartPoleEnv):
        with pytest.raises(SettingsError, match="takes an environment's name.*got a .*goes to train"):
            make_settings(env=env)


def test_the_steps_of_other_optimizers_do_not_add_up_to_those_of_several_threads():
    with pytest.raises(SettingsError, match="^--optimizer=adam: must be rmsprop with --reduction=threads.*mean or sum"):
        pong(reduction="threads", optimizer="adam")
    assert pong(reduction="sum", optimizer="adam").optimizer == "adam"


def test_an_update_stands_for_several_threads_only_where_the_reduction_says_so():
    one, four = pong(preset="baselines"), pong(preset="paper")
    assert (one.update_learning_rate, one.update_average_decay, one.update_rmsprop_decay) == (7e-4, 0.99, 0.99)
    found = four.update_learning_rate, four.update_average_decay, four.update_rmsprop_decay
    assert found == pytest.approx((4 * 7e-4, 0.99**4, 0.99**4))


def test_a_users_own_rule_and_network_are_named_by_module():
    settings = make_settings(env="CartPole-v1", agent="my_rules:VTrace", preset="classic", network="my_nets:WIDE")
    assert settings.rule.discrete == "my_rules:VTrace" and not settings.recurrent
    assert make_settings(env="CartPole-v1", agent="my_rules:VTrace", lstm_units=8).recurrent
    with pytest.raises(SettingsError, match="^--agent=vtrace"):
        make_settings(env="CartPole-v1", agent="vtrace")
    with pytest.raises(SettingsError, match="^--network=wide"):
        make_settings(env="CartPole-v1", network="wide")


def test_units_of_an_lstm_make_any_network_recurrent_and_are_refused_where_none_can_be():
    assert make_settings("CartPole-v1", lstm_units=7).recurrent
    assert make_settings("x", network="m:T", lstm_units=7).recurrent
    assert not make_settings("CartPole-v1").recurrent
    for given in ({"agent": "dqn"}, {"replay_priority": "rank"}, {"replay_capacity": 25, "replay_start": 5}):
        with pytest.raises(SettingsError, match="--lstm_units=7"):
            make_settings("CartPole-v1", lstm_units=7, **given)
