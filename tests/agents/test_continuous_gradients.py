"""The continuous updates, compared with float64 autodiff of surrogate losses through a hand-written network.

The network is feed-forward, or has an LSTM after each torso, whose rows begin with a burn-in.

g and k are by autodiff through TensorFlow Probability, the projection and the returns by tests/oracles.py.
"""

import itertools

import numpy as np
import optree
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from acer_tf.agents.acer_continuous import AcerContinuous
from acer_tf.agents.actor_critic import ActorCritic
from acer_tf.distributions import Gaussian
from acer_tf.types import RecurrentContext
from tests import oracles

STD, SIZE, DIMENSION = 0.3, 4, 2
UNITS, BURN_IN = 6, 3


def trajectory_of(seed=1, batch=6, rows=8, state_size=0):
    """With a state, the windows have burn-ins, with every kind of boundary there too."""
    rng = np.random.default_rng(seed)
    if not state_size:
        return oracles.random_continuous_trajectory(rng, batch, rows, DIMENSION, SIZE)
    whole = oracles.random_continuous_trajectory(rng, batch, BURN_IN + rows, DIMENSION, SIZE)
    carry = np.concatenate([np.ones((batch, 1), bool), whole.mask], axis=1)
    state = rng.normal(scale=0.5, size=(batch, state_size)).astype(np.float32)
    acted = {name: getattr(whole, name)[:, BURN_IN:] for name in ("action", "reward", "discount", "mask", "behaviour")}
    return whole._replace(**acted, memory=RecurrentContext(state, carry))


def weights_of(model):
    """Float64 tensors by their names: "dense1/kernel"."""
    return {v.path: tf.constant(v.numpy(), tf.float64) for v in model.trainable_variables}


def layer(w, name, x):
    y = x @ w[f"{name}/kernel"]
    return y + w[f"{name}/bias"] if f"{name}/bias" in w else y


def remembered(w, name, x, state, carry):
    """[B, T+1, units] of an LSTM over rows [B, W+T+1, F], gate by gate in Keras's order.

    No gradient flows through the burn-in.
    """
    cell = f"{name}/lstm_cell"
    h, c = np.split(state.astype(np.float64), 2, axis=1)
    outputs = []
    for row in range(x.shape[1]):
        keep = carry[:, row, None].astype(np.float64)
        h, c = h * keep, c * keep
        if row == BURN_IN:
            h, c = tf.stop_gradient(h), tf.stop_gradient(c)
        gates = x[:, row] @ w[f"{cell}/kernel"] + h @ w[f"{cell}/recurrent_kernel"] + w[f"{cell}/bias"]
        i, f, g, o = (gates[:, UNITS * n : UNITS * (n + 1)] for n in range(4))
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return tf.stack(outputs[BURN_IN:], axis=1)


def network(w, trajectory):
    """(mean, V, features) of the windows' T+1 observations."""

    def torso(first):
        return tf.tanh(layer(w, f"{first}dense2", tf.tanh(layer(w, f"{first}dense1", observation))))

    observation = tf.constant(trajectory.observation, tf.float64)
    features = of_policy = torso("")
    apart = "policy_torso/dense1/kernel" in w
    if apart:
        of_policy = torso("policy_torso/")
    if trajectory.memory is not None:
        state, carry = trajectory.memory
        own = np.split(state, 2, axis=1) if apart else [state]
        features = of_policy = remembered(w, "lstm", features, own[0], carry)
        if apart:
            of_policy = remembered(w, "policy_lstm", torso("policy_torso/"), own[1], carry)
    return layer(w, "mean", of_policy), layer(w, "value", features)[..., 0], features


def of_actions(w, observation, features, actions, dueling):
    """A(x, a), or Q(x, a), [..., m] of actions [..., m, d]."""
    state = features if dueling else tf.tanh(layer(w, "critic_torso", observation))
    hidden = tf.tanh(layer(w, "critic_state", state)[..., None, :] + layer(w, "critic_action", actions))
    return layer(w, "critic", hidden)[..., 0]


def autodiff_in_mean(function, mean):
    with tf.GradientTape() as tape:
        tape.watch(mean)
        value = function(tfp.distributions.MultivariateNormalDiag(mean, tf.fill([DIMENSION], tf.cast(STD, tf.float64))))
    return tape.gradient(value, mean).numpy()


def projected(phi, average, objective, delta):
    """[B, T, d] z*; without a trust region g itself."""
    mean = tf.constant(phi)
    g = autodiff_in_mean(objective, mean)
    if not np.isfinite(delta):
        return g
    other = tfp.distributions.MultivariateNormalDiag(
        tf.constant(average), tf.fill([DIMENSION], tf.cast(STD, tf.float64))
    )
    k = autodiff_in_mean(lambda policy: tf.reduce_sum(other.kl_divergence(policy)), mean)
    bound = np.sum(k * g, axis=-1) > delta
    assert 0.1 < bound.mean() < 0.9, "states on both sides of the constraint"
    return np.array(
        [[oracles.projection(a, b, delta) for a, b in zip(*rows, strict=True)] for rows in zip(g, k, strict=True)]
    )


def check(agent, trajectory, expected):
    gradients, diagnostics, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    assert np.isfinite([d.numpy() for d in diagnostics.values()]).all()
    for variable, ours in zip(agent.network.trainable_variables, gradients, strict=True):
        theirs = expected[variable.path].numpy()
        np.testing.assert_allclose(
            ours, theirs, rtol=2e-3, atol=5e-5 * max(np.abs(theirs).max(), 1e-2), err_msg=variable.path
        )


@pytest.mark.parametrize(
    ("delta", "c", "reduction", "dueling", "retrace", "shared_torso", "lstm_units", "corrected"),
    [
        *itertools.product([2.0, np.inf], [1.5, np.inf], ["mean", "sum"], [True], [True], [True], [0], [True]),
        (2.0, 1.5, "mean", False, True, True, 0, True),
        (2.0, 1.5, "mean", True, False, True, 0, True),
        (2.0, 1.5, "mean", False, False, True, 0, True),
        (2.0, 1.5, "mean", True, True, False, 0, True),
        (2.0, 1.5, "mean", False, True, False, 0, True),
        (2.0, 1.5, "mean", True, True, True, 0, False),
        (0.3, 1.5, "mean", True, True, True, UNITS, True),
        (0.3, 1.5, "mean", True, True, False, UNITS, True),
        (0.3, 1.5, "mean", False, True, False, UNITS, True),
    ],
)
def test_continuous_acer_equals_autodiff_of_the_surrogate(
    make_continuous, delta, c, reduction, dueling, retrace, shared_torso, lstm_units, corrected
):
    agent = make_continuous(
        AcerContinuous,
        critic="dueling" if dueling else "separate",
        shared_torso=shared_torso,
        lstm_units=lstm_units,
        gamma=0.95,
        importance_truncation=c,
        trust_region_delta=delta,
        critic_weight=0.7,
        reduction=reduction,
        reward_clip=1.5,
        advantage_samples=3,
        dueling=dueling,
        retrace=retrace,
        bias_correction=corrected,
    )
    trajectory = trajectory_of(state_size=agent.network.state_size)
    m, a, mu = trajectory.mask, trajectory.action.astype(np.float64), trajectory.behaviour.astype(np.float64)
    w, observation = weights_of(agent.network), tf.constant(trajectory.observation[:, -m.shape[1] - 1 :], tf.float64)
    phi, values, _ = (x.numpy() for x in network(w, trajectory))
    phi, value = phi[:, :-1], values[:, :-1]
    average = network(weights_of(agent.average), trajectory)[0].numpy()[:, :-1]

    # The agent's draws, which are data here.
    seeds = tf.random.experimental.stateless_split(tf.constant([0, 0]), 2)
    policy = Gaussian(tf.constant(phi, tf.float32), STD)
    drawn = policy.sample(seeds[0]).numpy().astype(np.float64)
    samples = list(policy.sample(seeds[1], 3).numpy().astype(np.float64)) if dueling else []
    actions = tf.constant(np.stack([a, drawn, *samples], axis=2))

    def q_of(w):
        _, v, features = network(w, trajectory)
        v, features = v[:, :-1], features[:, :-1]
        x = of_actions(w, observation[:, :-1], features, actions, dueling)
        return v[..., None] + x[..., :2] - tf.reduce_mean(x[..., 2:], axis=-1)[..., None] if dueling else x[..., :2]

    q, q_drawn = np.moveaxis(q_of(w).numpy(), -1, 0)
    rho, rho_drawn = (
        np.exp(oracles.gaussian_log_density(x, phi, STD) - oracles.gaussian_log_density(x, mu, STD)) for x in (a, drawn)
    )
    assert (rho[m] < 1).any() and (rho[m] > 1.5).any() and (rho_drawn[m] > 1.5).any()
    row = (np.clip(trajectory.reward, -1.5, 1.5), trajectory.discount, m)
    if retrace:
        trace = np.minimum(1, rho ** (1 / DIMENSION))
        q_ret = oracles.off_policy_return(*row, q, value, values[:, -1], trace, gamma=0.95)
        q_opc = oracles.off_policy_return(*row, q, value, values[:, -1], np.ones_like(q), gamma=0.95)
    else:
        q_ret = q_opc = oracles.importance_sampled_return(*row, value, values[:, -1], rho, gamma=0.95)

    truncated = m * np.minimum(c, rho) * (q_opc - value)
    correction = corrected * m * np.maximum(0, 1 - c / rho_drawn) * (q_drawn - value)
    z = projected(
        phi,
        average,
        lambda f: tf.reduce_sum(truncated * f.log_prob(a) + correction * f.log_prob(drawn)),
        delta,
    )
    value_target = np.minimum(1, rho) * (q_ret - q) + value if dueling else rho * (q_ret - value) + value
    with tf.GradientTape() as tape:
        tape.watch(w)
        mean, v = (x[:, :-1] for x in network(w, trajectory)[:2])
        critic = 0.5 * (q_ret - q_of(w)[..., 0]) ** 2 + 0.5 * (value_target - v) ** 2
        loss = tf.reduce_sum(tf.boolean_mask(0.7 * critic - tf.reduce_sum(z * mean, axis=-1), m))
        loss /= m.sum() if reduction == "mean" else len(m)
    check(agent, trajectory, tape.gradient(loss, w))


@pytest.mark.parametrize(
    ("delta", "weights", "reduction", "shared_torso", "lstm_units"),
    [
        *itertools.product([0.3, np.inf], [True, False], ["mean", "sum"], [True], [0]),
        (0.3, True, "mean", False, 0),
        (0.05, True, "mean", True, UNITS),
        (0.05, True, "mean", False, UNITS),
    ],
)
def test_a3c_and_tis_equal_autodiff_of_their_surrogate(
    make_continuous, delta, weights, reduction, shared_torso, lstm_units
):
    agent = make_continuous(
        ActorCritic,
        critic="none",
        shared_torso=shared_torso,
        lstm_units=lstm_units,
        gamma=0.95,
        importance_truncation=2.0,
        trajectory_weights=weights,
        trust_region_delta=delta,
        critic_weight=0.7,
        reduction=reduction,
    )
    trajectory = trajectory_of(seed=5, state_size=agent.network.state_size)
    m, a, mu = trajectory.mask, trajectory.action.astype(np.float64), trajectory.behaviour.astype(np.float64)
    w = weights_of(agent.network)
    phi, values, _ = (x.numpy() for x in network(w, trajectory))
    phi, value = phi[:, :-1], values[:, :-1]
    average = network(weights_of(agent.average), trajectory)[0].numpy()[:, :-1]
    rho = np.exp(oracles.gaussian_log_density(a, phi, STD) - oracles.gaussian_log_density(a, mu, STD))
    weight = oracles.trajectory_weight(rho, trajectory.discount, m, 2.0) if weights else np.ones_like(rho)
    assert not weights or ((weight[m] == 2.0).any() and (weight[m] < 1).any())
    # With ρ = 1, the importance-sampled return is the multi-step return.
    returns = oracles.importance_sampled_return(
        trajectory.reward, trajectory.discount, m, value, values[:, -1], np.ones_like(rho), gamma=0.95
    )
    advantage = m * weight * (returns - value)
    z = projected(phi, average, lambda f: tf.reduce_sum(advantage * f.log_prob(a)), delta)
    with tf.GradientTape() as tape:
        tape.watch(w)
        mean, v = (x[:, :-1] for x in network(w, trajectory)[:2])
        loss = 0.7 * weight * 0.5 * (returns - v) ** 2 - tf.reduce_sum(z * mean, axis=-1)
        loss = tf.reduce_sum(tf.boolean_mask(loss, m)) / (m.sum() if reduction == "mean" else len(m))
    check(agent, trajectory, tape.gradient(loss, w))


ABLATIONS = {
    "trust region": {"trust_region_delta": np.inf},
    "truncation": {"importance_truncation": np.inf},
    "retrace": {"retrace": False},
    "bias correction": {"bias_correction": False},
}


def acer(make_continuous, **given):
    critic = "dueling" if given.get("dueling", True) else "separate"
    options = {"importance_truncation": 1.5, "trust_region_delta": 1.0, **given}
    return make_continuous(AcerContinuous, critic=critic, **options)


def by_part(agent, trajectory):
    """Gradients of the kernels of the "policy", "value" and "critic" heads; that of A's bias is 0, but for rounding."""
    gradients, _, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    paths = [v.path.split("/")[-2:] for v in agent.network.trainable_variables]
    named = {layer: g.numpy() for (layer, name), g in zip(paths, gradients, strict=True) if name == "kernel"}
    return {"policy": named["mean"], "value": named["value"], "critic": named["critic"]}


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("trust region", {"policy"}),
        ("truncation", {"policy"}),
        ("retrace", {"policy", "value", "critic"}),
        ("bias correction", {"policy"}),
    ],
)
def test_each_ablation_changes_only_the_gradients_that_it_should(make_continuous, name, moved):
    whole, without = (by_part(acer(make_continuous, **given), trajectory_of()) for given in ({}, ABLATIONS[name]))
    assert {part for part in whole if not np.array_equal(whole[part], without[part])} == moved


def test_without_the_dueling_network_the_error_of_v_depends_on_the_separate_critic(make_continuous):
    trajectory = trajectory_of()
    agent = acer(make_continuous, dueling=False, trust_region_delta=np.inf)
    before = by_part(agent, trajectory)
    # V's error is ρ (Q_ret − V), where Q_ret depends on Q.
    assert "critic_torso" in {v.path.split("/")[-2] for v in agent.network.trainable_variables}
    for variable in agent.network.trainable_variables:
        if variable.path.split("/")[-2].startswith("critic"):
            variable.assign(np.zeros(variable.shape))
    assert not np.array_equal(by_part(agent, trajectory)["value"], before["value"])


@pytest.mark.parametrize("part", ["policy", "critic"])
def test_the_critic_has_no_gradient_in_the_policys_head_and_the_policy_none_in_the_critics(make_continuous, part):
    with_critic, without = (by_part(acer(make_continuous, critic_weight=w), trajectory_of()) for w in (1.0, 0.0))
    assert np.array_equal(with_critic["policy"], without["policy"])
    assert not without["critic"].any() and not without["value"].any()
