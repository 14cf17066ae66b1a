"""RMSProp as public A3Cs and ACERs use it."""

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

    The initial v matters for the first steps. With decay 0.99 and a small ε, the first step moves a weight by about
    10·learning_rate from v = 0 (Keras, Torch), whatever g is, and by learning_rate·g from v = 1 (TensorFlow 1, OpenAI
    baselines).

    Args:
        model: its trainable variables are optimised; slots are made at once, so that they can be restored.
        initial_accumulator: v before the first step.
        centered: whether the square of the gradient's running mean is subtracted from v under the root (DQN).
    """
    # By default Keras numbers the optimizers of a process, and a checkpoint's variables would not be found by name.
    optimizer = keras.optimizers.RMSprop(learning_rate, rho=decay, epsilon=epsilon, centered=centered, name="rmsprop")
    optimizer.build(model.trainable_variables)
    for slot in optimizer.variables:
        if slot.path.endswith("_velocity"):
            slot.assign(tf.fill(slot.shape, initial_accumulator))
    return optimizer
