"""The networks, compared with ordinary layers."""

import dataclasses
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.agents.optimizer import RMSProp
from acer_tf.networks import building, torsos
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.layers import RunningNormalization
from acer_tf.networks.torsos import default_network
from acer_tf.types import EnvironmentSpec

ATARI = EnvironmentSpec((4, 84, 84), "uint8", stack=4, num_actions=6, observation_scale=255.0)
SPECS = {
    "nature": ATARI,
    "small": EnvironmentSpec((10, 10, 7), "bool", stack=1, num_actions=3),
    "image": EnvironmentSpec((50, 38, 3), "uint8", stack=1, num_actions=3, observation_scale=255.0),
    "mlp": EnvironmentSpec((5,), "float32", stack=1, num_actions=3),
}
DENSE = {normalize: torsos.Dense((256, 256), normalize_inputs=normalize) for normalize in (False, True)}
INITIALIZATIONS = ("orthogonal", "fan_in")


def frames_of(rng, spec, batch, count):
    """[batch, count, *frame_shape] random observations of every dtype."""
    shape = [batch, count, *spec.frame_shape]
    if spec.observation_dtype == "float32":
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers((spec.observation_scale or 1) + 1, size=shape).astype(spec.observation_dtype)


def stacked(frames, age, stack):
    """[B, R, S, ...]: the S frames up to each row, zero where they are older than the episode."""
    batch, rows = age.shape
    out = np.zeros([batch, rows, stack, *frames.shape[2:]], frames.dtype)
    for b in range(batch):
        for t in range(rows):
            for back in range(min(stack - 1, age[b, t]) + 1):
                out[b, t, stack - 1 - back] = frames[b, t + stack - 1 - back]
    return out


def reference(network, observation):
    """(probabilities, Q) of [N, *observation_shape], from the network's weights and ordinary float32 operations."""
    w = {v.path: tf.constant(v.numpy()) for v in network.trainable_variables}
    x = tf.cast(observation, tf.float32) / (network.spec.observation_scale or 1.0)
    if network.architecture in ("nature", "image"):
        x = tf.transpose(x, [0, 2, 3, 1]) if network.architecture == "nature" else x
        for name, stride in (("conv1", 4), ("conv2", 2), ("conv3", 1)):
            x = tf.nn.relu(tf.nn.conv2d(x, w[f"{name}/kernel"], stride, "VALID") + w[f"{name}/bias"])
        hidden, activation = ["dense"], tf.nn.relu
    elif network.architecture == "small":
        x = tf.nn.relu(tf.nn.conv2d(x, w["conv/kernel"], 1, "VALID") + w["conv/bias"])
        hidden, activation = ["dense"], tf.nn.relu
    else:
        hidden, activation = ["dense1", "dense2"], tf.tanh
    x = tf.reshape(x, [len(observation), -1])
    for name in hidden:
        x = activation(x @ w[f"{name}/kernel"] + w[f"{name}/bias"])
    logits = x @ w["policy/kernel"] + w["policy/bias"]
    return tf.nn.softmax(logits).numpy(), (x @ w["q/kernel"] + w["q/bias"]).numpy()


def enlarge_policy_head(network):
    """Makes the policy far from uniform, so that an error in it shows."""
    head = network.heads.get_layer("policy")
    head.kernel.assign(100 * head.kernel)


@pytest.mark.parametrize("architecture", SPECS)
@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_network_equals_ordinary_layers(architecture, initialization):
    spec = SPECS[architecture]
    network = Network(spec, architecture=architecture, initialization=initialization)
    enlarge_policy_head(network)
    observation = frames_of(np.random.default_rng(0), spec, 3, spec.stack)
    observation = observation if spec.stack > 1 else observation[:, 0]
    probabilities, q, _ = network(tf.constant(observation))
    expected_probabilities, expected_q = reference(network, observation)
    assert expected_probabilities.std() > 0.01
    np.testing.assert_allclose(probabilities, expected_probabilities, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(q, expected_q, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.sum(probabilities, axis=-1), 1.0, rtol=1e-6)


@pytest.mark.parametrize(("precision", "rtol"), [("float32", 1e-5), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("shape", [(84, 84), (40, 36)])
@pytest.mark.parametrize("stack", [1, 4])
def test_patch_convolution_equals_8x8_at_stride_4(precision, rtol, shape, stack):
    shown = (stack, *shape) if stack > 1 else shape
    spec = EnvironmentSpec(shown, "uint8", stack, num_actions=2, observation_scale=255.0)
    network = Network(spec, architecture="nature", initialization="fan_in", precision=precision)
    frames = frames_of(np.random.default_rng(0), spec, 2, stack)
    layer = network.torsos[0].get_layer("conv1")
    assert layer.kernel.shape == (8, 8, stack, 32)
    age = np.full([2, 1], stack - 1, np.uint8)
    result = tf.cast(layer(network.planes(tf.constant(frames), tf.constant(age))[:, 0]), tf.float32)
    images = tf.transpose(tf.cast(frames, tf.float32) / 255.0, [0, 2, 3, 1])
    expected = tf.nn.relu(tf.nn.conv2d(images, layer.kernel.value, 4, "VALID") + layer.bias.value)
    assert result.shape == expected.shape == (2, shape[0] // 4 - 1, shape[1] // 4 - 1, 32)
    assert np.mean(expected > 0) > 0.3
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def test_planes_older_than_the_episode_read_as_zero():
    rng = np.random.default_rng(0)
    network = Network(ATARI, architecture="nature")
    frames = frames_of(rng, ATARI, 3, 3 + 5)
    age = np.array([[0, 1, 2, 3, 3], [3, 3, 0, 1, 2], [2, 0, 0, 1, 2]], np.uint8)
    planes = network.planes(tf.constant(frames), tf.constant(age))
    assert planes.shape == (3, 5, 21, 21, 64)
    # Plane s of the stack is channels 16 s to 16 s + 15, each one pixel of every 4×4 patch.
    unpatched = planes.numpy().reshape(3, 5, 21, 21, 4, 4, 4).transpose(0, 1, 4, 2, 5, 3, 6).reshape(3, 5, 4, 84, 84)
    np.testing.assert_array_equal(unpatched, stacked(frames, age, 4))
    full = network.planes(tf.constant(frames), tf.constant(np.full_like(age, 3))).numpy()
    np.testing.assert_array_equal(full[1, :2], planes[1, :2])
    assert (full[2, 0] != planes[2, 0].numpy()).any()


@pytest.mark.parametrize("architecture", SPECS)
def test_acting_and_training_see_the_same(architecture):
    spec = SPECS[architecture]
    rng = np.random.default_rng(0)
    network = Network(spec, architecture=architecture)
    enlarge_policy_head(network)
    rows = 5
    frames = frames_of(rng, spec, 2, spec.stack - 1 + rows)
    age = rng.integers(spec.stack, size=[2, rows]).astype(np.uint8)
    probabilities, q = network.windows(network.planes(tf.constant(frames), tf.constant(age)))
    assert probabilities.shape == q.shape == (2, rows, spec.num_actions)
    shown = stacked(frames, age, spec.stack) if spec.stack > 1 else frames
    for t in range(rows):
        acting = network(tf.constant(shown[:, t]))
        np.testing.assert_allclose(probabilities[:, t], acting[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(q[:, t], acting[1], rtol=1e-4, atol=1e-5)


def test_the_batch_size_may_be_unknown_when_compiling():
    network = Network(ATARI, architecture="nature")

    @tf.function(input_signature=[tf.TensorSpec([None, 6, 84, 84], tf.uint8), tf.TensorSpec([None, 3], tf.uint8)])
    def forward(frames, age):
        return network.windows(network.planes(frames, age))

    frames, age = frames_of(np.random.default_rng(0), ATARI, 2, 6), np.full([2, 3], 3, np.uint8)
    for result, expected in zip(forward(frames, age), network.windows(network.planes(frames, age)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("architecture", ["nature", "image", "small", "mlp"])
def test_observations_are_divided_by_their_scale(architecture):
    shape = {"nature": (36, 40), "image": (36, 40, 2)}.get(architecture, (10, 10, 4))
    on = np.random.default_rng(0).integers(2, size=[2, *shape]).astype(bool)
    shown = [("uint8", high, on.astype(np.uint8) * high) for high in (255, 10, 1)]
    if architecture != "nature":
        shown += [("bool", None, on), *(("float32", high, on.astype(np.float32) * (high or 1)) for high in (255, None))]
    outputs = [
        Network(EnvironmentSpec(shape, dtype, 1, 3, observation_scale=scale), architecture=architecture, seed=1)(x)
        for dtype, scale, x in shown
    ]
    for probabilities, q, _ in outputs[1:]:
        np.testing.assert_allclose(probabilities, outputs[0][0], rtol=1e-5)
        np.testing.assert_allclose(q, outputs[0][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
def test_without_normalization_a_continuous_network_divides_by_the_scale(normalize):
    arm = dict(action_low=(-1.0,), action_high=(1.0,))
    specs = [EnvironmentSpec((3, 3, 2), "uint8", 1, 0, **arm, observation_scale=scale) for scale in (255.0, 1.0)]
    pixels = np.random.default_rng(0).integers(256, size=[5, 3, 3, 2]).astype(np.uint8)
    of_pixels, other = (ContinuousNetwork(spec, critic="dueling", dense=DENSE[normalize], seed=1) for spec in specs)
    same = pixels if normalize else pixels / np.float32(255)
    for one, two in zip(of_pixels(pixels), other(same), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


# ---- initialization


def layers_with_weights(network):
    return [layer for layer in (*network.torsos[0].layers, *network.heads.layers) if layer.weights]


@pytest.mark.parametrize("architecture", SPECS)
def test_orthogonal_kernels_have_the_gain_of_their_layer(architecture):
    layers = layers_with_weights(Network(SPECS[architecture], architecture=architecture, initialization="orthogonal"))
    assert len(layers) == {"nature": 6, "image": 6, "small": 4, "mlp": 4}[architecture]
    for layer in layers:
        kernel = layer.kernel.numpy().reshape(-1, layer.kernel.shape[-1])
        gram = kernel.T @ kernel if kernel.shape[0] >= kernel.shape[1] else kernel @ kernel.T
        gain = {"policy": 0.01, "q": 1.0}.get(layer.name, 2**0.5)
        np.testing.assert_allclose(gram / gain**2, np.eye(len(gram)), atol=1e-5)
        np.testing.assert_array_equal(layer.bias, 0.0)


FAN_IN = {
    "nature": {"conv1": 256, "conv2": 512, "conv3": 576, "dense": 3136, "policy": 512, "q": 512},
    "image": {"conv1": 192, "conv2": 512, "conv3": 576, "dense": 128, "policy": 512, "q": 512},
    "small": {"conv": 63, "dense": 1024, "policy": 128, "q": 128},
    "mlp": {"dense1": 5, "dense2": 64, "policy": 64, "q": 64},
}


@pytest.mark.parametrize("architecture", SPECS)
def test_fan_in_weights_and_biases_are_uniform_within_their_bound(architecture):
    network = Network(SPECS[architecture], architecture=architecture, initialization="fan_in")
    layers = {layer.name: layer for layer in layers_with_weights(network)}
    assert set(layers) == set(FAN_IN[architecture])
    for name, fan_in in FAN_IN[architecture].items():
        for weights in (layers[name].kernel.numpy(), layers[name].bias.numpy()):
            scaled = weights.ravel() * np.sqrt(fan_in)
            assert np.abs(scaled).max() <= 1 + 1e-6
            assert np.abs(scaled).max() > 0.3
            if scaled.size > 100:
                assert scaled.max() > 0.95 and scaled.min() < -0.95
                np.testing.assert_allclose(scaled.std(), np.sqrt(1 / 3), rtol=0.15)


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_the_seed_decides_the_weights_and_no_two_layers_share_theirs(initialization):
    def weights(seed):
        network = Network(SPECS["mlp"], architecture="mlp", initialization=initialization, seed=seed)
        return {v.path: v.numpy() for v in network.trainable_variables}

    first, again, other = weights(3), weights(3), weights(4)
    for path, value in first.items():
        np.testing.assert_array_equal(value, again[path])
        if value.any():
            assert (value != other[path]).all()
    assert (first["policy/kernel"] / 0.01 != first["q/kernel"]).all()
    assert (first["policy/kernel"] != first["q/kernel"]).all()


# ---- precision


@pytest.mark.parametrize("architecture", SPECS)
def test_under_bfloat16_heads_weights_and_optimizer_stay_float32(architecture):
    spec = SPECS[architecture]
    before = keras.config.dtype_policy().name
    network = Network(spec, architecture=architecture, precision="bfloat16")
    assert keras.config.dtype_policy().name == before == "float32"
    enlarge_policy_head(network)
    assert {v.dtype for v in network.variables} == {"float32"}
    optimizer = RMSProp()
    optimizer.build(network.trainable_variables)
    assert {v.dtype for v in optimizer.variables if v.path.endswith("_velocity")} == {"float32"}
    for layer in (*network.torsos[0].layers, *network.heads.layers):
        if layer.name in ("policy", "q", "probabilities"):
            assert layer.compute_dtype == "float32"
        elif layer.weights:
            assert layer.compute_dtype == "bfloat16"
    observation = frames_of(np.random.default_rng(0), spec, 4, spec.stack)
    observation = observation if spec.stack > 1 else observation[:, 0]
    probabilities, q, _ = network(tf.constant(observation))
    assert probabilities.dtype == q.dtype == tf.float32
    np.testing.assert_allclose(np.sum(probabilities, axis=-1), 1.0, rtol=1e-6)
    expected_probabilities, expected_q = reference(network, observation)
    np.testing.assert_allclose(probabilities, expected_probabilities, atol=0.03)
    np.testing.assert_allclose(q, expected_q, atol=0.03 * np.abs(expected_q).max())
    assert (q.numpy() != expected_q).any()


# ---- bad architectures


@pytest.mark.parametrize(
    ("architecture", "spec", "readers"),
    [
        ("nature", SPECS["mlp"], "take mlp"),
        ("nature", SPECS["small"], "take small or mlp"),
        ("nature", EnvironmentSpec((4, 32, 84), "uint8", 4, 2, observation_scale=255.0), "none can"),
        ("nature", EnvironmentSpec((4, 84, 86), "uint8", 4, 2, observation_scale=255.0), "none can"),
        ("nature", EnvironmentSpec((4, 84, 84), "float32", 4, 2), "none can"),
        ("image", SPECS["small"], "take small or mlp"),
        ("small", ATARI, "take nature"),
        ("mlp", ATARI, "take nature"),
        ("small", EnvironmentSpec((2, 10, 3), "bool", 1, 2), "take mlp"),
    ],
)
def test_an_architecture_that_cannot_read_the_observations_is_refused(architecture, spec, readers):
    with pytest.raises(ValueError, match=rf"{architecture}.*{readers}$"):
        Network(spec, architecture=architecture)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(ValueError, match="resnet.*nature"):
        Network(SPECS["mlp"], architecture="resnet")


@pytest.mark.parametrize("architecture", SPECS)
def test_default_network(architecture):
    assert default_network(SPECS[architecture]) == architecture


@pytest.mark.parametrize(
    ("shape", "dtype", "network"),
    [
        ((64, 64, 3), "uint8", "image"),
        ((36, 40, 1), "float32", "image"),
        ((210, 160), "uint8", "image"),  # no multiple of 4
        ((84, 84), "float32", "image"),
        ((84, 84), "uint8", "nature"),
        ((35, 64, 3), "uint8", "small"),
    ],
)
def test_images_of_36_pixels_a_side_get_the_layers_of_nature(shape, dtype, network):
    assert default_network(EnvironmentSpec(shape, dtype, stack=1, num_actions=2)) == network


def test_gray_images_have_one_channel():
    gray, rgb = (EnvironmentSpec(shape, "float32", 1, 2) for shape in ((36, 40), (36, 40, 1)))
    shown = np.random.default_rng(0).random((2, 36, 40), np.float32)
    one, other = (Network(spec, architecture="image", seed=1) for spec in (gray, rgb))
    np.testing.assert_array_equal(one(shown)[1], other(shown[..., None])[1])


def test_a_users_torso_reads_stacked_frames_as_planes_with_the_frames_last(monkeypatch):
    def build(layers, x):
        assert x.shape == (None, 84, 84, 4)
        return layers.hidden(8, "relu", "dense", layers.flat(layers.convolution(4, 8, 8, "conv", layers.scaled(x))))

    monkeypatch.setitem(torsos.TORSOS, "theirs", torsos.Torso(build, lambda spec: spec.stack > 1))
    rng = np.random.default_rng(0)
    network = Network(ATARI, architecture="theirs")
    enlarge_policy_head(network)
    frames, age = frames_of(rng, ATARI, 2, 3 + 5), rng.integers(4, size=[2, 5]).astype(np.uint8)
    planes = network.planes(tf.constant(frames), tf.constant(age)).numpy()
    shown = stacked(frames, age, 4)
    np.testing.assert_array_equal(planes, shown.transpose(0, 1, 3, 4, 2))
    probabilities, q = network.windows(tf.constant(planes))
    for t in range(5):
        acting = network(tf.constant(shown[:, t]))
        np.testing.assert_allclose(probabilities[:, t], acting[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(q[:, t], acting[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", ["_mine", "größe"])
def test_a_users_torso_may_be_in_a_module_of_any_name(module, monkeypatch):
    theirs = torsos.Torso(lambda layers, x: layers.hidden(8, "relu", "dense", layers.flat(x)), lambda spec: True)
    monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(R=theirs))
    assert Network(ATARI, architecture=f"{module}:R").trainable_variables


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_a_torso_may_be_deep(initialization, monkeypatch):
    def build(layers, x):
        for n in range(30):
            x = layers.hidden(4, "relu", f"dense{n}", x)
        return x

    monkeypatch.setitem(torsos.TORSOS, "deep", torsos.Torso(build, lambda spec: True))
    network = Network(SPECS["mlp"], architecture="deep", initialization=initialization)
    assert len({v.numpy().tobytes() for v in network.trainable_variables if "kernel" in v.path}) == 32
    # Records of earlier versions, which drew 32 seeds, keep their initial weights.
    seeds = np.random.SeedSequence(5)
    np.testing.assert_array_equal(seeds.generate_state(32), seeds.generate_state(building._MOST_SEEDS)[:32])


def test_normalized_observations_are_clipped_at_ten_standard_deviations():
    layer = RunningNormalization()
    layer.build((None, 1))
    layer.update(tf.constant([[-1.0], [1.0]]))
    np.testing.assert_allclose(layer(tf.constant([[9.0], [11.0], [-50.0]])), [[9.0], [10.0], [-10.0]], rtol=1e-5)


@pytest.mark.parametrize("torso", ["", "policy_torso/"])
def test_dense_layers_of_other_units_and_activation_with_normalization(torso):
    dense = torsos.Dense((7, 9, 5), "gelu", layer_norm=True)
    if torso:
        spec = EnvironmentSpec((5,), "float32", 1, 0, action_low=(-1.0,) * 3, action_high=(1.0,) * 3)
        network = ContinuousNetwork(spec, critic="dueling", dense=dense, shared_torso=False)
    else:
        network = Network(SPECS["mlp"], architecture="mlp", dense=dense)
    head = "mean" if torso else "policy"
    for weight in network.trainable_variables:
        if weight.path == f"{head}/kernel":
            weight.assign(weight * 100)  # so that an error shows
    w = {v.path: v.numpy() for v in network.trainable_variables}
    x = observation = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    for number, units in enumerate(dense.units, 1):
        x = x @ w[f"{torso}dense{number}/kernel"] + w[f"{torso}dense{number}/bias"]
        assert x.shape == (4, units)
        x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-3)
        x = x * w[f"{torso}normalization{number}/gamma"] + w[f"{torso}normalization{number}/beta"]
        x = tf.nn.gelu(x, approximate=True).numpy()
    expected = x @ w[f"{head}/kernel"] + w[f"{head}/bias"]
    for same in (network, type(network).from_config(network.get_config())):
        same.set_weights(network.get_weights())
        found = same(tf.constant(observation))[0]
        np.testing.assert_allclose(found, expected if torso else tf.nn.softmax(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("leaves", [False, True])
def test_the_dense_torso_reads_observations_normalized_by_what_was_seen(leaves):
    shape, dtype = ({"a": (2,), "b": (3,)}, {"a": "float32", "b": "uint8"}) if leaves else ((5,), "float32")
    spec = EnvironmentSpec(shape, dtype, 1, 3, observation_scale={"a": None, "b": 9.0} if leaves else None)
    dense = torsos.Dense(normalize_inputs=True)
    network = Network(spec, architecture="mlp", dense=dense)
    average = Network(spec, architecture="mlp", dense=dense, seed=1, normalization=network.normalization)
    rows = np.random.default_rng(0).integers(0, 9, (2, 40, 5)).astype(np.float32)
    seen = {"a": rows[..., :2], "b": rows[..., 2:].astype(np.uint8)} if leaves else rows
    network.update_normalization(seen)
    flat = rows.reshape(-1, 5)
    x = (flat - flat.mean(axis=0)) / flat.std(axis=0)
    one = {name: leaf.reshape(-1, leaf.shape[-1]) for name, leaf in seen.items()} if leaves else flat
    for each in (network, average, Network.from_config(network.get_config())):
        each.set_weights(network.get_weights())
        w, h = {v.path: v.numpy() for v in each.trainable_variables}, x
        for name in ("dense1", "dense2"):
            h = np.tanh(h @ w[f"{name}/kernel"] + w[f"{name}/bias"])
        np.testing.assert_allclose(each(one)[1], h @ w["q/kernel"] + w["q/bias"], rtol=1e-3, atol=1e-4)


def test_huge_observations_leave_the_running_moments_finite():
    layer = RunningNormalization()
    layer.build((None, 2))
    for sign in (1.0, -1.0, 1.0):
        layer.update(tf.constant([[1e30, 1.0], [-3e38, 2.0]]) * sign)
        assert all(np.isfinite(variable.numpy()).all() for variable in layer.variables)
    np.testing.assert_array_equal(np.isfinite(layer(tf.constant([[3e38, 1.0], [-1e30, -1.0]]))), True)


@pytest.fixture
def another_keras():
    """Keras as a script or ~/.keras/keras.json may have set it up."""
    before = keras.config.image_data_format(), keras.config.dtype_policy()
    keras.config.set_image_data_format("channels_first")
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_image_data_format(before[0])
    keras.config.set_dtype_policy(before[1])


@pytest.mark.parametrize("architecture", SPECS)
def test_what_keras_was_told_elsewhere_changes_no_network(architecture, another_keras):
    test_network_equals_ordinary_layers(architecture, "orthogonal")


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("critic", ["dueling", "separate", "none"])
def test_what_keras_was_told_elsewhere_changes_no_continuous_network(critic, normalize, request):
    def answers():
        network = ContinuousNetwork(ARM, critic=critic, dense=DENSE[normalize])
        return network(states, actions if critic != "none" else None)

    rng = np.random.default_rng(0)
    states = tf.constant(rng.normal(size=(5, 6)), tf.float32)
    actions = tf.constant(rng.normal(size=(5, 3, 2)), tf.float32)
    usual = answers()
    request.getfixturevalue("another_keras")
    for before, after in zip(usual, answers(), strict=True):
        assert after.dtype == tf.float32
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


ARM = EnvironmentSpec((6,), "float32", 1, 0, action_low=(-1.0, -1.0), action_high=(1.0, 1.0))


@pytest.mark.parametrize("critic", ["dueling", "separate", "none"])
def test_a_policy_with_its_own_torso_has_no_weight_in_common_with_the_critic(critic):
    network = ContinuousNetwork(ARM, critic=critic, shared_torso=False)
    with tf.GradientTape(persistent=True) as tape:
        policy, *rest = network(tf.ones([2, 6]), tf.ones([2, 3, 2]) if critic != "none" else None)
        outputs = {"policy": tf.reduce_sum(policy), "critic": tf.add_n([tf.reduce_sum(x) for x in rest])}
    moved = {
        name: {
            variable.path.rpartition("/")[0]
            for variable in network.trainable_variables
            if tape.gradient(output, variable) is not None
        }
        for name, output in outputs.items()
    }
    assert moved["policy"] == {"policy_torso/dense1", "policy_torso/dense2", "mean"}
    assert not moved["policy"] & moved["critic"]


@pytest.mark.parametrize(
    ("architecture", "shape"), [("image", (40, 40, 3)), ("nature", (84, 84)), ("small", (7, 7, 3))]
)
@pytest.mark.parametrize("critic", ["dueling", "separate"])
def test_continuous_networks_of_images_compute_in_bfloat16(critic, architecture, shape):
    spec = dataclasses.replace(ARM, observation_shape=shape, observation_dtype="uint8", observation_scale=255.0)
    network = ContinuousNetwork(spec, critic=critic, architecture=architecture, precision="bfloat16")
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(4, *shape)).astype(np.uint8)
    actions = tf.constant(rng.normal(size=(4, 3, 2)), tf.float32)
    pairs = list(zip(network(pixels, actions), network.in_float32()(pixels, actions), strict=True))
    for rounded, exact in pairs:
        assert rounded.dtype == tf.float32
        np.testing.assert_allclose(rounded, exact, atol=0.1)
    assert any(not np.array_equal(rounded, exact) for rounded, exact in pairs)


@pytest.mark.parametrize(
    ("architecture", "shape"), [("image", (40, 40, 3)), ("nature", (84, 84)), ("small", (7, 7, 3))]
)
def test_a_separate_critic_reads_the_pixels_of_images_as_they_are_scaled(architecture, shape):
    spec = dataclasses.replace(ARM, observation_shape=shape, observation_dtype="uint8", observation_scale=255.0)
    network = ContinuousNetwork(spec, critic="separate", architecture=architecture)
    assert network.normalization is None
    pixels = np.random.default_rng(0).integers(256, size=(2, *shape)).astype(np.uint8)
    read = network.windows(network.preprocessing(pixels)[:, None])[2]
    np.testing.assert_allclose(np.sort(read, axis=None), np.sort(pixels, axis=None) / 255, rtol=1e-6)


@pytest.mark.parametrize("shared_torso", [True, False])
@pytest.mark.parametrize("critic", ["dueling", "separate", "none"])
def test_orthogonal_kernels_of_continuous_networks_have_the_gain_of_their_layer(critic, shared_torso):
    for variable in ContinuousNetwork(ARM, critic=critic, shared_torso=shared_torso).trainable_variables:
        *_, layer, kind = variable.path.split("/")
        if kind == "kernel":
            kernel = variable.numpy()
            gram = kernel.T @ kernel if kernel.shape[0] >= kernel.shape[1] else kernel @ kernel.T
            gain = {"mean": 0.01, "value": 1.0, "critic": 1.0}.get(layer, 2**0.5)
            np.testing.assert_allclose(gram / gain**2, np.eye(len(gram)), atol=1e-4, err_msg=layer)


@pytest.mark.parametrize("options", [{"acting": "fast"}, {"updates": "serial"}])
def test_a_torso_that_cannot_be_compiled_is_refused(options):
    with pytest.raises(ValueError, match=f"Torso\\({next(iter(options))}=.*: must be one of xla, "):
        torsos.Torso(lambda layers, x: x, lambda spec: True, **options)
