"""The losses of update rules: gradients in a network's outputs, means over unmasked rows, and common diagnostics."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from acer_tf.settings import Settings

# What `Agent.parameter_gradients` returns: gradients, diagnostics and errors [B].
ParameterGradients = tuple[list[tf.Tensor], dict[str, tf.Tensor], tf.Tensor]


class Gradients(NamedTuple):
    """Gradients of an actor-critic's loss in the network's outputs, per row, zero on masked rows."""

    policy: tf.Tensor  # [B, T, A or d] in φ's coordinates: −z*, weighted
    value: tf.Tensor | None  # [B, T] of V(x_t), weighted; None if V follows from Q
    q: tf.Tensor | None  # [B, T] of Q(x_t, a_t), weighted; None without a critic of actions
    diagnostics: dict[str, tf.Tensor]  # scalars, in the order of computation
    errors: tf.Tensor  # [B] the critic's mean |error|

    def backward(self, tape: tf.GradientTape, outputs: list[tf.Tensor], model: keras.Model) -> ParameterGradients:
        """One backward pass to the weights of `model`, from the outputs of policy, value and q that have a gradient."""
        given = [gradient for gradient in (self.policy, self.value, self.q) if gradient is not None]
        gradients = tape.gradient(outputs, model.trainable_variables, output_gradients=given)
        return gradients, self.diagnostics, self.errors


class UnmaskedRows:
    """The unmasked rows of a batch: statistics over them, and the weight of each in the loss.

    Takes the mask [B, T] bool, `Settings.reduction`, and the factor [B] of each trajectory in the loss, not in the
    statistics; None for 1. "threads" acts as "sum" here; it differs only in `Settings.update_learning_rate`,
    `Settings.update_rmsprop_decay` and `Settings.update_average_decay`.
    """

    def __init__(self, mask: tf.Tensor, reduction: str, weight: tf.Tensor | None = None) -> None:
        self._mask = mask
        self._count = tf.maximum(tf.reduce_sum(tf.cast(mask, tf.float32)), 1.0)
        share = 1.0 / (self._count if reduction == "mean" else tf.cast(tf.shape(mask)[0], tf.float32))
        self._weight = share * (tf.ones_like(mask[:, 0], tf.float32) if weight is None else weight)

    def only(self, x: tf.Tensor) -> tf.Tensor:
        """`x` [B, T] or [B, T, D], with masked rows replaced by zeros."""
        mask = self._mask if x.shape.rank == 2 else self._mask[..., None]
        return tf.where(mask, x, tf.zeros_like(x))

    def weighted(self, x: tf.Tensor) -> tf.Tensor:
        """`x` [B, T] or [B, T, D] times the weight of its row in the loss; zero on masked rows."""
        return self.only(tf.reshape(self._weight, [-1] + [1] * (x.shape.rank - 1)) * x)

    def mean(self, x: tf.Tensor) -> tf.Tensor:
        """The scalar mean of `x` [B, T] over the unmasked rows; 0 if all are masked."""
        return tf.reduce_sum(self.only(x)) / self._count

    def mean_of_each(self, x: tf.Tensor) -> tf.Tensor:
        """[B] mean over the unmasked rows of each trajectory; 0 if all are masked."""
        count = tf.maximum(tf.reduce_sum(tf.cast(self._mask, tf.float32), axis=1), 1.0)
        return tf.reduce_sum(self.only(x), axis=1) / count

    def max(self, x: tf.Tensor) -> tf.Tensor:
        """The scalar maximum of `x` [B, T], which is at least 0 if a row is masked."""
        return tf.reduce_max(self.only(x))

    def explained_variance(self, target: tf.Tensor, error: tf.Tensor) -> tf.Tensor:
        """1 − Var[error] / Var[target]; 0 for a constant target."""
        variance, left = (self.mean(tf.square(x - self.mean(x))) for x in (target, error))
        return tf.math.divide_no_nan(variance - left, variance)


def off_policy_diagnostics(
    rows: UnmaskedRows, value: tf.Tensor, rho: tf.Tensor, q_ret: tf.Tensor, *, c: float
) -> dict[str, tf.Tensor]:
    """The diagnostics of V(x), ρ and Q_ret, all [B, T], that discrete and continuous ACER have in common."""
    return {
        "value": rows.mean(value),
        "importance_weight_mean": rows.mean(rho),
        "importance_weight_max": rows.max(rho),
        "importance_weight_truncated": rows.mean(tf.cast(rho > c, tf.float32)),
        "q_retrace": rows.mean(q_ret),
    }


def actor_critic_gradients(
    h: Settings,
    rows: UnmaskedRows,
    policy: Any,
    average: Any,
    g: tf.Tensor,
    z: tf.Tensor,
    target: tf.Tensor,
    error: tf.Tensor,
    diagnostics: dict[str, tf.Tensor],
    *,
    value_error: tf.Tensor | None = None,
    q_error: tf.Tensor | None = None,
) -> Gradients:
    """The gradients of an actor-critic's loss: −z* in φ, and the critic's errors in V and Q.

    Args:
        h: the run's settings.
        rows: the unmasked rows.
        policy, average: f(·|φ) and f(·|φ_a); `average` is None without a trust region.
        g, z: [B, T, A or d] before and after `Agent.project`.
        target, error: [B, T] the critic's target and error.
        diagnostics: the rule's own; those that all actor-critic rules have in common follow them. Of these k and k · g
            are in φ's coordinates, also where a subclass projects in others.
        value_error, q_error: [B, T] in V(x_t) and in Q(x_t, a_t); None for an output that the critic does not have.
    """
    diagnostics = diagnostics | {
        "critic_loss": rows.mean(0.5 * tf.square(error)),
        "explained_variance": rows.explained_variance(target, error),
        "entropy": rows.mean(policy.entropy()),
        "g_norm": rows.mean(tf.norm(g, axis=-1)),
    }
    if average is not None:
        k = policy.kl_gradient(average)
        k_dot_g = tf.reduce_sum(k * g, axis=-1)
        diagnostics |= {
            "kl_average": rows.mean(policy.kl_from(average)),
            "k_norm": rows.mean(tf.norm(k, axis=-1)),
            "k_dot_g": rows.mean(k_dot_g),
            "trust_region_active": rows.mean(tf.cast(k_dot_g > h.trust_region_delta, tf.float32)),
        }
    of_value, of_q = (None if e is None else rows.weighted(-h.critic_weight * e) for e in (value_error, q_error))
    return Gradients(rows.weighted(-z), of_value, of_q, diagnostics, rows.mean_of_each(tf.abs(error)))
