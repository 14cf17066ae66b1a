"""RMSProp's first steps, computed by hand."""

import keras
import numpy as np
import pytest

from acer_tf.agents.optimizer import rmsprop


@pytest.mark.parametrize("accumulator", [0.0, 1.0])
@pytest.mark.parametrize(("decay", "epsilon"), [(0.99, 1e-5), (0.9, 0.1)])
def test_first_two_steps(accumulator, decay, epsilon):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(3, bias_initializer="ones")(inputs))
    optimizer = rmsprop(model, learning_rate=0.01, decay=decay, epsilon=epsilon, initial_accumulator=accumulator)
    theta = [w.astype(np.float64) for w in model.get_weights()]
    velocity = [np.full_like(w, accumulator) for w in theta]
    rng = np.random.default_rng(0)
    for _ in range(2):
        gradients = [rng.normal(scale=0.1, size=w.shape) for w in theta]
        optimizer.apply([keras.ops.convert_to_tensor(g, "float32") for g in gradients], model.trainable_variables)
        for i, g in enumerate(gradients):
            velocity[i] = decay * velocity[i] + (1 - decay) * g**2
            theta[i] = theta[i] - 0.01 * g / np.sqrt(velocity[i] + epsilon)
        for variable, expected in zip(model.get_weights(), theta, strict=True):
            np.testing.assert_allclose(variable, expected, rtol=1e-5, atol=1e-7)


def test_slots_exist_from_the_start_and_only_the_accumulators_are_filled():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    optimizer = rmsprop(model, learning_rate=0.01, decay=0.9, epsilon=0.1, initial_accumulator=1.0)
    slots = {v.path.rsplit("/", 1)[-1]: v.numpy() for v in optimizer.variables}
    assert len(slots) == len(optimizer.variables) == 4
    assert slots.pop("iteration") == 0
    assert slots.pop("learning_rate") == pytest.approx(0.01)
    assert sorted(v.shape for v in slots.values()) == [(2, 3), (3,)]
    assert all((v == 1).all() and v.dtype == np.float32 for v in slots.values())
