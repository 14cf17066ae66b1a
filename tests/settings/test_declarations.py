"""What a setting declares is what the code does: who reads it, and what it needs to have an effect."""

import ast
import dataclasses
import math
from pathlib import Path

import pytest

import acer_tf
from acer_tf.settings import Settings, make_settings, setting_types
from acer_tf.settings.declaration import declarations
from acer_tf.settings.effect import missing_for
from acer_tf.types import EnvironmentSpec

TRAINING, AGENTS = (Path(acer_tf.__file__).parent / part for part in ("training", "agents"))


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


DISCRETE = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
CONTINUOUS = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))
REPLAY, DRAWS = "--replay_ratio above 0", "--replay_priority=proportional or rank"
ACERS, ENTROPY, OFF = "--agent=acer or a3c or trust_a3c", {"entropy_weight": 0.1}, math.inf
PRIORITIES = ["priority_exponent", "priority_exponent_final", "importance_exponent", "importance_exponent_final"]
PRIORITIES += ["weights_by_batch"]
OF_DQN = ["double_q", "shared_bias", "error_clip", "exploration_final", "exploration_steps"]
OF_RMSPROP = ["rmsprop_decay", "rmsprop_epsilon", "rmsprop_centered", "rmsprop_initial_accumulator"]

# A setting, the agent and values under which it lacks one thing alone, and that thing.
WITHOUT_EFFECT = [
    *((name, "acer", {"optimizer": "adam"}, "--optimizer=rmsprop") for name in OF_RMSPROP),
    *((name, "acer", {"replay_priority": "rank", "replay_ratio": 0.0}, REPLAY) for name in PRIORITIES),
    *((name, "acer", {}, DRAWS) for name in PRIORITIES),
    (
        "weights_by_batch",
        "acer",
        {"replay_priority": "rank", "importance_exponent": 0.0, "importance_exponent_final": 0.0},
        "--importance_exponent or --importance_exponent_final above 0",
    ),
    ("dense_activation", "acer", {"network": "small"}, "a --network that is mlp, combined or your own"),
    ("dense_normalization", "acer", {"network": "small"}, "a --network that is mlp, combined or your own"),
    ("evaluate_max_episode_steps", "acer", {}, "--evaluate_every above 0"),
    ("shared_torso", "acer", {}, "continuous actions"),
    *((name, "acer", {}, "--agent=dqn") for name in OF_DQN),
    ("advantage_samples", "trust_tis", {}, "--agent=acer_continuous"),
    ("advantage_samples", "acer_continuous", {"dueling": False}, "--dueling"),
    ("importance_truncation", "dqn", {}, ACERS),
    (
        "importance_truncation",
        "trust_a3c",
        {"preset": "paper_continuous"},
        "an agent with importance weights, which a3c and trust_a3c have with discrete actions only",
    ),
    ("entropy_weight_final", "dqn", {}, ACERS),
    ("entropy_weight_final", "acer_continuous", {}, "other actions than continuous ones"),
    ("entropy_in_trust_region", "acer", {"trust_region_delta": OFF}, "a finite --trust_region_delta"),
    ("entropy_in_trust_region", "acer", {"entropy_weight": 0.0}, "--entropy_weight above 0"),
    ("entropy_in_trust_region", "acer_continuous", ENTROPY, "other actions than continuous ones"),
]


@pytest.mark.parametrize(("name", "agent", "given", "needed"), WITHOUT_EFFECT)
def test_a_setting_without_effect_names_the_one_thing_that_it_lacks(name, agent, given, needed):
    continuous = agent in ("acer_continuous", "trust_tis") or given.get("preset") == "paper_continuous"
    spec, env = (CONTINUOUS, "Pendulum-v1") if continuous else (DISCRETE, "CartPole-v1")
    preset = {"dqn": "dqn", "acer": "baselines"}.get(agent, "paper_continuous")
    settings = make_settings({"env": env, "agent": agent, "preset": preset, "network": "mlp", **given})
    assert missing_for(name, settings, spec) == [needed]
