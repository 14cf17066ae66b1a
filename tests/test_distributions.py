"""The categorical and its closed-form gradients in φ against autodiff, and against TensorFlow Probability."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from acer_tf.distributions import PROBABILITY_FLOOR, Categorical
from tests import oracles

LOGITS = np.random.default_rng(0).normal(scale=2.0, size=[2, 3, 4])
AVERAGE = np.random.default_rng(1).dirichlet(np.ones(4), size=[2, 3])
ACTION = tf.constant([[0, 1, 2], [3, 3, 0]])

# name: (closed form in φ, the function by definition, the same function by TensorFlow Probability)
GRADIENTS = {
    "score": (
        lambda policy: policy.score(ACTION),
        lambda phi: tf.math.log(tf.gather(phi, ACTION, batch_dims=2)),
        lambda policy: policy.log_prob(ACTION),
    ),
    "entropy_gradient": (
        lambda policy: policy.entropy_gradient(),
        lambda phi: -tf.reduce_sum(phi * tf.math.log(phi), axis=-1),
        lambda policy: policy.entropy(),
    ),
    "kl_gradient": (
        lambda policy: policy.kl_gradient(Categorical(tf.constant(AVERAGE))),
        lambda phi: tf.reduce_sum(AVERAGE * tf.math.log(AVERAGE / phi), axis=-1),
        lambda policy: tfp.distributions.Categorical(probs=AVERAGE).kl_divergence(policy),
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_in_phi_is_that_of_the_definition(name):
    closed_form, definition, _ = GRADIENTS[name]
    phi = tf.constant(oracles.softmax(LOGITS))
    with tf.GradientTape() as tape:
        tape.watch(phi)
        function = definition(phi)
    np.testing.assert_allclose(closed_form(Categorical(phi)), tape.gradient(function, phi), rtol=1e-12)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_through_a_softmax_is_that_of_tensorflow_probability(name):
    closed_form, _, by_library = GRADIENTS[name]
    logits = tf.constant(LOGITS)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        phi = tf.nn.softmax(logits)
        function = by_library(tfp.distributions.Categorical(probs=phi))
    ours = tape.gradient(phi, logits, output_gradients=closed_form(Categorical(phi)))
    np.testing.assert_allclose(ours, tape.gradient(function, logits), rtol=1e-10, atol=1e-12)


def test_values_are_those_of_tensorflow_probability():
    phi = oracles.softmax(LOGITS)
    ours, library = Categorical(tf.constant(phi)), tfp.distributions.Categorical(probs=phi)
    average = tfp.distributions.Categorical(probs=AVERAGE)
    np.testing.assert_allclose(ours.density(ACTION), library.prob(ACTION), rtol=1e-12)
    np.testing.assert_allclose(ours.density(ACTION)[1, 0], phi[1, 0, 3])
    np.testing.assert_allclose(ours.entropy(), library.entropy(), rtol=1e-12)
    np.testing.assert_allclose(ours.kl_from(Categorical(tf.constant(AVERAGE))), average.kl_divergence(library))
    np.testing.assert_allclose(ours.kl_from(ours), np.zeros([2, 3]), atol=1e-15)
    np.testing.assert_array_equal(ours.statistics, phi)


def test_kl_is_from_the_average_to_the_current_policy():
    current, average = Categorical(tf.constant([[0.5, 0.5]])), Categorical(tf.constant([[1.0, 0.0]]))
    np.testing.assert_allclose(current.kl_from(average), [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(current.kl_gradient(average), [[-2.0, 0.0]])


def test_samples_follow_the_seed_and_the_probabilities():
    phi = np.array([0.5, 0.0, 0.2, 0.3], np.float32)
    policy = Categorical(tf.constant(np.tile(phi, [40_000, 1])))
    actions = policy.sample(tf.constant([1, 2])).numpy()
    assert actions.dtype == np.int32
    np.testing.assert_array_equal(actions, policy.sample(tf.constant([1, 2])))
    np.testing.assert_array_equal(actions, tf.function(policy.sample)(tf.constant([1, 2])))
    for seed in ([1, 3], [2, 2]):
        assert 0.5 < (actions != policy.sample(tf.constant(seed)).numpy()).mean() < 0.75  # 1 − Σ φ² = 0.62
    # Five standard errors; an action of probability 0 is never drawn.
    frequency = np.bincount(actions, minlength=4) / len(actions)
    np.testing.assert_allclose(frequency, phi, atol=5 * np.sqrt(0.25 / len(actions)))
    assert frequency[1] == 0


def test_an_underflowed_probability_leaves_everything_finite():
    phi = tf.nn.softmax(tf.constant([[0.0, -200.0, -20.0]]))
    assert phi[0, 1] == 0.0
    assert 0 < phi[0, 2] < PROBABILITY_FLOOR
    policy, average = Categorical(phi), Categorical(tf.constant([[0.2, 0.5, 0.3]]))
    floor = PROBABILITY_FLOOR
    np.testing.assert_allclose(policy.score(tf.constant([1])), [[0.0, 1 / floor, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(policy.kl_gradient(average), [[-0.2, -0.5 / floor, -0.3 / floor]], rtol=1e-5)
    np.testing.assert_allclose(policy.entropy_gradient(), [[-1.0, -np.log(floor) - 1, -np.log(floor) - 1]], rtol=1e-5)
    for diagnostic in (policy.entropy(), policy.kl_from(average), average.kl_from(policy)):
        assert np.isfinite(diagnostic).all()
    np.testing.assert_allclose(average.kl_from(policy), [np.log(5)], rtol=1e-4)


def test_probabilities_above_the_floor_are_not_touched_by_it():
    phi = tf.constant([[1 - 3e-6, 3e-6]], tf.float64)
    np.testing.assert_allclose(Categorical(phi).score(tf.constant([1])), [[0.0, 1 / 3e-6]], rtol=1e-12)
