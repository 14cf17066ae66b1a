"""What Keras does with models, done with the networks: save, load, clone, build others from their parts."""

import dataclasses
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import Dense, Torso
from acer_tf.types import EnvironmentSpec
from tests.networks.test_networks import ARM, SPECS, frames_of

FRAMES = EnvironmentSpec((4, 40, 36), "uint8", stack=4, num_actions=6, observation_scale=255.0)
SPECS = SPECS | {"nature": FRAMES}  # smaller, so faster
THEIRS = Torso(lambda layers, x: layers.hidden(8, "relu", "dense", layers.flat(x)), lambda spec: True)


# Every torso, with and without an LSTM, and every head.
NETWORKS = {
    **{name: (SPECS[name], dict(architecture=name)) for name in SPECS},
    **{f"{name}_lstm": (SPECS[name], dict(architecture=name, lstm_units=256)) for name in SPECS},
    "few levels": (dataclasses.replace(FRAMES, observation_scale=10.0), dict(architecture="nature")),
    "a user's torso": (SPECS["mlp"], dict(architecture=f"{__name__}:THEIRS")),
    "bfloat16": (SPECS["nature"], dict(architecture="nature", precision="bfloat16", initialization="fan_in")),
    "epsilon-greedy": (SPECS["small"], dict(architecture="small", policy="epsilon_greedy", evaluation_epsilon=0.01)),
    "one bias": (SPECS["small"], dict(architecture="small", policy="epsilon_greedy", shared_bias=True)),
    **{critic: (ARM, {"critic": critic, "policy_std": 0.5}) for critic in ("dueling", "separate", "none")},
    "two torsos": (ARM, {"critic": "dueling", "shared_torso": False, "dense": Dense((256, 256))}),
}


def made(name):
    """A network of which no weight has its initial value."""
    spec, options = NETWORKS[name]
    network = (ContinuousNetwork if spec.continuous else Network)(spec, **options)
    rng = np.random.default_rng(0)
    network.set_weights([np.abs(w + rng.normal(scale=0.1, size=w.shape)) for w in network.get_weights()])
    return network


def inputs_of(network):
    rng, spec = np.random.default_rng(1), network.spec
    observation = frames_of(rng, spec, 3, spec.stack)
    inputs = [tf.constant(observation if spec.stack > 1 else observation[:, 0])]
    if network.state_size:
        inputs.append(tf.constant(rng.normal(size=(3, network.state_size)), tf.float32))
    if isinstance(network, ContinuousNetwork) and network.critic is not None:
        inputs.append(tf.constant(rng.normal(size=(3, 4, 2)), tf.float32))
    return inputs


def assert_alike(network, other):
    assert other is not network and type(other) is type(network)
    assert other.get_config() == network.get_config()
    assert [v.path for v in other.weights] == [v.path for v in network.weights]
    assert not {id(v) for v in other.weights} & {id(v) for v in network.weights}
    for ours, theirs in zip(other(*inputs_of(network)), network(*inputs_of(network)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_saved_network_is_loaded_with_equal_outputs(name, tmp_path):
    network = made(name)
    network.save(tmp_path / "network.keras")
    assert_alike(network, keras.models.load_model(tmp_path / "network.keras"))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_clone_has_its_own_weights_from_the_same_seed(name):
    network = made(name)
    clone = keras.models.clone_model(network)
    first = type(network)(network.spec, **NETWORKS[name][1])
    assert all(map(np.array_equal, clone.get_weights(), first.get_weights()))
    clone.set_weights(network.get_weights())
    assert_alike(network, clone)


@pytest.mark.parametrize("architecture", SPECS)
def test_a_torso_alone_is_saved_and_cloned_by_its_layers(architecture, tmp_path):
    torso = made(architecture).torsos[0]
    torso.save(tmp_path / "torso.keras")
    clone = keras.models.clone_model(torso)
    clone.set_weights(torso.get_weights())
    x = np.random.default_rng(0).random((2, *torso.input_shape[1:]), np.float32)
    for other in (keras.models.load_model(tmp_path / "torso.keras"), clone):
        np.testing.assert_array_equal(other(x), torso(x))


def test_a_module_that_only_the_file_names_is_not_imported():
    config = made("mlp").get_config()
    with pytest.raises(ValueError, match="import it first"):
        Network.from_config(config | {"architecture": "antigravity:TORSO"})
    assert "antigravity" not in sys.modules


@pytest.mark.slow
def test_a_loaded_torso_is_fine_tuned_in_a_model_of_ones_own(tmp_path):
    spec = SPECS["small"]
    Network(spec, architecture="small").save(tmp_path / "network.keras")
    observations = frames_of(np.random.default_rng(0), spec, 64, 1)[:, 0]
    labels = observations.mean(axis=(1, 2, 3)) > 0.5
    path = tmp_path / "network.keras"

    # This is the example of the tutorial.
    network = keras.models.load_model(path)
    copy = keras.models.clone_model(network)
    copy.set_weights(network.get_weights())
    images = keras.Input(network.spec.observation_shape, dtype=network.spec.observation_dtype)
    features = copy.torsos[0](copy.preprocessing(images))
    classifier = keras.Model(images, keras.layers.Dense(1, activation="sigmoid")(features))
    classifier.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    history = classifier.fit(observations, labels, epochs=5, verbose=0).history

    assert history["loss"][-1] < history["loss"][0]
    for kind, moved in ((copy, True), (network, False)):
        at_first = Network(spec, architecture="small").torsos[0].get_weights()
        assert (
            any(not np.array_equal(a, b) for a, b in zip(kind.torsos[0].get_weights(), at_first, strict=True)) == moved
        )
