"""Runs that begin with the weights of another run or of an exported policy: `--initialize_from`, `--reset_heads`."""

from __future__ import annotations

import dataclasses
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
from acer_tf.agents.agent import Agent
from acer_tf.errors import SettingsError
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import HEADS, SCHEDULED
from acer_tf.policies.export import export_policy
from acer_tf.runs.checkpoint import Checkpoints, Snapshot, _snapshot
from acer_tf.runs.records import begin_record
from acer_tf.settings import Settings, make_settings
from acer_tf.settings.record import settings_document
from acer_tf.training.build import make_agent, make_network
from acer_tf.training.export_run import policy_metadata
from acer_tf.training.initialize import _by_place, _part, initial_weights
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import rows_of, small_settings, tree

CONTINUOUS = {"env": "Pendulum-v1", "agent": "acer_continuous", "unroll_length": 10}
PLAIN = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
VECTOR = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))
PARTS = EnvironmentSpec(
    {"image": (5, 5, 1), "numbers": (4,)}, {"image": "uint8", "numbers": "float32"}, stack=1, num_actions=2
)
PARTS = dataclasses.replace(PARTS, observation_scale={"image": 255.0, "numbers": None})
KINDS: dict[str, tuple[EnvironmentSpec, dict[str, Any]]] = {
    "acer": (PLAIN, {}),
    "recurrent": (PLAIN, {"network": "mlp", "lstm_units": 256, "replay_start": 20}),
    "dqn": (PLAIN, {"agent": "dqn", "preset": "ddqn_tuned"}),
    "continuous": (VECTOR, CONTINUOUS),
    "a3c": (VECTOR, CONTINUOUS | {"agent": "trust_a3c", "replay_ratio": 0.0}),
    "combined": (PARTS, {"network": "combined"}),
    "masks": (dataclasses.replace(PLAIN, action_masks=True), {}),
    "unnamed": (PLAIN, {"network": "torsos_of_tests:UNNAMED"}),
}


@pytest.fixture(autouse=True, scope="module")
def _torso(tmp_path_factory):
    """A torso of layers without names, which Keras numbers through the process."""
    folder = tmp_path_factory.mktemp("torsos")
    (folder / "torsos_of_tests.py").write_text(
        "import keras\nfrom acer_tf.networks.torsos import Torso\n\ndef build(layers, x):\n"
        "    for _ in range(3):\n"
        "        x = keras.layers.Dense(6, dtype=layers.dtype_policy, **layers.initializers(1.0, x.shape[-1]))(x)\n"
        "    return x\n\nUNNAMED = Torso(build, reads=lambda spec: True)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


def agent_of(spec: EnvironmentSpec, **given: Any) -> tuple[Settings, Agent[Any]]:
    settings = small_settings(**{"network": "mlp", "precision": "float32", **given})
    return settings, make_agent(settings, spec)


def saved(folder: Path, spec: EnvironmentSpec, **given: Any) -> dict[str, np.ndarray]:
    """A run after 700 steps, with a policy, in `folder`; returns the weights of its network."""
    settings, agent = agent_of(spec, **given)
    rng = np.random.default_rng(0)
    for weight in agent.network.weights:
        weight.assign(rng.uniform(0.1, 1, weight.shape))
    computes = {"threads": dict(intra_op=1, inter_op=1, environments=1), "device": dict(name="cpu", model="")}
    folder.mkdir()
    details = {"environment": dataclasses.asdict(spec), "modules": {}, "history": [], "finished": True, **computes}
    begin_record(folder, settings_document(settings), details)
    Checkpoints(folder / "checkpoints").save(Snapshot(agent.arrays(), {"actor": {"steps": 700}}), None, 700)
    export_policy(agent.network, folder / "policy", policy_metadata(settings, 700, None))
    return {weight.path: np.asarray(weight.value) for weight in agent.network.weights}


def group_of(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(group): array for name, array in arrays.items() if name.startswith(group)}


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool((a == b).all())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_each_kind_come_from_a_run_and_from_a_policy(kind, tmp_path):
    spec, given = KINDS[kind]
    there = _placed(saved(tmp_path / "run", spec, **given))
    for source in (tmp_path / "run", tmp_path / "run/policy"):
        from_policy = source.name == "policy"
        lacking = "critic" if kind == "continuous" and from_policy else None
        settings, agent = agent_of(spec, **given, seed=7, initialize_from=source, reset_heads=lacking)
        fresh = {name: array.copy() for name, array in agent.arrays().items()}
        weights, record = initial_weights(settings, agent.network)
        agent.begin_with(weights)
        assert record["steps"] == 700 and record["drawn"] == ([lacking] if lacking else [])
        now = agent.arrays()
        assert all(equal(array, fresh[name]) for name, array in now.items() if name.startswith("optimizer/"))
        online, average = (_placed(group_of(now, group)) for group in ("online/", "average/"))
        for place, array in there.items():
            if "normalization/count" in place and from_policy:  # it is not in a policy
                assert online[place] == 700
            elif "exploration/epsilon" not in place:
                assert equal(online[place], array) == (lacking is None or not place[0].startswith(lacking)), place
            assert equal(online[place], average[place]), "the average (target) network begins equal"
        if lacking:
            with pytest.raises(SettingsError, match="critic/kernel is absent there.*--reset_heads=critic "):
                initial_weights(dataclasses.replace(settings, reset_heads=None), agent.network)


def _placed(arrays: dict[str, np.ndarray]) -> dict[Any, np.ndarray]:
    return {place: arrays[path] for place, path in _by_place(arrays).items()}


CLASSIC_DQN, TANH = {"agent": "dqn", "preset": "ddqn_tuned"}, {"preset": "baselines"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "source", "run", "wrong"),
    [
        (VECTOR, KINDS["a3c"][1], CONTINUOUS, "critic_state/kernel is absent there.*--reset_heads=critic "),
        (VECTOR, CONTINUOUS, KINDS["a3c"][1], ""),
        (PLAIN, {"agent": "a3c", "replay_ratio": 0.0}, {}, ""),
        (PLAIN, TANH, CLASSIC_DQN, r"q_bias/bias is absent there, \(\) here; --reset_heads=q "),
        (PLAIN, CLASSIC_DQN, TANH, "policy/kernel is absent there.*; q/bias is absent there.*--reset_heads=policy,q "),
        (PLAIN, TANH | {"lstm_units": 8}, TANH, "its torso differs .* is .* there, absent here.*--lstm_units=8"),
        (VECTOR, CONTINUOUS | {"shared_torso": True}, CONTINUOUS | {"shared_torso": False}, "policy_torso/.* absent"),
    ],
)
def test_an_agent_may_begin_with_the_torso_of_another(spec, source, run, wrong, tmp_path):
    saved(tmp_path / "run", spec, **source)
    settings, agent = agent_of(spec, **run, initialize_from=tmp_path / "run")
    if not wrong:
        assert set(initial_weights(settings, agent.network).weights) == {w.path for w in agent.network.weights}
        return
    with pytest.raises(SettingsError, match=wrong) as refused:
        initial_weights(settings, agent.network)
    if named := re.search("--reset_heads=([a-z,]+) ", str(refused.value)):
        weights = initial_weights(dataclasses.replace(settings, reset_heads=named[1]), agent.network).weights
        kept = {weight.path for weight in agent.network.weights if _part(weight.path) not in named[1].split(",")}
        assert set(weights) == {path for path in kept if _part(path) != SCHEDULED}


@pytest.mark.training
@pytest.mark.parametrize("kind", [{}, CONTINUOUS])
def test_a_run_begins_with_the_weights_of_a_run_and_loads_them_once(kind, trained, tmp_path):
    def stop(row: Any, policy: Any) -> None:
        raise InterruptedError

    source, run = tmp_path / "source", tmp_path / "run"
    shutil.copytree(trained(small_settings(**kind)), source)
    settings = small_settings(**kind, seed=7, total_steps=200, initialize_from=source)
    with pytest.raises(InterruptedError):
        acer_tf.train(settings, run, quiet=True, threads=1, on_row=stop)
    snapshot = Checkpoints(source / "checkpoints").restore(None)
    assert snapshot is not None
    first = _snapshot(run / "checkpoints" / f"{0:012d}")[0].arrays  # before the first step
    for group in ("online/", "average/"):
        assert all(equal(first[group + name], array) for name, array in group_of(snapshot.arrays, "online/").items())
    record, steps = json.loads((run / "run.json").read_text()), json.loads((source / "run.json").read_text())["steps"]
    assert record["initialized_from"] == {"path": str(source), "env": settings.env, "steps": steps, "drawn": []}
    assert int(rows_of(run)[0]["steps"]) < 200, "it counts from 0"

    shutil.rmtree(source)
    acer_tf.train(settings, run, quiet=True, threads=1)
    assert json.loads((run / "run.json").read_text())["finished"]
    with pytest.raises(acer_tf.RunFolderError, match="initialize_from"):
        acer_tf.train(small_settings(**kind, seed=7, total_steps=300), run, quiet=True)


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


def spec_with(actions: int = 2) -> EnvironmentSpec:
    return dataclasses.replace(PLAIN, num_actions=actions)


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
    snapshot = Checkpoints(trained_cartpole / "checkpoints").restore(None)
    assert snapshot is not None
    online = group_of(snapshot.arrays, "online/")
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
    spec = VECTOR if "env" in kind else PLAIN
    settings = make_settings({"env": "CartPole-v1", "network": "mlp", "precision": "float32", **kind})
    network = make_network(settings, spec)
    if isinstance(network, Network):
        after, heads = network.heads.weights, {"policy", "q"} if not network.exploration else {"q", SCHEDULED}
    else:
        layers = (network.heads.get_layer(name) for name in ("mean", "value"))
        after = [weight for part in (*layers, network.critic) for weight in part.weights]
        heads = {"mean", "value", "critic"}
    assert {_part(weight.path) for weight in after} == heads <= {*HEADS, SCHEDULED}
    paths = {weight.path for weight in after}
    assert {_part(weight.path) for weight in network.weights if weight.path not in paths} == {"torso"}
    assert re.fullmatch("[a-z]+", "".join(HEADS))
