"""The average policy network against its closed form."""

import keras
import numpy as np
import pytest

from acer_tf.networks.averaging import copy_weights, update_average


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


def test_copy_is_exact_and_not_shared():
    average, online = model(0), model(1)
    copy_weights(online, average)
    for a, b in zip(weights(average), weights(online), strict=True):
        np.testing.assert_array_equal(a, b)
    online.trainable_variables[0].assign_add(np.ones([3, 4]))
    np.testing.assert_allclose(average.get_weights()[0] + 1, online.get_weights()[0], rtol=1e-6)


def test_models_of_another_shape_are_refused():
    inputs = keras.Input((3,))
    other = keras.Model(inputs, keras.layers.Dense(5)(inputs))
    with pytest.raises(ValueError, match="shape"):
        copy_weights(other, model(0))
    deeper = keras.Model(inputs, keras.layers.Dense(4)(keras.layers.Dense(4)(inputs)))
    with pytest.raises(ValueError, match=r"zip\(\)"):
        update_average(model(0), deeper, 0.9)
