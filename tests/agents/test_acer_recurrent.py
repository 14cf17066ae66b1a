"""ACER with an LSTM: its gradient compared with float64 autodiff of plain sums and loops, and the burn-in."""

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf.agents.acer import Acer
from acer_tf.networks.discrete import Network
from acer_tf.types import EnvironmentSpec, RecurrentContext, Trajectory
from tests import oracles
from tests.agents.test_acer_gradients import check_data, per_state, weight_of
from tests.core import first_in_core

UNITS = 256
ACTIONS, SIZE, STATE = 3, 4, 2 * UNITS
SPEC = EnvironmentSpec((SIZE,), "float32", stack=1, num_actions=ACTIONS)


def make_network():
    return Network(SPEC, architecture="mlp", lstm_units=UNITS)


@pytest.fixture
def make_recurrent(make_agent):
    def make(**given):
        agent = make_agent(make_network, scale=0.4, **given)
        for network in (agent.network, agent.average):
            for variable in network.trainable_variables:
                # So that the units of wide layers do not all saturate.
                variable.assign(variable / max(1.0, variable.shape[0] / 16) ** 0.5 if variable.ndim > 1 else variable)
        return agent

    return make


def trajectory_of(seed=1, batch=8, rows=12, burn_in=0):
    """Windows with every kind of boundary, in the burn-in too; NumPy arrays."""
    rng = np.random.default_rng(seed)
    whole = oracles.random_trajectory(rng, batch, burn_in + rows, ACTIONS, SIZE)
    carry = np.concatenate([np.ones((batch, 1), bool), whole.mask], axis=1)
    state = rng.normal(scale=0.5, size=(batch, STATE)).astype(np.float32)
    acted = (field[:, burn_in:] for field in whole[2:7])
    return Trajectory(whole.observation, whole.age, *acted, memory=RecurrentContext(state, carry))


def tensors(trajectory):
    return optree.tree_map(tf.constant, trajectory)


def gradients_of(agent, trajectory):
    return [g.numpy() for g in agent.parameter_gradients(tensors(trajectory))[0]]


def forward(weights, trajectory):
    """(log f, Q) [B, T+1, A] in float64: trajectory by trajectory, row by row, gate by gate, in Keras' order.

    No gradient flows through the burn-in.
    """
    w1, b1, w2, b2, kernel, recurrent, bias, w_policy, b_policy, w_q, b_q = weights
    rows = trajectory.mask.shape[1] + 1
    observation = tf.constant(trajectory.observation, tf.float64)
    features = tf.tanh(tf.tanh(observation @ w1 + b1) @ w2 + b2)
    outputs = []
    for b, state in enumerate(trajectory.memory.state.astype(np.float64)):
        h, c = tf.constant(state[None, :UNITS]), tf.constant(state[None, UNITS:])
        burned = observation.shape[1] - rows
        for row in range(observation.shape[1]):
            if not trajectory.memory.carry[b, row]:
                h, c = tf.zeros_like(h), tf.zeros_like(c)
            if row == burned:
                h, c = tf.stop_gradient(h), tf.stop_gradient(c)
            gate = [
                features[b, None, row] @ kernel[:, part] + h @ recurrent[:, part] + bias[part]
                for part in (slice(n * UNITS, (n + 1) * UNITS) for n in range(4))
            ]
            c = c / (1 + tf.exp(-gate[1])) + tf.tanh(gate[2]) / (1 + tf.exp(-gate[0]))
            h = tf.tanh(c) / (1 + tf.exp(-gate[3]))
            if row >= burned:
                outputs.append(h)
    x = tf.reshape(tf.concat(outputs, axis=0), [len(trajectory.mask), rows, UNITS])
    return tf.nn.log_softmax(x @ w_policy + b_policy), x @ w_q + b_q


def gradients_by_autodiff(agent, trajectory):
    """Of the surrogate loss with constant z and critic's targets: the sums of Eqs. 6, 9 and 12 over unmasked rows."""
    h = agent.settings
    online, average = (
        [tf.constant(v.numpy(), tf.float64) for v in network.trainable_variables]
        for network in (agent.network, agent.average)
    )
    with tf.GradientTape() as tape:
        tape.watch(online)
        log_all, q_all = forward(online, trajectory)
        probabilities, q = tf.exp(log_all).numpy(), q_all.numpy()
        rho, q_ret, value, q_rows, action = per_state(probabilities, q, trajectory, h)
        phi, chosen = probabilities[:, :-1][trajectory.mask], np.eye(ACTIONS)[action]
        c = h.importance_truncation
        taken = np.sum(chosen * rho, axis=1)
        g = chosen / phi * (np.minimum(taken, c) * (q_ret - value))[:, None]
        g += np.maximum(0, 1 - c / rho) * (q_rows - value[:, None])  # f / f of f ∇ log f
        g += h.entropy_weight * -(np.log(phi) + 1)
        z = g
        if h.trust_region:
            average_rows = np.exp(forward(average, trajectory)[0].numpy())[:, :-1][trajectory.mask]
            k = -average_rows / phi
            check_data(rho, action, g, k, h)
            z = np.array([oracles.projection(*pair, h.trust_region_delta) for pair in zip(g, k, strict=True)])
        q_taken = tf.reduce_sum(chosen * tf.boolean_mask(q_all[:, :-1], trajectory.mask), axis=1)
        gain = tf.reduce_sum(z * tf.boolean_mask(tf.exp(log_all[:, :-1]), trajectory.mask))
        critic = 0.5 * tf.reduce_sum((q_ret - q_taken) ** 2)
        loss = weight_of(trajectory, h) * (h.critic_weight * critic - gain)
    return tape.gradient(loss, online)


@pytest.mark.parametrize(
    ("burn_in", "delta", "reduction"),
    first_in_core([(0, np.inf, "mean"), (5, 0.3, "mean"), (0, 0.3, "sum"), (5, np.inf, "sum")]),
)
def test_gradient_equals_autodiff_of_the_sums(make_recurrent, burn_in, delta, reduction):
    agent = make_recurrent(
        gamma=0.95, importance_truncation=2.0, trust_region_delta=delta, entropy_weight=0.3, reduction=reduction
    )
    trajectory = trajectory_of(burn_in=burn_in)
    assert not trajectory.memory.carry[:, : burn_in + 1].all() or not burn_in
    assert not trajectory.memory.carry[:, burn_in + 1 :].all()
    expected = gradients_by_autodiff(agent, trajectory)
    for variable, ours, wanted in zip(
        agent.network.trainable_variables, gradients_of(agent, trajectory), expected, strict=True
    ):
        wanted = wanted.numpy()
        assert wanted.any()
        np.testing.assert_allclose(ours, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max(), err_msg=variable.path)


def test_burn_in_rows_have_no_gradient_and_update_each_networks_state_by_its_own_weights(make_recurrent):
    """Equal to windows without burn-in that begin with the states that the two networks reach there."""
    agent = make_recurrent(trust_region_delta=0.3)
    trajectory = trajectory_of(burn_in=5)
    reached = []
    for network in (agent.network, agent.average):
        state = trajectory.memory.state
        for row in range(5):
            state = np.where(trajectory.memory.carry[:, row, None], state, np.float32(0))
            state = network(tf.constant(trajectory.observation[:, row]), tf.constant(state))[2].numpy()
        reached.append(state)
    assert np.abs(reached[0] - reached[1]).max() > 0.1
    short = trajectory._replace(observation=trajectory.observation[:, 5:], age=trajectory.age[:, 5:])
    carry = trajectory.memory.carry[:, 5:]
    # The average network gets another state.
    split = Acer(agent.network, make_network(), agent.optimizer, agent.settings)
    split.average.set_weights(agent.average.get_weights())
    burn_in = split.average.burn_in
    split.average.burn_in = lambda planes, memory, rows: burn_in(
        planes, RecurrentContext(reached[1], memory.carry), rows
    )
    ours = gradients_of(agent, trajectory)
    for a, b in zip(ours, gradients_of(split, short._replace(memory=RecurrentContext(reached[0], carry))), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * np.abs(b).max())
    # Starting from the stored state without the burn-in gives another gradient.
    stale = gradients_of(agent, short._replace(memory=RecurrentContext(trajectory.memory.state, carry)))
    assert any(np.abs(a - b).max() > 0.01 * np.abs(a).max() for a, b in zip(ours, stale, strict=True))


def test_what_was_before_an_episode_changes_nothing(make_recurrent):
    agent = make_recurrent()
    trajectory = trajectory_of(burn_in=3)
    trajectory.memory.carry[:, 3] = False  # x_0 begins an episode
    before = gradients_of(agent, trajectory)
    other = trajectory.observation.copy()
    other[:, :3] += 1.0
    memory = RecurrentContext(trajectory.memory.state + 1, trajectory.memory.carry)
    for a, b in zip(before, gradients_of(agent, trajectory._replace(observation=other, memory=memory)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1.0, np.inf])
def test_updates_with_and_without_burn_in_lower_the_critic_loss_and_compile_once_each(make_recurrent, delta):
    agent = make_recurrent(trust_region_delta=delta)
    collected, replayed = trajectory_of(), trajectory_of(seed=2, burn_in=4)
    losses = []
    for _ in range(30):
        for trajectory in (collected, replayed):
            diagnostics = agent.update(trajectory).diagnostics
            assert np.isfinite(list(diagnostics.values())).all()
        losses.append(diagnostics["critic_loss"])
    assert losses[-1] < 0.97 * losses[0]
    assert len(agent._learn.traces) == 2


def test_acting_carries_the_state(make_recurrent):
    agent = make_recurrent()
    observation = np.random.default_rng(0).normal(size=[16, SIZE]).astype(np.float32)
    seed, zeros = np.array([1, 2], np.int32), np.zeros((16, STATE), np.float32)
    action, first, state = agent.act(observation, seed, zeros)
    expected, _, after = agent.network(tf.constant(observation), tf.constant(zeros))
    np.testing.assert_allclose(first, expected, rtol=1e-5)
    np.testing.assert_allclose(state, after, rtol=1e-4, atol=1e-6)
    assert (action.dtype, state.dtype, state.shape) == (np.int32, np.float32, (16, STATE))
    _, second, _ = agent.act(observation, seed, state)
    assert np.abs(second - first).max() > 0.01
    assert len(agent._act.traces) == 1


def test_every_variable_has_its_own_name(make_recurrent):
    agent = make_recurrent()
    models = [*agent.network.weights, *agent.average.weights, *agent.optimizer.variables]
    assert len(agent.variables()) == len(models)
