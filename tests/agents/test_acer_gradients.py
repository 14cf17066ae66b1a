"""The update's parameter gradient, compared with two independent derivations.

One is float64 autodiff of the surrogate loss through a hand-written MLP, with g and k also by autodiff. The other is
float64 finite differences of everything, on a linear-softmax model.
"""

import itertools

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import Torso
from acer_tf.types import EnvironmentSpec
from tests import oracles

ACTIONS, SIZE = 3, 4
SPEC = EnvironmentSpec((SIZE,), "float32", stack=1, num_actions=ACTIONS)


LINEAR = Torso(lambda layers, x: layers.flat(x), lambda spec: True)


def linear_network():
    """softmax(x W + b) and x W' + b'."""
    return Network(SPEC, architecture=f"{__name__}:LINEAR")


def per_state(probabilities, q, trajectory, h):
    """The constants of the surrogate, [n] or [n, A] over the unmasked rows: ρ(·), Q_ret, V, Q(·) and the action."""
    value = np.sum(probabilities * q, axis=-1)
    rho = probabilities[:, :-1] / trajectory.behaviour
    take = trajectory.action[..., None]
    rho_taken = np.take_along_axis(rho, take, axis=-1)[..., 0]
    reward = np.clip(trajectory.reward, -h.effective_reward_clip, h.effective_reward_clip)
    row, m = (reward, trajectory.discount, trajectory.mask), trajectory.mask
    if h.retrace:
        q_ret = oracles.off_policy_return(
            *row,
            np.take_along_axis(q[:, :-1], take, axis=-1)[..., 0],
            value[:, :-1],
            value[:, -1],
            np.minimum(rho_taken, 1),
            gamma=h.gamma,
            lambda_=h.retrace_lambda,
        )
    else:
        q_ret = oracles.importance_sampled_return(*row, value[:, :-1], value[:, -1], rho_taken, gamma=h.gamma)
    return rho[m], q_ret[m], value[:, :-1][m], q[:, :-1][m], trajectory.action[m]


def weight_of(trajectory, h):
    return 1 / (trajectory.mask.sum() if h.reduction == "mean" else len(trajectory.mask))


def check_data(rho, action, g, k, h):
    """The case covers ρ on both sides of a finite c, and states inside and outside a finite δ."""
    taken = rho[np.arange(len(rho)), action]
    assert (taken < 1).any()
    assert (taken > 1).any()
    if np.isfinite(h.importance_truncation):
        assert (taken < h.importance_truncation).any()
        assert (taken > h.importance_truncation).any()
    if h.trust_region:
        assert 0.1 < np.mean(np.sum(k * g, axis=1) > h.trust_region_delta) < 0.9


def mlp(weights, observation):
    """(log f, Q) of the two tanh layers, from the weights in Keras' order."""
    w1, b1, w2, b2, w_policy, b_policy, w_q, b_q = weights
    x = tf.tanh(tf.tanh(observation @ w1 + b1) @ w2 + b2)
    return tf.nn.log_softmax(x @ w_policy + b_policy), x @ w_q + b_q


def gradients_by_autodiff(agent, trajectory):
    h = agent.settings
    online, average = (
        [tf.constant(v.numpy(), tf.float64) for v in network.trainable_variables]
        for network in (agent.network, agent.average)
    )
    observation = tf.constant(trajectory.observation, tf.float64)
    probabilities, q = tf.exp(mlp(online, observation)[0]).numpy(), mlp(online, observation)[1].numpy()
    rho, q_ret, value, q_rows, action = per_state(probabilities, q, trajectory, h)
    chosen, c = np.eye(ACTIONS)[action], h.importance_truncation
    phi_rows = probabilities[:, :-1][trajectory.mask]
    corrected = h.bias_correction * np.maximum(0, 1 - c / rho) * phi_rows * (q_rows - value[:, None])
    truncated = chosen * (np.minimum(np.sum(chosen * rho, axis=1), c) * (q_ret - value))[:, None]

    def objective(log_phi):
        """A function whose gradient is Eq. 9; without the entropy."""
        return tf.reduce_sum((truncated + corrected) * log_phi)

    def entropy(log_phi):
        return -tf.reduce_sum(tf.exp(log_phi) * log_phi)

    inside = h.entropy_weight if h.entropy_in_trust_region else 0.0
    phi = tf.constant(phi_rows)
    average_rows = tf.boolean_mask(tf.exp(mlp(average, observation)[0])[:, :-1], trajectory.mask)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(phi)
        climbed = objective(tf.math.log(phi)) + inside * entropy(tf.math.log(phi))
        divergence = tf.reduce_sum(average_rows * tf.math.log(average_rows / phi))
    g, k = tape.gradient(climbed, phi).numpy(), tape.gradient(divergence, phi).numpy()
    check_data(rho, action, g, k, h)

    with tf.GradientTape() as tape:
        tape.watch(online)
        log_all, q_all = mlp(online, observation)
        log_phi = tf.boolean_mask(log_all[:, :-1], trajectory.mask)
        q_taken = tf.reduce_sum(chosen * tf.boolean_mask(q_all[:, :-1], trajectory.mask), axis=1)
        if h.trust_region:
            z = np.array([oracles.projection(*pair, h.trust_region_delta) for pair in zip(g, k, strict=True)])
            gain = tf.reduce_sum(z * tf.exp(log_phi)) + (h.entropy_weight - inside) * entropy(log_phi)
        else:
            gain = objective(log_phi) + h.entropy_weight * entropy(log_phi)
        critic_loss = h.critic_weight * 0.5 * tf.reduce_sum((q_ret - q_taken) ** 2)
        loss = weight_of(trajectory, h) * (critic_loss - gain)
    return tape.gradient(loss, online)


# δ, entropy inside the trust region, reduction, c
CASES = list(itertools.product([0.3, np.inf], [True, False], ["mean", "sum"], [0.5, 10.0, np.inf]))
WHOLE = {}
ABLATIONS = [
    (0.3, True, "mean", 0.5, {"retrace": False, "retrace_lambda": 1.0}),
    (0.3, True, "mean", 0.5, {"bias_correction": False}),
    (np.inf, True, "sum", 0.5, {"retrace": False, "retrace_lambda": 1.0, "bias_correction": False}),
]


@pytest.mark.parametrize(
    ("delta", "inside", "reduction", "c", "ablation"), [(*case, WHOLE) for case in CASES] + ABLATIONS
)
def test_gradient_equals_autodiff_of_the_surrogate(make_agent, delta, inside, reduction, c, ablation):
    usual = {"gamma": 0.95, "retrace_lambda": 0.9, "entropy_weight": 0.3, "critic_weight": 0.7, "reward_clip": 1.5}
    agent = make_agent(
        importance_truncation=c,
        trust_region_delta=delta,
        entropy_in_trust_region=inside,
        reduction=reduction,
        **{**usual, **ablation},
    )
    trajectory = oracles.random_trajectory(np.random.default_rng(1), 8, 12, ACTIONS, SIZE)
    gradients, _, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    for variable, ours, expected in zip(
        agent.network.trainable_variables, gradients, gradients_by_autodiff(agent, trajectory), strict=True
    ):
        expected = expected.numpy()
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5 * np.abs(expected).max(), err_msg=variable.path)


def linear(parameters, observation):
    """(logits, Q) from the flat parameter vector, in Keras' order."""
    sizes = np.cumsum([SIZE * ACTIONS, ACTIONS, SIZE * ACTIONS])
    w_policy, b_policy, w_q, b_q = np.split(parameters, sizes)
    w_policy, w_q = w_policy.reshape(SIZE, ACTIONS), w_q.reshape(SIZE, ACTIONS)
    return observation @ w_policy + b_policy, observation @ w_q + b_q


def gradients_by_finite_differences(agent, trajectory):
    h = agent.settings
    flat, flat_average = (
        np.concatenate([v.numpy().ravel() for v in network.trainable_variables]).astype(np.float64)
        for network in (agent.network, agent.average)
    )
    observation = trajectory.observation.astype(np.float64)
    rows = observation[:, :-1][trajectory.mask]
    logits, q = linear(flat, observation)
    rho, q_ret, value, q_rows, action = per_state(oracles.softmax(logits), q, trajectory, h)
    phi, average = oracles.softmax(linear(flat, rows)[0]), oracles.softmax(linear(flat_average, rows)[0])
    c = h.importance_truncation
    count = len(action)

    def row_objective(i, x, constant):
        """Eq. 9 as a function of the statistics x of state i, where `constant` are those in the weights."""
        correction = sum(
            max(0.0, 1 - c / rho[i, a]) * constant[a] * np.log(x[a]) * (q_rows[i, a] - value[i]) for a in range(ACTIONS)
        )
        return min(c, rho[i, action[i]]) * np.log(x[action[i]]) * (q_ret[i] - value[i]) + correction

    def entropy(x):
        return -np.sum(x * np.log(x))

    inside = h.entropy_weight if h.entropy_in_trust_region else 0.0
    g = [
        oracles.finite_differences(lambda x, i=i: row_objective(i, x, phi[i]) + inside * entropy(x), phi[i])
        for i in range(count)
    ]
    k = [
        oracles.finite_differences(lambda x, i=i: np.sum(average[i] * np.log(average[i] / x)), phi[i])
        for i in range(count)
    ]
    check_data(rho, action, np.array(g), np.array(k), h)
    z = [oracles.projection(g[i], k[i], h.trust_region_delta) for i in range(count)]

    def loss(parameters):
        logits, q = linear(parameters, rows)
        x = oracles.softmax(logits)
        policy = sum(z[i] @ x[i] + (h.entropy_weight - inside) * entropy(x[i]) for i in range(count))
        critic = 0.5 * np.sum((q_ret - q[np.arange(count), action]) ** 2)
        return weight_of(trajectory, h) * (h.critic_weight * critic - policy)

    return oracles.finite_differences(loss, flat)


@pytest.mark.parametrize(("delta", "inside", "reduction", "c"), [case for case in CASES if case[3] != 0.5])
def test_gradient_equals_finite_differences(make_agent, delta, inside, reduction, c):
    agent = make_agent(
        linear_network,
        scale=0.8,
        gamma=0.9,
        importance_truncation=c if np.isinf(c) else 2.0,
        trust_region_delta=delta,
        entropy_weight=0.2,
        entropy_in_trust_region=inside,
        critic_weight=0.5,
        reduction=reduction,
    )
    trajectory = oracles.random_trajectory(np.random.default_rng(1), 5, 6, ACTIONS, SIZE)
    gradients, _, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    ours = np.concatenate([np.ravel(g) for g in gradients])
    np.testing.assert_allclose(ours, gradients_by_finite_differences(agent, trajectory), rtol=1e-3, atol=1e-4)
