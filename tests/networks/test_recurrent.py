"""The LSTM with its resets, and whole windows compared with acting row by row."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.layers import Lstm
from acer_tf.types import EnvironmentSpec, RecurrentContext
from tests.networks.test_networks import SPECS, frames_of, stacked

UNITS = 256


def lstm_of(units, size, rng):
    layer = Lstm(units)
    layer.build((None, None, size))
    layer.set_weights([rng.normal(scale=0.5, size=w.shape).astype(np.float32) for w in layer.get_weights()])
    return layer


def inputs_of(rng, batch, rows, size, units):
    carry = rng.random((batch, rows)) < 0.7
    carry[:, 0], carry[0] = True, True
    x, state = rng.normal(size=(batch, rows, size)), rng.normal(size=(batch, 2 * units))
    return tf.constant(x, tf.float32), tf.constant(state, tf.float32), tf.constant(carry)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_the_lstm_with_resets_equals_its_equations():
    """Those of Hochreiter & Schmidhuber 1997 with forget gates (Gers et al. 2000), in NumPy."""
    rng = np.random.default_rng(0)
    layer = lstm_of(5, 3, rng)
    kernel, recurrent, bias = layer.get_weights()
    x, state, carry = inputs_of(rng, 4, 7, 3, 5)
    outputs, last = layer(x, state, carry)
    h, c = np.split(state.numpy(), 2, axis=1)
    for row in range(7):
        h, c = (s * carry.numpy()[:, row, None] for s in (h, c))
        i, f, g, o = np.split(x.numpy()[:, row] @ kernel + h @ recurrent + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(outputs[:, row], h, atol=1e-6)
    np.testing.assert_allclose(last, np.concatenate([h, c], axis=1), atol=1e-6)


def test_no_row_reads_what_was_before_a_reset():
    rng = np.random.default_rng(0)
    layer = lstm_of(5, 3, rng)
    x, state, carry = inputs_of(rng, 4, 7, 3, 5)
    dirty = x.numpy().copy()
    forgotten = np.array([not carry[b, : row + 1].numpy().all() for b in range(4) for row in range(7)]).reshape(4, 7)
    assert forgotten.any() and not forgotten.all()
    for b in range(4):
        if forgotten[b].any():
            dirty[b, : forgotten[b].argmax()] = np.nan
    clean, poisoned = (layer(tf.constant(values), state, carry)[0].numpy() for values in (x, dirty))
    np.testing.assert_array_equal(poisoned[forgotten], clean[forgotten])
    assert np.isnan(poisoned).any()


@pytest.mark.parametrize("architecture", SPECS)
def test_a_window_equals_acting_row_by_row(architecture):
    spec = SPECS[architecture]
    rng = np.random.default_rng(0)
    network = Network(spec, architecture=architecture, lstm_units=UNITS)
    head = network.heads.get_layer("policy")
    head.kernel.assign(100 * head.kernel)  # so that an error in the policy shows
    batch, rows = 3, 9
    frames = frames_of(rng, spec, batch, spec.stack - 1 + rows)
    age = np.minimum(np.arange(rows), spec.stack - 1)[None].repeat(batch, 0).astype(np.uint8)
    carry = np.ones((batch, rows), bool)
    carry[0, 4] = carry[1, 1] = carry[1, 8] = False
    first = rng.normal(size=(batch, network.state_size)).astype(np.float32)
    planes = network.planes(tf.constant(frames), tf.constant(age))
    probabilities, q = network.windows(planes, RecurrentContext(tf.constant(first), tf.constant(carry)))
    shown = stacked(frames, age, spec.stack) if spec.stack > 1 else frames
    state, spread = first, []
    for row in range(rows):
        state = np.where(carry[:, row, None], state, np.float32(0))
        alone, q_alone, state = (t.numpy() for t in network(tf.constant(shown[:, row]), tf.constant(state)))
        np.testing.assert_allclose(probabilities[:, row], alone, atol=1e-5)
        np.testing.assert_allclose(q[:, row], q_alone, atol=1e-5)
        spread.append(alone)
    assert np.std(spread) > 0.01
    policy, after = network.distribution(tf.constant(shown[:, 0]), tf.constant(first))
    np.testing.assert_allclose(policy.statistics, spread[0], atol=1e-6)
    assert after.shape == (batch, 2 * UNITS)


@pytest.mark.parametrize("shared_torso", [True, False])
@pytest.mark.parametrize("architecture", ["mlp", "small"])
def test_a_window_equals_acting_row_by_row_with_continuous_actions(architecture, shared_torso):
    spec = dataclasses.replace(SPECS[architecture], num_actions=0, action_low=(-1.0,), action_high=(1.0,))
    rng, batch, rows = np.random.default_rng(0), 3, 9
    network = ContinuousNetwork(
        spec, critic="dueling", architecture=architecture, lstm_units=5, shared_torso=shared_torso
    )
    assert network.state_size == (10 if shared_torso else 20)
    head = network.heads.get_layer("mean")
    head.kernel.assign(100 * head.kernel)
    frames = frames_of(rng, spec, batch, rows)
    carry = np.ones((batch, rows), bool)
    carry[0, 4] = carry[1, 1] = carry[1, 8] = False
    first = rng.normal(size=(batch, network.state_size)).astype(np.float32)
    planes = network.planes(tf.constant(frames), tf.zeros((batch, rows), tf.uint8))
    memory = RecurrentContext(tf.constant(first), tf.constant(carry))
    mean, value, read = network.windows(planes, memory)
    assert read.shape == (batch, rows, 5), "the critic reads the LSTM's output"
    after, later = network.burn_in(planes, memory, 6)
    for whole, part in zip((mean, value, read), network.windows(after, later), strict=True):
        np.testing.assert_allclose(part, whole[:, 3:], atol=1e-5)
    state = first
    for row in range(rows):
        state = np.where(carry[:, row, None], state, np.float32(0))
        alone, worth, following = (x.numpy() for x in network.answer(tf.constant(frames[:, row]), tf.constant(state)))
        policy, same = network.distribution(tf.constant(frames[:, row]), tf.constant(state))
        np.testing.assert_allclose(mean[:, row], alone, atol=1e-5)
        np.testing.assert_allclose(policy.statistics, alone, atol=1e-6)
        np.testing.assert_allclose(value[:, row], worth, atol=1e-5)
        np.testing.assert_array_equal(following, same)
        state = following
    assert np.std(mean) > 0.01


@pytest.mark.parametrize("architecture", SPECS)
@pytest.mark.parametrize("cut", [1, 4])
def test_a_burn_in_and_the_rest_equal_the_whole(cut, architecture):
    spec, rng = SPECS[architecture], np.random.default_rng(0)
    network = Network(spec, architecture=architecture, lstm_units=UNITS)
    carry = np.ones((2, 7), bool)
    carry[0, 2] = carry[1, cut] = False
    memory = RecurrentContext(tf.constant(rng.normal(size=(2, 512)), tf.float32), tf.constant(carry))
    age = np.minimum(np.arange(7), spec.stack - 1)[None].repeat(2, 0).astype(np.uint8)
    planes = network.planes(tf.constant(frames_of(rng, spec, 2, spec.stack - 1 + 7)), tf.constant(age))
    whole = network.windows(planes, memory)
    inputs = network.burn_in(planes, memory, 7 - cut)
    assert inputs[0].shape[1] == inputs[1].carry.shape[1] == 7 - cut
    for ours, expected in zip(network.windows(*inputs), whole, strict=True):
        np.testing.assert_allclose(ours, expected[:, cut:], atol=1e-6)
    untouched, same = network.burn_in(planes, memory, 7)
    assert same.state is memory.state
    np.testing.assert_array_equal(untouched, planes)


@pytest.mark.parametrize("initialization", ["orthogonal", "fan_in"])
def test_it_starts_with_open_forget_gates_and_orthogonal_recurrent_weights(initialization):
    network = Network(SPECS["mlp"], architecture="mlp", lstm_units=UNITS, initialization=initialization, seed=3)
    kernel, recurrent, bias = network.lstms[0].get_weights()
    np.testing.assert_array_equal(bias.reshape(4, UNITS).T, np.tile([0, 1, 0, 0], (UNITS, 1)))
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(UNITS), atol=1e-5)
    assert kernel.shape == (64, 4 * UNITS)
    if initialization == "orthogonal":
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(64), atol=1e-5)
    else:
        assert 0.9 / 8 < np.abs(kernel).max() <= 1 / 8
    same = Network(SPECS["mlp"], architecture="mlp", lstm_units=UNITS, initialization=initialization, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(network.get_weights(), same.get_weights(), strict=True))


def test_the_model_names_every_variable_once_and_its_twin_has_them_in_float32():
    spec = SPECS["nature"]
    network = Network(spec, architecture="nature", lstm_units=UNITS, precision="bfloat16")
    paths = [v.path for v in network.weights]
    assert len(set(paths)) == len(paths) == 8 + 3 + 4
    assert {v.dtype for v in network.weights} == {"float32"}
    twin = network.in_float32()
    observation = tf.constant(frames_of(np.random.default_rng(0), spec, 2, 4))
    state = tf.zeros([2, network.state_size])
    for ours, exact in zip(network(observation, state), twin(observation, state), strict=True):
        assert ours.dtype == tf.float32  # the state is float32 even if the torso computes in bfloat16
        np.testing.assert_allclose(ours, exact, atol=0.05)


def test_observations_that_a_torso_cannot_read_are_refused():
    with pytest.raises(ValueError, match="'nature' cannot read .*; take mlp$"):
        Network(EnvironmentSpec((4,), "float32", 1, 2), architecture="nature", lstm_units=UNITS)


def test_an_lstm_of_any_size_follows_any_torso():
    spec = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
    sized = Network(spec, architecture="mlp", lstm_units=7)
    assert sized.state_size == 14 and sized.lstms[0].units == 7
    again = Network.from_config(sized.get_config())
    assert again.state_size == 14
    again.set_weights(sized.get_weights())
    x = np.ones((3, 4), np.float32)
    for ours, theirs in zip(sized(x), again(x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_windows_without_the_memory_of_an_lstm_are_refused():
    box = EnvironmentSpec((4,), "float32", stack=1, num_actions=0, action_low=(-1.0,), action_high=(1.0,))
    networks = [
        Network(EnvironmentSpec((4,), "float32", stack=1, num_actions=3), architecture="mlp", lstm_units=5),
        ContinuousNetwork(box, architecture="mlp", critic="none", lstm_units=5),
    ]
    for network in networks:
        planes = network.planes(tf.zeros((2, 3, 4)), tf.zeros((2, 3), tf.uint8))
        with pytest.raises(ValueError, match="has an LSTM: .*update_inputs"):
            network.windows(planes)
