"""`export_run` takes the environment's spec from run.json, so that the environment need not be installed."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import keras
import numpy as np
import pytest

from acer_tf.errors import RunFolderError
from acer_tf.networks.discrete import Network
from acer_tf.policies.policy import load_policy
from acer_tf.training.export_run import export_run, load_network
from acer_tf.training.train import train
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import rows_of, small_settings, use_light_agents

ROOT = Path(__file__).parents[2]


@pytest.fixture
def made(monkeypatch):
    return use_light_agents(monkeypatch)


def test_a_run_in_an_environment_of_the_caller_is_exported(made, tmp_path):
    train(small_settings(env="mine"), tmp_path / "run", quiet=True, env=lambda: gymnasium.make("CartPole-v1"))
    assert export_run(tmp_path / "run", tmp_path / "policy") >= 600
    assert json.loads((tmp_path / "policy" / "metadata.json").read_text())["env"] == "mine"
    trained, exported = made
    assert exported.network.spec == trained.network.spec


@pytest.mark.training
def test_the_network_of_a_run_is_a_keras_model_that_answers_as_its_policy(tmp_path):
    policy = load_policy(train(small_settings(), tmp_path / "run", quiet=True))
    load_network(tmp_path / "run").save(tmp_path / "network.keras")
    network = keras.models.load_model(tmp_path / "network.keras")
    observation = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    np.testing.assert_allclose(network(observation)[0], policy.probabilities(observation), rtol=1e-5)


@pytest.mark.process
def test_a_saved_network_loads_where_nothing_has_imported_its_class(tmp_path):
    spec = EnvironmentSpec((4,), "float32", 1, 2)
    Network(spec, architecture="mlp", seed=5).save(tmp_path / "network.keras")
    code = "import sys, acer_tf; print(type(acer_tf.load_network(sys.argv[1])).__name__)"
    command = [sys.executable, "-c", code, str(tmp_path / "network.keras")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["Network"], done.stderr[-500:]


UNNAMED = """
import keras
from acer_tf.networks.torsos import Torso

def build(layers, x):
    x = keras.layers.Dense(6, "tanh", **layers.initializers(1.0, x.shape[-1]))(layers.flat(x))
    return keras.layers.Dense(5, "tanh", **layers.initializers(1.0, 6))(x)

TORSO = Torso(build, reads=lambda spec: spec.stack == 1)
"""


@pytest.mark.training
def test_layers_without_names_are_exported_and_resumed_in_one_process(tmp_path, monkeypatch):
    """Keras numbers them through the whole process: each network of these has other numbers."""
    (tmp_path / "unnamed_torso.py").write_text(UNNAMED)
    monkeypatch.syspath_prepend(tmp_path)
    theirs = functools.partial(small_settings, network="unnamed_torso:TORSO")
    train(theirs(), tmp_path / "run", quiet=True)
    assert export_run(tmp_path / "run", tmp_path / "again") >= 600
    observation = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    first, again = (load_policy(tmp_path / name).answer(observation) for name in ("run/policy", "again"))
    np.testing.assert_array_equal(first["probabilities"], again["probabilities"])
    train(theirs(total_steps=1200), tmp_path / "run", quiet=True)
    assert int(rows_of(tmp_path / "run")[-1]["steps"]) >= 1200


def test_a_record_of_another_version_is_named_with_its_commit(made, tmp_path):
    train(small_settings(), tmp_path / "run", quiet=True)
    path = tmp_path / "run" / "run.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "settings": document["settings"] | {"brand_new": 3}}))
    commit = re.escape(document["commit"])  # "...+changes" in a checkout with changes
    with pytest.raises(RunFolderError, match=rf"^{path}, which commit {commit} wrote, .*'brand_new'"):
        export_run(tmp_path / "run", tmp_path / "policy")
    path.write_text(json.dumps({**document, "settings": {}}))
    with pytest.raises(RunFolderError, match="--env is required"):
        export_run(tmp_path / "run", tmp_path / "policy")
