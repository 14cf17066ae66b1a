"""The average policy network against its closed form."""

import keras
import numpy as np
import pytest

from acer_tf.agents.agent import update_average


def model(seed):
    inputs = keras.Input((3,))
    normal = keras.initializers.RandomNormal(seed=seed)
    return keras.Model(inputs, keras.layers.Dense(4, kernel_initializer=normal, bias_initializer=normal)(inputs))


def weights(of):
    return [w.astype(np.float64) for w in of.get_weights()]


@pytest.mark.parametrize(("decay", "steps"), [(0.99, 1), (0.99, 100), (0.5, 3), (0.0, 1)])
def test_constant_weights_are_approached_by_the_power_of_the_decay(decay, steps):
    average, online = model(0), model(1)
    start, goal = weights(average), weights(online)
    for _ in range(steps):
        update_average(average, online, decay)
    for now, a, b in zip(weights(average), start, goal, strict=True):
        np.testing.assert_allclose(now, b + decay**steps * (a - b), rtol=1e-5, atol=1e-7)
    for now, b in zip(weights(online), goal, strict=True):
        np.testing.assert_array_equal(now, b)


def test_models_of_another_architecture_are_refused():
    inputs = keras.Input((3,))
    deeper = keras.Model(inputs, keras.layers.Dense(4)(keras.layers.Dense(4)(inputs)))
    with pytest.raises(ValueError, match=r"zip\(\)"):
        update_average(model(0), deeper, 0.9)
