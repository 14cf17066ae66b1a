"""Runs that begin with the weights of another run or of an exported policy: `--initialize_from`, `--reset_heads`."""

from __future__ import annotations

import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import acer_tf
from acer_tf.errors import SettingsError
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import HEADS, SCHEDULED
from acer_tf.runs.checkpoint import Checkpoints, _snapshot
from acer_tf.settings import Settings, make_settings
from acer_tf.settings.record import settings_from
from acer_tf.training.build import make_agent, make_network
from acer_tf.training.initialize import _by_place, _part, initial_weights
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import rows_of, small_settings, tree

CONTINUOUS = {"env": "Pendulum-v1", "agent": "acer_continuous", "unroll_length": 10}
KINDS: dict[str, dict[str, Any]] = {
    "acer": {},
    "recurrent": {"preset": "baselines", "network": "mlp_lstm", "replay_start": 20},
    "dqn": {"agent": "dqn"},
    "continuous": CONTINUOUS,
    "combined": {"env": "Seen-v0", "network": "combined"},
}


class Seen(gymnasium.ObservationWrapper):
    """CartPole with a small image of where the cart is."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        image = spaces.Box(0, 255, (5, 5, 1), np.uint8)
        self.observation_space = spaces.Dict({"numbers": self.env.observation_space, "image": image})

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"numbers": observation, "image": np.full((5, 5, 1), 100 + 20 * observation[0], np.uint8)}


@pytest.fixture(autouse=True, scope="module")
def _seen() -> None:
    gymnasium.register("Seen-v0", Seen, max_episode_steps=200)


def first_weights(run_dir: Path) -> dict[str, np.ndarray]:
    """The variables of the checkpoint that a run writes before its first step."""
    return _snapshot(run_dir / "checkpoints" / f"{0:012d}")[0].arrays


def newest_weights(run_dir: Path) -> dict[str, np.ndarray]:
    snapshot = Checkpoints(run_dir / "checkpoints").restore(None)
    assert snapshot is not None
    return snapshot.arrays


def begin(settings: Settings, run_dir: Path) -> dict[str, np.ndarray]:
    """The first weights of a run that stops after its first row."""

    def stop(row: Any, policy: Any) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        acer_tf.train(settings, run_dir, quiet=True, threads=1, on_row=stop)
    return first_weights(run_dir)


def of_group(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(group): array for name, array in arrays.items() if name.startswith(group)}


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool((a == b).all())


@pytest.mark.training
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_begins_with_the_weights_of_a_run_and_loads_them_once(kind, trained, tmp_path):
    made = small_settings(**KINDS[kind])
    source = tmp_path / "source"
    shutil.copytree(trained(made), source)
    settings = small_settings(**KINDS[kind], seed=7, total_steps=200, initialize_from=source)
    weights, before = begin(settings, tmp_path / "run"), newest_weights(source)
    online = of_group(before, "online/")
    online.pop("exploration/epsilon", None)
    assert len(online) > 4
    for group in ("online/", "average/"):
        assert all(equal(of_group(weights, group)[name], array) for name, array in online.items()), group
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    fresh = make_agent(settings_from(record["settings"]), EnvironmentSpec.of(record["environment"])).arrays()
    slots = [list(of_group(arrays, "optimizer/").values()) for arrays in (weights, fresh)]
    assert slots[0] and all(map(equal, *slots))
    steps = json.loads((source / "run.json").read_text())["steps"]
    assert record["initialized_from"] == {"path": str(source), "env": made.env, "steps": steps, "drawn": []}
    assert int(rows_of(tmp_path / "run")[0]["steps"]) < 2 * made.log_interval, "it counts from 0"

    shutil.rmtree(source)
    acer_tf.train(settings, tmp_path / "run", quiet=True, threads=1)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["finished"]
    with pytest.raises(acer_tf.RunFolderError, match="initialize_from"):
        acer_tf.train(small_settings(**KINDS[kind], seed=7, total_steps=300), tmp_path / "run", quiet=True)


@pytest.mark.training
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_begins_with_what_a_policy_holds(kind, trained, tmp_path):
    source = trained(small_settings(**KINDS[kind]))
    record = json.loads((source / "run.json").read_text())
    given = {**record["settings"], "seed": 7, "initialize_from": str(source / "policy")}
    network = make_network(settings_from(given), EnvironmentSpec.of(record["environment"]))
    lacking = ["critic"] if kind == "continuous" else []
    if lacking:
        with pytest.raises(SettingsError, match="critic/kernel is absent there.*--reset_heads=critic "):
            initial_weights(settings_from(given), network)
        given["reset_heads"] = "critic"
    taken, origin = initial_weights(settings_from(given), network)
    assert origin["drawn"] == lacking and origin["steps"] == record["steps"]
    for name, array in of_group(newest_weights(source), "online/").items():
        if name == "normalization/count":  # a policy does not have it
            assert taken[name] == pytest.approx(array, rel=0.1)
        elif name != "exploration/epsilon":
            assert name not in taken if _part(name) in lacking else equal(taken[name], array), name


@pytest.mark.training
def test_the_first_greedy_evaluation_is_the_source_s(trained_cartpole, tmp_path):
    evaluate = functools.partial(acer_tf.evaluate, episodes=6, greedy=True, seed=4)
    found: list[Any] = []
    # Learning moves no weight, and the run has no moments of observations, which rows would move.
    still = {"preset": "baselines", "network": "mlp", "learning_rate": 1e-30, "log_interval": 40}
    source = tmp_path / "source"
    acer_tf.train(small_settings(**{**still, "learning_rate": 1e-2}), source, quiet=True)
    settings = small_settings(**still, seed=8, total_steps=40, initialize_from=source)
    acer_tf.train(settings, tmp_path / "run", quiet=True, on_row=lambda row, policy: found.append(evaluate(policy)))
    assert found[0].returns == evaluate(source / "policy").returns
    assert found[0].returns != evaluate(trained_cartpole / "policy").returns


def spec_with(actions: int = 2, size: int = 4) -> EnvironmentSpec:
    return EnvironmentSpec((size,), "float32", stack=1, num_actions=actions)


def resolved(spec: EnvironmentSpec, **given: Any) -> tuple[Settings, Network]:
    settings = small_settings(**{"network": "mlp", "precision": "float32", **given})
    network = make_network(settings, spec)
    assert isinstance(network, Network)
    return settings, network


@pytest.mark.slow
def test_reset_heads_keeps_the_torso_and_draws_the_heads_that_it_names(trained_cartpole):
    source = {"initialize_from": trained_cartpole}
    for named, drawn in (("all", "policy,q"), ("q", "q"), ("policy", "policy"), ("q,policy", "q,policy"), (None, "")):
        kept = {"policy", "q", "torso"} - set(drawn.split(","))
        settings, network = resolved(spec_with(), **source, reset_heads=named, seed=9)
        taken, record = initial_weights(settings, network)
        paths = [weight.path for weight in network.weights]
        assert set(taken) == {path for path in paths if _part(path) in kept}
        assert ",".join(record["drawn"]) == drawn
    settings, network = resolved(spec_with(actions=5), **source, reset_heads="all")
    assert {_part(path) for path in initial_weights(settings, network).weights} == {"torso"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "spec", "messages"),
    [
        ({}, spec_with(actions=3), ["policy/kernel is (64, 2) there, (64, 3) here", "--reset_heads=policy,q "]),
        ({"reset_heads": "q"}, spec_with(actions=3), ["policy/kernel", "--reset_heads=q,policy "]),
        ({"agent": "dqn", "preset": "dqn"}, spec_with(), ["torso", "normalization1/gamma is (64,) there, absent here"]),
        ({"dense_units": "32"}, spec_with(), ["dense1/kernel is (4, 64) there, (4, 32) here", "--dense_units=64,64"]),
        ({"dense_units": "32", "reset_heads": "all"}, spec_with(), ["dense1/kernel is (4, 64) there, (4, 32) here"]),
        ({"dense_activation": "relu"}, spec_with(), ["dense_activation is gelu there, relu here"]),
        ({"lstm_units": 8, "reset_heads": "all"}, spec_with(), ["lstm/lstm_cell/kernel is absent there"]),
        ({"reset_heads": "critic"}, spec_with(), ["--reset_heads=critic", "no head critic, but policy, q"]),
    ],
)
def test_what_does_not_fit_is_named(given, spec, messages, trained_cartpole):
    settings, network = resolved(spec, **given, initialize_from=trained_cartpole)
    with pytest.raises(SettingsError) as refused:
        initial_weights(settings, network)
    assert all(message in str(refused.value) for message in messages), refused.value
    assert str(refused.value).startswith("--reset_heads=" if "critic" in str(given) else "--initialize_from=")


def is_refused(tmp_path: Path, match: str, **given: Any) -> None:
    before = tree(tmp_path)
    with pytest.raises(SettingsError, match=match):
        acer_tf.train(small_settings(**given), tmp_path / "run", quiet=True)
    assert tree(tmp_path) == before


def test_other_spaces_are_refused_by_both_names(trained_cartpole, tmp_path):
    given = {"initialize_from": trained_cartpole, "env": "Acrobot-v1"}
    is_refused(tmp_path, r"^--initialize_from=.*CartPole-v1.*Acrobot-v1.*\(4,\) there, \(6,\) here", **given)
    is_refused(tmp_path, "observation_shape", reset_heads="all", **given)


def test_other_actions_keep_the_torso_at_most(trained_cartpole, tmp_path):
    def three_actions() -> gymnasium.Env:
        env = gymnasium.make("CartPole-v1")
        return gymnasium.wrappers.TransformAction(env, lambda a: min(a, 1), spaces.Discrete(3))

    with pytest.raises(SettingsError, match="num_actions: 2 there, 3 here; --reset_heads=all"):
        settings = small_settings(env="Three-v0", preset="classic", initialize_from=trained_cartpole)
        acer_tf.train(settings, tmp_path / "run", env=three_actions, quiet=True)
    assert tree(tmp_path) == {}


def test_a_source_that_is_none_is_refused(trained_cartpole, tmp_path):
    (tmp_path / "empty").mkdir()
    shutil.copytree(trained_cartpole, tmp_path / "damaged")
    (tmp_path / "damaged" / "run.json").write_text("{")
    for name, reason in (("nowhere", "does not exist"), ("empty", "metadata.json"), ("damaged", "run.json")):
        is_refused(tmp_path, f"^--initialize_from=.*{name}: .*{reason}", initialize_from=tmp_path / name)
    is_refused(tmp_path, "^--initialize_from=x.?y: ", initialize_from="x\0y")
    is_refused(tmp_path, "--initialize_from=: must be the folder of a run", initialize_from="")
    is_refused(tmp_path, "--reset_heads=q: has no effect .*--initialize_from", reset_heads="q")
    is_refused(tmp_path, "--reset_heads=torso: must be all, or some of policy, q", reset_heads="torso")


def test_a_run_without_checkpoints_gives_its_policy(trained_cartpole, tmp_path):
    shutil.copytree(trained_cartpole, tmp_path / "published")
    shutil.rmtree(tmp_path / "published" / "checkpoints")
    settings, network = resolved(spec_with(), initialize_from=tmp_path / "published")
    taken = initial_weights(settings, network).weights
    online = of_group(newest_weights(trained_cartpole), "online/")
    assert taken.keys() == online.keys()
    assert all(equal(taken[name], array) for name, array in online.items() if name != "normalization/count")


def test_weights_of_layers_without_names_are_matched_by_their_order():
    there = _by_place(["dense_12/kernel", "dense_9/kernel", "dense_9/bias", "conv1/kernel", "block_3/dense_1/kernel"])
    here = _by_place(["dense/kernel", "dense_1/kernel", "dense/bias", "conv1/kernel", "block/dense_7/kernel"])
    assert {there[place]: here[place] for place in here} == {
        "dense_9/kernel": "dense/kernel",
        "dense_12/kernel": "dense_1/kernel",
        "dense_9/bias": "dense/bias",
        "conv1/kernel": "conv1/kernel",
        "block_3/dense_1/kernel": "block/dense_7/kernel",
    }


@pytest.mark.parametrize("kind", [{}, {"agent": "dqn"}, CONTINUOUS, CONTINUOUS | {"dueling": False}])
def test_the_table_of_heads_has_every_layer_after_the_torso(kind):
    spec = spec_with()
    if "env" in kind:
        spec = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))
    settings = make_settings({"env": "CartPole-v1", "network": "mlp", "precision": "float32", **kind})
    network = make_network(settings, spec)
    if isinstance(network, Network):
        after, heads = network.heads.weights, {"policy", "q"} if not network.exploration else {"q", SCHEDULED}
    else:
        layers = (network.of_state.get_layer(name) for name in ("mean", "value"))
        after = [weight for part in (*layers, network.critic) for weight in part.weights]
        heads = {"mean", "value", "critic"}
    assert {_part(weight.path) for weight in after} == heads <= {*HEADS, SCHEDULED}
    paths = {weight.path for weight in after}
    assert {_part(weight.path) for weight in network.weights if weight.path not in paths} == {"torso"}
    assert re.fullmatch("[a-z]+", "".join(HEADS))
