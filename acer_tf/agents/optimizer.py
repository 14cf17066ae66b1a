"""RMSProp as the field's A3C and ACER used it."""

from __future__ import annotations

import keras
import tensorflow as tf


def rmsprop(
    model: keras.Model,
    *,
    learning_rate: float,
    decay: float,
    epsilon: float,
    initial_accumulator: float,
    centered: bool = False,
) -> keras.optimizers.RMSprop:
    """RMSProp for `model`: v ← decay·v + (1 − decay)·g², θ ← θ − learning_rate·g / √(v + ε), ε inside the root.

    The accumulator's start decides the first steps: with decay 0.99 and a small ε, the first one moves a weight by
    about 10·learning_rate whatever g is from 0 (Keras, Torch), by learning_rate·g from 1 (TensorFlow 1, and so OpenAI
    baselines).

    Args:
        model: whose trainable variables it moves; its slots are made at once, so that they can be restored.
        initial_accumulator: v before the first step.
        centered: whether the square of the gradient's running mean is taken off v under the root (DQN).
    """
    # Without a name Keras numbers the optimizers of a process, and their variables could not be found by name again.
    optimizer = keras.optimizers.RMSprop(learning_rate, rho=decay, epsilon=epsilon, centered=centered, name="rmsprop")
    optimizer.build(model.trainable_variables)
    for slot in optimizer.variables:
        if slot.path.endswith("_velocity"):
            slot.assign(tf.fill(slot.shape, initial_accumulator))
    return optimizer
