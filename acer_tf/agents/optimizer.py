"""The optimizers that `--optimizer` names, among them RMSProp as public A3Cs and ACERs use it."""

from typing import Any

import keras
import tensorflow as tf

from acer_tf.references import imported
from acer_tf.settings import Settings


@keras.saving.register_keras_serializable(package="acer_tf")
class RMSProp(keras.optimizers.RMSprop):
    """Keras's RMSProp with an initial mean square: v ← rho·v + (1 − rho)·g², θ ← θ − learning_rate·g / √(v + epsilon).

    The initial v matters for the first steps. With rho 0.99 and a small epsilon, the first step moves a weight by about
    10·learning_rate from v = 0 (Keras, Torch), whatever g is, and by learning_rate·g from v = 1 (TensorFlow 1, OpenAI
    baselines).

    Args:
        learning_rate: as in `keras.optimizers.RMSprop`, like the other arguments. With `centered` the square of the
            gradient's running mean is subtracted from v under the root (DQN).
        initial_accumulator: v before the first step.

    Raises:
        ValueError: `centered` with `momentum`.
    """

    def __init__(
        self, learning_rate: float = 0.001, *, initial_accumulator: float = 0.0, name: str = "rmsprop", **options: Any
    ) -> None:
        super().__init__(learning_rate, name=name, **options)
        if self.centered and self.momentum:
            raise ValueError(f"momentum={self.momentum}: must be 0 with centered=True")
        self.initial_accumulator = initial_accumulator

    def add_variable_from_reference(
        self, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Any:
        if name == "velocity":
            initializer = keras.initializers.Constant(self.initial_accumulator)
        return super().add_variable_from_reference(reference_variable, name, initializer)

    def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor) -> None:
        if not self.centered:
            super().update_step(gradient, variable, learning_rate)
            return
        index = self._get_variable_index(variable)
        square, mean = self._velocities[index], self._average_gradients[index]
        square.assign(self.rho * square + (1 - self.rho) * tf.square(gradient))
        mean.assign(self.rho * mean + (1 - self.rho) * gradient)
        # Where gradients hardly change, rounding makes this negative: Keras's step is NaN then.
        variance = tf.maximum(square - tf.square(mean), 0.0)
        variable.assign_sub(learning_rate * gradient / tf.sqrt(variance + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_accumulator": self.initial_accumulator}


def make_optimizer(settings: Settings) -> keras.optimizers.Optimizer:
    """A new optimizer, as `settings.optimizer` names it, at the learning rate of the run's start.

    Raises:
        ValueError: a user's cannot be imported or made, is no Keras optimizer, or accumulates gradients; or it has a
            schedule of its own where `settings.learning_rate_final` is given.
    """
    rate = settings.update_learning_rate
    if settings.optimizer == "rmsprop":
        return RMSProp(
            rate,
            rho=settings.update_rmsprop_decay,
            epsilon=settings.rmsprop_epsilon,
            initial_accumulator=settings.rmsprop_initial_accumulator,
            centered=settings.rmsprop_centered,
        )
    if settings.optimizer == "adam":
        return keras.optimizers.Adam(rate)
    make = imported(settings.optimizer)
    try:
        made = make(rate)
    except Exception as error:
        raise ValueError(f"called with the learning rate, it raised {type(error).__name__}: {error}") from error
    if not isinstance(made, keras.optimizers.Optimizer):
        raise ValueError(f"must give a keras.optimizers.Optimizer, got one of type {type(made).__name__}")
    if made.gradient_accumulation_steps:  # θ_a, and the draws of continuous ACER, would follow every update
        raise ValueError("accumulates gradients over several updates; give a longer --unroll_length or more --num_envs")
    if settings.learning_rate_final is not None and callable(made._learning_rate):
        raise ValueError("has a schedule of its own, beside that of --learning_rate_final")
    return made
