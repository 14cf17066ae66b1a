"""DQN's and Double DQN's update, exploration and target network."""

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf.agents.dqn import Dqn
from acer_tf.agents.optimizer import RMSProp
from acer_tf.networks.discrete import Network
from acer_tf.types import EnvironmentSpec, Trajectory
from tests.agents.conftest import settings_of

SPEC = EnvironmentSpec((4,), "float32", stack=1, num_actions=3)
FRAMES = EnvironmentSpec((4, 36, 36), "uint8", stack=4, num_actions=3, observation_scale=255.0)
BATCH = 32


def agent_of(spec=SPEC, seed=0, shared_bias=True, **given):
    rng = np.random.default_rng(seed)
    architecture = "nature" if spec.stack > 1 else "mlp"
    networks = [
        Network(spec, architecture=architecture, policy="epsilon_greedy", shared_bias=shared_bias) for _ in range(2)
    ]
    optimizer = RMSProp(1e-2, rho=0.9, epsilon=1e-3, initial_accumulator=0.0, centered=True)
    given = {"max_gradient_norm": np.inf} | given
    agent = Dqn(*networks, optimizer, settings_of(Dqn, **given))
    for network in networks:
        for variable in network.trainable_variables:
            variable.assign(0.4 * rng.normal(size=variable.shape) / max(1.0, np.prod(variable.shape[:-1]) / 20) ** 0.5)
    return agent


def transitions(seed=0, spec=SPEC):
    rng = np.random.default_rng(seed)
    shape = (BATCH, spec.stack + 1, *spec.frame_shape)
    if spec.stack > 1:
        observation = rng.integers(0, 256, shape).astype(np.uint8)
        age = np.minimum(rng.integers(0, 9, (BATCH, 1)) + np.arange(2), spec.stack - 1).astype(np.uint8)
    else:
        observation, age = rng.normal(size=shape).astype(np.float32), np.zeros((BATCH, 2), np.uint8)
    return Trajectory(
        observation,
        age,
        rng.integers(0, 3, (BATCH, 1)).astype(np.int32),
        rng.normal(0, 2, (BATCH, 1)).astype(np.float32),
        (rng.random((BATCH, 1)) < 0.7).astype(np.float32),
        np.ones((BATCH, 1), bool),
        np.full((BATCH, 1, 3), 1 / 3, np.float32),
    )


def stacks(t):
    """The observations [B, 2, S, H, W], or [B, 2, D]."""
    if t.observation.ndim == 3:
        return t.observation
    shown = np.stack([t.observation[:, :4], t.observation[:, 1:]], axis=1).copy()
    for b in range(BATCH):
        for row in range(2):
            for plane in range(4):
                if 3 - plane > t.age[b, row]:
                    shown[b, row, plane] = 0
    return shown


def delta_of(agent, t, *, double, gamma=0.99, clip=np.inf):
    """Schaul et al. 2016, Algorithm 1, line 11, for one transition at a time."""
    shown = tf.constant(stacks(t))
    q = agent.network(shown[:, 0])[1].numpy()
    online, target = (n(shown[:, 1])[1].numpy() for n in (agent.network, agent.average))
    delta = np.zeros(BATCH)
    for b in range(BATCH):
        best = np.argmax((online if double else target)[b])
        bootstrap = gamma * target[b, best] if t.discount[b, 0] else 0.0
        delta[b] = np.clip(t.reward[b, 0], -clip, clip) + bootstrap - q[b, t.action[b, 0]]
    return delta


@pytest.mark.parametrize("spec", [SPEC, FRAMES], ids=["vectors", "frames"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("error_clip", [1.0, np.inf])
def test_the_gradient_is_that_of_the_huber_loss(spec, double, error_clip):
    agent = agent_of(spec, double_q=double, error_clip=error_clip, reward_clip=1.5, critic_weight=0.7)
    t, weight = transitions(spec=spec), np.random.default_rng(1).random(BATCH).astype(np.float32)
    delta = delta_of(agent, t, double=double, clip=1.5)
    assert (np.abs(delta) > 1).any() and (np.abs(delta) < 1).any()
    gradients, _, errors = agent.parameter_gradients(optree.tree_map(tf.constant, t), tf.constant(weight))
    np.testing.assert_allclose(errors, np.abs(delta), rtol=1e-4, atol=1e-5)
    with tf.GradientTape() as tape:
        q = tf.gather(agent.network(tf.constant(stacks(t)[:, 0]))[1], t.action[:, 0], batch_dims=1)
        error = tf.stop_gradient(q + delta.astype(np.float32)) - q
        size = tf.abs(error)
        bound = min(error_clip, 1e6)  # infinity times 0 is NaN
        loss = tf.where(size < bound, 0.5 * error**2, bound * size - 0.5 * bound**2)
        loss = 0.7 * tf.reduce_mean(weight * loss)
    expected = tape.gradient(loss, agent.network.trainable_variables)
    for got, want in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-5)


def test_double_dqn_changes_the_choice_of_the_next_action():
    t = transitions()
    plain, double = (agent_of(double_q=double) for double in (False, True))
    difference = delta_of(plain, t, double=True) - delta_of(plain, t, double=False)
    assert (np.abs(difference) > 1e-3).sum() > 3 and (difference < 1e-6).all()  # the maximum is the larger one
    errors = [a.parameter_gradients(optree.tree_map(tf.constant, t))[2].numpy() for a in (plain, double)]
    assert not np.allclose(*errors)


def test_one_step_is_centred_rmsprop_on_that_gradient():
    agent, t = agent_of(), transitions()
    variables = agent.network.trainable_variables
    before = [v.numpy() for v in variables]
    gradients = [g.numpy() for g in agent.parameter_gradients(optree.tree_map(tf.constant, t))[0]]
    target = agent.average.get_weights()
    agent.update(t)
    for variable, start, g in zip(variables, before, gradients, strict=True):
        mean, square = 0.1 * g, 0.1 * g**2
        np.testing.assert_allclose(
            variable.numpy(), start - 1e-2 * g / np.sqrt(square - mean**2 + 1e-3), rtol=1e-4, atol=1e-6
        )
    for a, b in zip(agent.average.get_weights(), target, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_next_observation_after_an_end_is_not_read():
    agent, t = agent_of(), transitions()
    dirty = t.observation.copy()
    dirty[t.discount[:, 0] == 0, 1] = np.nan
    clean, spoilt = (
        agent.parameter_gradients(optree.tree_map(tf.constant, t._replace(observation=o)))
        for o in (t.observation, dirty)
    )
    for a, b in zip(clean[0], spoilt[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_target_network_is_a_copy_every_period():
    agent = agent_of(target_period=100)

    def copied():
        pairs = zip(agent.network.trainable_variables, agent.average.trainable_variables, strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    for steps, copies in [(0, False), (4, False), (99, False), (100, True), (104, True)]:
        agent.schedule(steps)
        assert copied() == copies, steps
    agent.update(transitions())
    for steps, copies in [(196, False), (203, True)]:
        agent.schedule(steps)
        assert copied() == copies, steps
    resumed = agent_of(target_period=100)
    resumed.schedule(250)  # the first call never copies: the target network was restored
    pairs = zip(resumed.network.trainable_variables, resumed.average.trainable_variables, strict=True)
    assert not all(np.array_equal(a, b) for a, b in pairs)


def test_epsilon_falls_from_1_after_the_start_and_then_stays_constant():
    agent = agent_of(exploration_final=0.1, exploration_steps=1000, replay_start=500)
    for steps, epsilon in [(0, 1.0), (500, 1.0), (1000, 0.55), (1500, 0.1), (9999, 0.1)]:
        agent.schedule(steps)
        probabilities, q, _ = (x.numpy() for x in agent.network(tf.constant(transitions().observation[:, 0])))
        np.testing.assert_allclose(probabilities.min(axis=1), epsilon / 3, rtol=1e-5)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
        if epsilon < 1:
            np.testing.assert_array_equal(probabilities.argmax(axis=1), q.argmax(axis=1))


def test_actions_follow_the_probabilities():
    agent = agent_of(exploration_final=0.4, exploration_steps=1)
    agent.schedule(10)
    observation = np.tile(transitions().observation[:1, 0], (20_000, 1))
    action, statistics, _ = agent.act(observation, np.array([0, 1], np.int32), np.zeros((len(observation), 0)))
    frequency = np.bincount(action, minlength=3) / len(action)
    np.testing.assert_allclose(frequency, statistics[0], atol=0.015)


@pytest.mark.parametrize("shared", [False, True])
def test_the_top_layer_has_one_bias_or_one_per_action(shared):
    network = Network(SPEC, architecture="mlp", policy="epsilon_greedy", shared_bias=shared)
    biases = [v for v in network.trainable_variables if v.path.endswith("bias")]
    assert sum(int(np.prod(v.shape)) for v in biases) == 64 + 64 + (1 if shared else 3)


def test_the_diagnostics_are_those_of_the_errors():
    agent, t = agent_of(error_clip=1.0), transitions()
    delta = delta_of(agent, t, double=True)
    t = t._replace(reward=t.reward - 3 * np.float32(delta.max()))  # so that the largest error is negative
    delta = delta_of(agent, t, double=True)
    assert np.abs(delta).max() > delta.max() and (delta < -1).any()
    _, found, _ = agent.parameter_gradients(optree.tree_map(tf.constant, t))
    wanted = {
        "td_error": np.abs(delta).mean(),
        "td_error_max": np.abs(delta).max(),
        "td_error_clipped": (np.abs(delta) > 1).mean(),
        "critic_loss": 0.5 * (delta**2).mean(),
    }
    assert {name: float(found[name]) for name in wanted} == pytest.approx(wanted, rel=1e-4)
