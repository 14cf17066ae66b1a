"""Networks of observations with leaves, compared with ordinary layers and with networks of one array."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.networks import torsos
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.image_axes import require_image_axes
from acer_tf.networks.torsos import Dense, default_network
from acer_tf.types import EnvironmentSpec

DENSE = {normalize: Dense((256, 256), normalize_inputs=normalize) for normalize in (False, True)}
VECTORS: dict[str, tuple[int, ...]] = {"a": (3,), "b/c": (2, 2)}
BOUNDS = {"action_low": (-1.0,), "action_high": (1.0,)}


def spec_of(image: tuple[int, ...] = (), scale: float = 10.0, **actions: Any) -> EnvironmentSpec:
    shapes = VECTORS | ({"image": image} if image else {})
    dtypes = {name: "uint8" if name == "image" else "float32" for name in shapes}
    scales = {name: scale if name == "image" else None for name in shapes}
    return EnvironmentSpec(shapes, dtypes, 1, **(actions or {"num_actions": 3}), observation_scale=scales)


def drawn(spec: EnvironmentSpec, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        name: rng.integers(0, 11, (count, *shape)).astype(spec.observation_dtype[name])
        for name, shape in spec.observation_shape.items()
    }


def joined(observation: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in observation.values()], axis=1)


@pytest.mark.parametrize("image", [(7, 5, 2), (40, 36), (36, 40, 3)])
def test_combined_equals_ordinary_layers(image):
    network = Network(spec_of(image), architecture="combined")
    w = {v.path: tf.constant(v.numpy()) for v in network.trainable_variables}
    observation = drawn(network.spec, 4)
    wanted = combined(w, "", observation) @ w["q/kernel"] + w["q/bias"]
    np.testing.assert_allclose(network(observation)[1], wanted, rtol=1e-4, atol=1e-4)
    # By name, in any order; and row by row as in windows.
    np.testing.assert_array_equal(network(dict(reversed(observation.items())))[1], network(observation)[1])
    rows = {name: tf.reshape(leaf, (2, 2, *leaf.shape[1:])) for name, leaf in observation.items()}
    q = network.windows(network.planes(rows, tf.zeros((2, 2), tf.uint8)))[1]
    np.testing.assert_allclose(tf.reshape(q, (4, 3)), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("image", [(7, 5, 2), (36, 40, 3)])
@pytest.mark.parametrize("critic", ["dueling", "separate"])
def test_combined_equals_ordinary_layers_with_continuous_actions(critic, image):
    spec = spec_of(image, num_actions=0, **BOUNDS)
    network = ContinuousNetwork(spec, critic=critic, architecture="combined", shared_torso=False)
    for weight in network.trainable_variables:
        if weight.path == "mean/kernel":
            weight.assign(weight * 100)  # so that an error shows
    w = {v.path: tf.constant(v.numpy()) for v in network.trainable_variables}
    observation, actions = drawn(spec, 4), np.random.default_rng(1).normal(size=(4, 3, 1)).astype(np.float32)
    mean, value, of_actions = network(observation, actions)
    features = combined(w, "", observation)
    policy = combined(w, "policy_torso/", observation) @ w["mean/kernel"] + w["mean/bias"]
    np.testing.assert_allclose(mean, policy, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value, (features @ w["value/kernel"] + w["value/bias"])[:, 0], rtol=1e-4, atol=1e-4)
    if critic == "separate":
        flat = joined(observation | {"image": observation["image"] / np.float32(10)})  # normalization is the identity
        features = tf.tanh(flat @ w["critic_torso/kernel"] + w["critic_torso/bias"])
    of_state = features @ w["critic_state/kernel"] + w["critic_state/bias"]
    hidden = tf.tanh(of_state[:, None] + actions @ w["critic_action/kernel"])
    wanted = (hidden @ w["critic/kernel"] + w["critic/bias"])[..., 0]
    np.testing.assert_allclose(of_actions, wanted, rtol=1e-4, atol=1e-4)
    again = ContinuousNetwork.from_config(network.get_config())
    again.set_weights(network.get_weights())
    np.testing.assert_array_equal(again(observation)[0], mean)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "dueling", "separate"])
def test_combined_normalises_all_but_images(kind):
    """By statistics of the vectors alone, and of all their digits."""
    if kind in ("dueling", "separate"):
        spec = spec_of((7, 5, 2), num_actions=0, **BOUNDS)
        network = ContinuousNetwork(spec, critic=kind, architecture="combined")
    else:
        dense = Dense(normalize_inputs=True)
        network = Network(spec_of((7, 5, 2)), architecture="combined", dense=dense, precision=kind)
    given = () if isinstance(network, Network) else (np.ones((50, 1, 1), np.float32),)
    observation = drawn(network.spec, 50)
    observation["a"] = (3_000 + np.random.default_rng(1).normal(size=(50, 3)) * (0.1, 1, 10)).astype(np.float32)
    network.update_normalization({name: leaf[:, None] for name, leaf in observation.items()})
    vector = joined({name: observation[name] for name in VECTORS}).astype(np.float64)
    np.testing.assert_allclose(network.normalization.mean, vector.mean(axis=0), rtol=1e-6)
    found = network(observation, *given)[1:]
    network.normalization.mean.assign(np.zeros(7))
    network.normalization.variance.assign(np.ones(7))
    normal = ((vector - vector.mean(axis=0)) / vector.std(axis=0)).astype(np.float32)
    normal = observation | {"a": normal[:, :3], "b/c": normal[:, 3:].reshape(-1, 2, 2)}
    for output, wanted in zip(found, network(normal, *given)[1:], strict=True):
        if output.shape[1:] != (0,):  # of no LSTM
            assert np.ptp(wanted) > 0.1
            np.testing.assert_allclose(output, wanted, rtol=0.01, atol=0.01)


def test_combined_without_vectors_normalises_nothing():
    shapes, dtypes, scales = dict.fromkeys("ab", (7, 5, 2)), dict.fromkeys("ab", "uint8"), dict.fromkeys("ab", 10.0)
    spec = EnvironmentSpec(shapes, dtypes, 1, 3, observation_scale=scales)
    assert Network(spec, architecture="combined", dense=Dense(normalize_inputs=True)).normalization is None


def combined(w: dict[str, tf.Tensor], torso: str, observation: dict[str, np.ndarray]) -> tf.Tensor:
    """The features of torso "combined" whose weights' names begin so; "image" is the last leaf."""
    w = {path.removeprefix(torso): weight for path, weight in w.items() if path.startswith(torso)}
    image, count = observation["image"].shape[1:], len(observation["image"])
    x = tf.cast(observation["image"], tf.float32) / 10
    x = x if len(image) == 3 else x[..., None]
    layers = [("conv", 1)] if min(image[:2]) < 36 else [("conv1", 4), ("conv2", 2), ("conv3", 1)]
    for name, stride in layers:
        x = tf.nn.conv2d(x, w[f"leaf2_{name}/kernel"], stride, "VALID") + w[f"leaf2_{name}/bias"]
        x = tf.nn.relu(x)
    x = tf.nn.relu(tf.reshape(x, [count, -1]) @ w["leaf2_dense/kernel"] + w["leaf2_dense/bias"])
    y = tf.constant(joined({name: observation[name] for name in VECTORS}))
    for name in ("dense1", "dense2"):
        y = tf.tanh(y @ w[f"{name}/kernel"] + w[f"{name}/bias"])
    return tf.nn.relu(tf.concat([x, y], axis=1) @ w["joint/kernel"] + w["joint/bias"])


@pytest.mark.parametrize("lstm_units", [0, 256])
def test_leaves_are_read_as_the_vector_of_them_all(lstm_units):
    specs = spec_of(), EnvironmentSpec((7,), "float32", 1, 3)
    parted, whole = (Network(spec, architecture="mlp", lstm_units=lstm_units, seed=3) for spec in specs)
    observation = drawn(parted.spec, 4)
    for found, wanted in zip(parted(observation), whole(joined(observation)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("normalize", [True, False])
def test_continuous_networks_read_leaves_as_the_vector_of_them_all(normalize):
    spec = spec_of((2, 3, 1), num_actions=0, **BOUNDS)
    parted = ContinuousNetwork(spec, critic="dueling", seed=3, dense=DENSE[normalize])
    whole = ContinuousNetwork(EnvironmentSpec((13,), "float32", 1, 0, **BOUNDS), critic="dueling", seed=3)
    observation, actions = drawn(spec, 4), np.zeros((4, 2, 1), np.float32)
    vector = joined(observation)
    if normalize:
        parted.update_normalization({name: leaf[:, None] for name, leaf in observation.items()})
        whole.update_normalization(vector[:, None])
        np.testing.assert_allclose(parted.normalization.mean, vector.mean(axis=0), rtol=1e-5)
    else:
        whole = ContinuousNetwork(whole.spec, critic="dueling", seed=3, dense=DENSE[False])
        vector[:, 7:] *= np.float32(1 / 10)  # the image's scale
    for found, wanted in zip(parted(observation, actions), whole(vector, actions), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def own_torso(monkeypatch, read):
    monkeypatch.setitem(globals(), "OWN", torsos.Torso(read, reads=lambda spec: True))
    spec = spec_of((7, 5, 2), num_actions=0, **BOUNDS)
    return ContinuousNetwork(spec, critic="dueling", architecture=f"{__name__}:OWN")


@pytest.mark.parametrize("one_leaf", [True, False])
def test_statistics_are_those_of_the_leaves_that_a_torso_normalises(one_leaf, monkeypatch):
    def read(layers, x):
        normal = layers.of_leaf("a").normalized(x["a"]) if one_leaf else layers.normalized({"a": x["a"]})
        others = {name: leaf for name, leaf in x.items() if name != "a"}
        return layers.hidden(8, "tanh", "own", layers.joined([normal, layers.flat(layers.scaled(others))]))

    network = own_torso(monkeypatch, read)
    observation = drawn(network.spec, 50)
    network.update_normalization({name: leaf[:, None] for name, leaf in observation.items()})
    np.testing.assert_allclose(network.normalization.mean, observation["a"].mean(axis=0), rtol=1e-5)
    assert network.normalization.count == 50


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (lambda layers, x: [layers.of_leaf(name).normalized(x[name]) for name in x], "is given b/c, and before a: "),
        (lambda layers, x: [layers.of_leaf("a").normalized(x["a"][:, :2])], "is given 2 of 3 numbers: "),
    ],
)
def test_statistics_that_would_be_of_other_numbers_are_refused(parts, complaint, monkeypatch):
    with pytest.raises(ValueError, match=complaint):
        own_torso(monkeypatch, lambda layers, x: layers.hidden(8, "tanh", "own", layers.joined(parts(layers, x))))


@pytest.mark.parametrize(
    ("image", "name"), [((), "mlp"), ((7, 5, 2), "combined"), ((84, 84), "combined"), ((20, 20), "mlp")]
)
def test_combined_is_chosen_where_there_is_an_image(image, name):
    assert default_network(spec_of(image)) == name
    assert default_network(spec_of(image, num_actions=0, **BOUNDS)) == name


def test_an_image_among_leaves_must_have_its_axes_in_order():
    for network in ("auto", "combined"):
        with pytest.raises(ValueError, match="called 'image', look like images, .*--network=mlp"):
            require_image_axes(network, spec_of((3, 84, 84), 255.0))
        require_image_axes(network, spec_of((84, 84, 3), 255.0))
    require_image_axes("mlp", spec_of((3, 84, 84), 255.0))


def test_a_network_is_saved_and_loaded(tmp_path):
    network = Network(spec_of((7, 5, 2)), architecture="combined")
    network.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    assert loaded.spec == network.spec
    observation = drawn(network.spec, 3)
    np.testing.assert_array_equal(loaded(observation)[0], network(observation)[0])


@pytest.mark.parametrize("normalization", [False, True])
def test_each_leaf_may_have_dense_layers_of_its_own(normalization, monkeypatch):
    def read(layers, x):
        return layers.joined([layers.of_leaf(name).dense(layers.flat(leaf)) for name, leaf in sorted(x.items())])

    monkeypatch.setitem(globals(), "OWN", torsos.Torso(read, reads=lambda spec: True))
    dense = Dense((8,), layer_norm=normalization)
    network = Network(spec_of(), architecture=f"{__name__}:OWN", dense=dense)
    assert {"leaf0_dense1/kernel", "leaf1_dense1/kernel"} <= {weight.path for weight in network.weights}
    assert network.features[0].shape == (None, 16)


def test_a_torso_that_gives_no_vectors_is_refused(monkeypatch):
    monkeypatch.setitem(globals(), "OWN", torsos.Torso(lambda layers, x: x["b/c"], reads=lambda spec: True))
    with pytest.raises(ValueError, match=r"features of shape \(None, 2, 2\); must be \[N, F\]"):
        Network(spec_of(), architecture=f"{__name__}:OWN")
