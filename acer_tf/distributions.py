"""The policy distributions f(·|φ), on TensorFlow Probability, with their gradients in the statistics φ (paper, §3.3).

The paper projects in φ, so these gradients are needed by themselves, not only inside a loss. They are written in closed
form; tests compare each with autodiff through TensorFlow Probability.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow_probability as tfp

# Smallest probability that is divided by. A softmax in float32 can underflow to 0, where 1/φ is infinite; above the
# floor every formula is exact.
PROBABILITY_FLOOR = 1e-6


class Categorical:
    """f(·|φ) = φ: a categorical over A actions whose statistics are the probability vector itself, not logits.

    Args:
        probabilities: [..., A] float, each row on the simplex.
    """

    def __init__(self, probabilities: tf.Tensor) -> None:
        self.statistics = probabilities
        self._distribution = tfp.distributions.Categorical(probs=probabilities)

    def sample(self, seed: tf.Tensor) -> tf.Tensor:
        """[...] int32 actions; `seed` is an int32 [2] tensor: the same seed draws the same actions."""
        return self._distribution.sample(seed=seed)

    def mode(self) -> tf.Tensor:
        """[...] int32: the most probable action, the first of equals."""
        return self._distribution.mode()

    def density(self, action: tf.Tensor) -> tf.Tensor:
        """[...] f(a|φ) of int `action` [...]."""
        return tf.gather(self.statistics, action, axis=-1, batch_dims=action.shape.rank)

    def score(self, action: tf.Tensor) -> tf.Tensor:
        """[..., A] ∇_φ log f(a|φ) = e_a / φ_a of int `action` [...]."""
        return tf.one_hot(action, self.statistics.shape[-1], dtype=self.statistics.dtype) / self._floored()

    def entropy(self) -> tf.Tensor:
        """[...] H[f(·|φ)] in nats."""
        return self._distribution.entropy()

    def entropy_gradient(self) -> tf.Tensor:
        """[..., A] ∇_φ H = −(log φ + 1). Its constant drops out behind a softmax, but not in a projection."""
        return -(tf.math.log(self._floored()) + 1.0)

    def kl_from(self, average: Categorical) -> tf.Tensor:
        """[...] KL[f(·|φ_a) ‖ f(·|φ)], with φ_a the statistics of `average`; finite where φ underflowed to 0."""
        phi_a = average.statistics
        return tf.reduce_sum(tf.math.xlogy(phi_a, phi_a) - phi_a * tf.math.log(self._floored()), axis=-1)

    def kl_gradient(self, average: Categorical) -> tf.Tensor:
        """[..., A] k = ∇_φ KL[f(·|φ_a) ‖ f(·|φ)] = −φ_a / φ (§3.3)."""
        return -average.statistics / self._floored()

    def _floored(self) -> tf.Tensor:
        return tf.maximum(self.statistics, tf.cast(PROBABILITY_FLOOR, self.statistics.dtype))
