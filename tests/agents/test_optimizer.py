"""RMSProp's first steps, computed by hand; saved with a model, and as a configuration."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.agents.optimizer import RMSProp


def model():
    inputs = keras.Input((2,))
    return keras.Model(inputs, keras.layers.Dense(3, bias_initializer="ones")(inputs))


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("accumulator", [0.0, 1.0])
@pytest.mark.parametrize(("decay", "epsilon"), [(0.99, 1e-5), (0.9, 0.1)])
def test_first_two_steps(accumulator, decay, epsilon, centered):
    variables = model().trainable_variables
    optimizer = RMSProp(0.01, rho=decay, epsilon=epsilon, initial_accumulator=accumulator, centered=centered)
    theta = [v.numpy().astype(np.float64) for v in variables]
    square, mean = [np.full_like(w, accumulator) for w in theta], [np.zeros_like(w) for w in theta]
    rng = np.random.default_rng(0)
    # `apply` builds the optimizer.
    step = tf.function(lambda gradients: optimizer.apply(gradients, variables), jit_compile=True)
    for _ in range(2):
        gradients = [rng.normal(scale=0.1, size=w.shape) for w in theta]
        step([tf.constant(g, tf.float32) for g in gradients])
        for i, g in enumerate(gradients):
            square[i] = decay * square[i] + (1 - decay) * g**2
            mean[i] = decay * mean[i] + (1 - decay) * g
            theta[i] -= 0.01 * g / np.sqrt(square[i] - centered * mean[i] ** 2 + epsilon)
        for variable, expected in zip(variables, theta, strict=True):
            np.testing.assert_allclose(variable, expected, rtol=1e-5, atol=1e-7)


def test_a_centred_step_is_finite_where_the_gradient_stays_the_same():
    variable = tf.Variable(tf.zeros(64))
    optimizer = RMSProp(1e-4, rho=0.95, epsilon=6e-7, centered=True)  # as in preset ddqn_proportional
    optimizer.build([variable])
    gradient = tf.constant(np.random.default_rng(0).uniform(1.5, 3, 64), tf.float32)

    @tf.function(jit_compile=False)  # with XLA Keras's step is finite too
    def train():
        for _ in tf.range(3_000):
            optimizer.apply_gradients([(gradient, variable)])

    train()
    assert np.isfinite(variable).all()


def test_momentum_with_a_centred_step_is_refused():
    with pytest.raises(ValueError, match="momentum=0.9: must be 0 with centered=True"):
        RMSProp(0.01, momentum=0.9, centered=True)


def test_slots_exist_once_built_and_only_the_mean_squares_are_filled():
    optimizer = RMSProp(0.01, rho=0.9, epsilon=0.1, initial_accumulator=1.0, centered=True)
    optimizer.build(model().trainable_variables)
    slots = {v.path.rsplit("/", 1)[-1]: v.numpy() for v in optimizer.variables}
    assert len(slots) == len(optimizer.variables) == 6
    assert slots.pop("iteration") == 0
    assert slots.pop("learning_rate") == pytest.approx(0.01)
    assert sorted(v.shape for v in slots.values()) == [(2, 3), (2, 3), (3,), (3,)]
    assert all((v == name.endswith("_velocity")).all() and v.dtype == np.float32 for name, v in slots.items())


def test_keras_saves_and_loads_it_with_a_model(tmp_path):
    trained = model()
    trained.compile(RMSProp(0.01, rho=0.8, epsilon=0.1, initial_accumulator=0.5, centered=True), loss="mse")
    trained.fit(np.ones((4, 2)), np.zeros((4, 3)), verbose=0)
    trained.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is RMSProp
    assert loaded.optimizer.get_config() == trained.optimizer.get_config()
    for ours, theirs in zip(loaded.optimizer.variables, trained.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
