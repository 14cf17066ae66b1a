import ast
import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import acer_tf
from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.settings import Settings, make_settings, setting_types
from acer_tf.settings.declaration import declarations
from acer_tf.settings.presets import PRESETS
from acer_tf.settings.record import changed, differences, idle, settings_document, settings_from
from acer_tf.settings.rules import RULES, rule_of

TRAINING, AGENTS = (Path(acer_tf.__file__).parent / part for part in ("training", "agents"))
INF, NAN = math.inf, math.nan

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
    "max_gradient_norm": INF,
    "entropy_weight": 0.0,
    "critic_weight": 1.0,
    "trust_region_delta": INF,
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


def pong(**given):
    return make_settings({"env": "atari/Pong", **given})


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


def test_dqn_replays_single_transitions_and_explores_from_where_it_learns():
    assert pong(agent="dqn", preset="dqn").window_length == 1
    assert pong().window_length == 20
    assert pong(agent="dqn", preset="dqn").exploration_start == 50_000
    assert pong(agent="dqn", preset="dqn", num_envs=4, replay_start=100).exploration_start == 400


def test_a_fixed_number_of_updates_is_whole():
    with pytest.raises(SettingsError, match="--replay_ratio=0.5: .*--noreplay_poisson"):
        pong(replay_poisson=False, replay_ratio=0.5)


def test_a3c_is_replay_ratio_0_without_trust_region_and_trust_a3c_is_with():
    assert dataclasses.asdict(pong(agent="a3c", preset="baselines")) == BASELINES | {
        "agent": "a3c",
        "replay_ratio": 0.0,
        "trust_region_delta": INF,
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


def test_settings_are_made_from_a_mapping_or_from_keywords_which_count_where_both_are_given():
    given = {"env": "CartPole-v1", "seed": 1, "gamma": 0.9}
    assert make_settings(given) == make_settings(**given) == make_settings({"env": "CartPole-v1", "seed": 1}, gamma=0.9)
    assert make_settings(given, seed=2) == make_settings(given | {"seed": 2})
    with pytest.raises(SettingsError, match="'gama'; did you mean gamma?"):
        make_settings(env="CartPole-v1", gama=0.9)


NOT_POSITIVE = "above 0 and finite (1e-30 to 1e30)"
BAD_VALUES = [
    ("optimizer", "sgd", "rmsprop, adam"),
    ("unroll_length", 0, "at least 1"),
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
    ("rmsprop_epsilon", 0.0, NOT_POSITIVE),
    ("rmsprop_decay", 1.0, "in [0, 1)"),
    ("rmsprop_initial_accumulator", -1.0, "at least 0"),
    ("max_gradient_norm", 0.0, "above 0"),
    ("entropy_weight", -0.01, "at least 0"),
    ("critic_weight", -0.5, "at least 0"),
    ("reward_clip", 0.0, "above 0"),
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


def test_the_name_of_an_environment_that_a_function_makes_needs_a_preset_where_the_agent_takes_both_kinds_of_actions():
    with pytest.raises(InvalidEnvironment, match="'corridor'.*give --preset=classic or --preset=classic_continuous"):
        make_settings(env="corridor", agent="a3c")
    assert make_settings(env="corridor", agent="a3c", preset="classic").preset == "classic"


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


def attributes_of(name: str, source: str) -> set[str]:
    """The attributes that `source` reads of a variable `name` or of `self._<name>`."""
    reads = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return {node.attr for node in reads if ast.unparse(node.value) in (name, f"self._{name}")}


def test_every_setting_is_read_where_runs_are_built():
    of_runs = ("active_run", "build", "evaluations", "initialize", "loop", "run", "train")
    files = [
        *(TRAINING / f"{name}.py" for name in of_runs),
        *AGENTS.glob("*.py"),
    ]
    read = set().union(*(attributes_of(x, f.read_text()) for f in files for x in ("settings", "h", "self.settings")))
    # Read through properties of `Settings`.
    for effective, name in {
        "dense_sizes": "dense_units",
        "effective_reward_clip": "reward_clip",
        "update_average_decay": "average_decay",
        "update_learning_rate": "learning_rate",
        "update_rmsprop_decay": "rmsprop_decay",
        "ended_by": "stop_at_return",
        "windows_per_update": "replay_batch",
        "rule": "agent",
    }.items():
        assert effective in read
        read.add(name)
    assert {f.name for f in dataclasses.fields(Settings)} - read == set()
    assert attributes_of("settings", "x = settings.gamma + self._settings.seed + other.agent") == {"gamma", "seed"}


def test_what_a_rule_reads_is_what_its_declaration_says():
    """A setting declares the classes whose files, or agent.py, read it."""
    shared = (AGENTS / "agent.py").read_text()
    files = {"Acer": "acer", "AcerContinuous": "acer_continuous", "ActorCritic": "actor_critic", "Dqn": "dqn"}
    for kind, file in files.items():
        source = (AGENTS / f"{file}.py").read_text() + shared
        read = set().union(*(attributes_of(x, source) for x in ("h", "self.settings", "settings")))
        declared = {name for name, d in declarations(Settings).items() if kind in d.classes}
        assert declared - read == set(), kind
        unread = {name for name, d in declarations(Settings).items() if d.classes and kind not in d.classes}
        assert unread & read - {"exploration_start"} == set(), kind


def test_every_setting_has_a_help_and_a_type_of_flag():
    assert all(len(d.help) > 3 for d in declarations(Settings).values())
    assert set(setting_types().values()) == {int, float, bool, str}


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


def test_a_users_own_rule_and_network_are_named_by_module():
    settings = make_settings(env="CartPole-v1", agent="my_rules:VTrace", preset="classic", network="my_nets:WIDE")
    assert settings.rule.discrete == "my_rules:VTrace" and not settings.recurrent
    assert make_settings(env="CartPole-v1", agent="my_rules:VTrace", lstm_units=8).recurrent
    with pytest.raises(SettingsError, match="^--agent=vtrace"):
        make_settings(env="CartPole-v1", agent="vtrace")
    with pytest.raises(SettingsError, match="^--network=wide"):
        make_settings(env="CartPole-v1", network="wide")


def test_differences_name_each_setting_with_both_values():
    assert differences({"a": 1, "b": 2.0, "c": "x"}, {"a": 1.0, "b": 3.0, "d": None}) == [
        "b: 2.0 there, 3.0 here",
        "c: x there, (absent) here",
        "d: (absent) there, None here",
    ]
    assert differences({"a": None}, {}) == ["a: None there, (absent) here"]
    assert differences(BASELINES, BASELINES) == []


def test_a_record_may_be_older_than_a_setting():
    settings = make_settings({"env": "atari/Pong", "seed": 3})
    document = settings_document(settings)
    older = {name: value for name, value in document.items() if name != "burn_in"}
    assert differences(older, document) == [] == differences(document, older)
    assert differences(older, document | {"burn_in": 3}) == ["burn_in: 10 there, 3 here"]
    assert settings_from(older) == settings
    # The default, not the value of today's preset.
    preset = {"env": "atari/Pong", "agent": "dqn", "preset": "ddqn_tuned"}
    older = {n: v for n, v in settings_document(make_settings(preset)).items() if n != "num_envs"}
    assert settings_from(older).num_envs == Settings("atari/Pong").num_envs != make_settings(preset).num_envs


def test_a_record_holds_infinities_as_flags_take_them():
    settings = make_settings({"env": "CartPole-v1", "agent": "a3c"})
    document = settings_document(settings)
    assert (document["reward_clip"], document["trust_region_delta"]) == (None, "inf")
    assert settings_from(json.loads(json.dumps(document, allow_nan=False))) == settings


def test_what_differs_from_the_defaults_identifies_a_run():
    assert changed(Settings("CartPole-v1")) == {"env": "CartPole-v1"}
    assert changed(Settings("CartPole-v1", seed=2, trust_region_delta=INF)) == {
        "env": "CartPole-v1",
        "seed": 2,
        "trust_region_delta": "inf",
    }


def test_a_value_of_the_preset_that_does_not_fit_is_said_to_be_the_presets():
    with pytest.raises(SettingsError, match=r"--num_envs=2.*--preset=paper$"):
        make_settings(env="CartPole-v1", preset="paper", num_envs=2)
    with pytest.raises(SettingsError, match="or be 0 for all environments$"):
        make_settings(env="CartPole-v1", preset="paper", num_envs=2, trajectories_per_update=4)


def test_units_of_an_lstm_make_any_network_recurrent_and_are_refused_where_none_can_be():
    assert make_settings("CartPole-v1", lstm_units=7).recurrent
    assert make_settings("x", network="m:T", lstm_units=7).recurrent
    assert not make_settings("CartPole-v1").recurrent
    for given in ({"agent": "dqn"}, {"replay_priority": "rank"}, {"replay_capacity": 25, "replay_start": 5}):
        with pytest.raises(SettingsError, match="--lstm_units=7"):
            make_settings("CartPole-v1", lstm_units=7, **given)


@pytest.mark.parametrize(
    ("priority", "unread", "read"),
    [
        ("uniform", {"priority_exponent", "importance_exponent", "priority_epsilon"}, {"replay_batch"}),
        ("rank", {"priority_epsilon"}, {"priority_exponent", "importance_exponent"}),
        ("proportional", set(), {"priority_exponent", "importance_exponent", "priority_epsilon"}),
    ],
)
def test_the_settings_of_priorities_that_a_record_did_not_read(priority, unread, read):
    found = idle({"replay_priority": priority})
    assert unread <= found
    assert not read & found
