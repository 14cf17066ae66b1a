"""The policy distributions f(·|φ), on TensorFlow Probability, with gradients in the statistics φ (paper, §3.3).

The paper projects gradients in φ, so they are needed explicitly. They are written in closed form; tests compare each
with autodiff.
"""

import tensorflow as tf
import tensorflow_probability as tfp

# The smallest divisor: a softmax in float32 can underflow to 0. Above this floor every formula is exact.
PROBABILITY_FLOOR = 1e-6


class Categorical:
    """f(·|φ) = φ: a categorical over A actions whose statistics are the probability vectors [..., A], not logits.

    `legal` [..., A] bool are the valid actions, None for all. The others have probability exactly 0, so that they add
    nothing to sums over actions; gradients in their φ are 0.
    """

    def __init__(self, probabilities: tf.Tensor, legal: tf.Tensor | None = None) -> None:
        self.statistics, self._legal = probabilities, legal
        self._distribution = tfp.distributions.Categorical(probs=probabilities)

    def sample(self, seed: tf.Tensor) -> tf.Tensor:
        """[...] int32 actions; the same `seed` ([2] int32) draws the same actions.

        With masks, they do not depend on how many actions there are that are not valid.
        """
        if self._legal is None:
            return self._distribution.sample(seed=seed)
        below = tf.cumsum(tf.cast(self.statistics, tf.float64), axis=-1)
        drawn = tf.random.stateless_uniform(tf.shape(below)[:-1], seed, dtype=tf.float64)[..., None] * below[..., -1:]
        # The first action whose cumulative probability exceeds the draw: never one of probability 0.
        return tf.argmax(tf.cast(drawn < below, tf.int32), axis=-1, output_type=tf.int32)

    def rows(self, at: tf.Tensor) -> "Categorical":
        """The distributions [M] at the indices `at` [M] of the first axis."""
        return Categorical(tf.gather(self.statistics, at), None if self._legal is None else tf.gather(self._legal, at))

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
        """[..., A] ∇_φ H = −(log φ + 1). The constant cancels in a softmax, but not in a projection."""
        gradient = -(tf.math.log(self._floored()) + 1.0)
        return gradient if self._legal is None else tf.where(self._legal, gradient, tf.zeros_like(gradient))

    def kl_from(self, average: "Categorical") -> tf.Tensor:
        """[...] KL[f(·|φ_a) ‖ f(·|φ)], with φ_a the statistics of `average`; finite where φ underflowed to 0."""
        phi_a = average.statistics
        return tf.reduce_sum(tf.math.xlogy(phi_a, phi_a) - phi_a * tf.math.log(self._floored()), axis=-1)

    def kl_gradient(self, average: "Categorical") -> tf.Tensor:
        """[..., A] k = ∇_φ KL[f(·|φ_a) ‖ f(·|φ)] = −φ_a / φ (§3.3)."""
        return -average.statistics / self._floored()

    def _floored(self) -> tf.Tensor:
        return tf.maximum(self.statistics, tf.cast(PROBABILITY_FLOOR, self.statistics.dtype))


class Gaussian:
    """f(·|φ): a Gaussian with mean φ [..., d] and a fixed standard deviation σ > 0 in every component (paper, §5)."""

    def __init__(self, mean: tf.Tensor, std: float) -> None:
        self.statistics = mean
        self._std, self._variance = std, std**2
        scale = tf.fill([mean.shape[-1]], tf.constant(std, mean.dtype))
        self._distribution = tfp.distributions.MultivariateNormalDiag(loc=mean, scale_diag=scale)

    def sample(self, seed: tf.Tensor, count: int | None = None) -> tf.Tensor:
        """[..., d] or [count, ..., d] actions; the same `seed` ([2] int32) draws the same actions.

        No gradient flows through the samples into the mean.
        """
        return tf.stop_gradient(self._distribution.sample(() if count is None else count, seed=seed))

    def rows(self, at: tf.Tensor) -> "Gaussian":
        """The distributions [M] at the indices `at` [M] of the first axis."""
        return Gaussian(tf.gather(self.statistics, at), self._std)

    def log_density(self, action: tf.Tensor) -> tf.Tensor:
        """[...] log f(a|φ) of `action` [..., d]."""
        return self._distribution.log_prob(action)

    def score(self, action: tf.Tensor) -> tf.Tensor:
        """[..., d] ∇_φ log f(a|φ) = (a − φ) / σ² of `action` [..., d]."""
        return (action - self.statistics) / self._variance

    def entropy(self) -> tf.Tensor:
        """[...] H[f(·|φ)] in nats; with a fixed σ it has no gradient in φ."""
        return self._distribution.entropy()

    def kl_from(self, average: "Gaussian") -> tf.Tensor:
        """[...] KL[f(·|φ_a) ‖ f(·|φ)] = ‖φ_a − φ‖² / 2σ², with φ_a the statistics of `average`."""
        return average._distribution.kl_divergence(self._distribution)

    def kl_gradient(self, average: "Gaussian") -> tf.Tensor:
        """[..., d] k = ∇_φ KL[f(·|φ_a) ‖ f(·|φ)] = (φ − φ_a) / σ²."""
        return (self.statistics - average.statistics) / self._variance
