"""The paper's baselines for continuous actions: A3C and TIS, and both with a trust region (appendix E.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from acer_tf import equations
from acer_tf.agents.agent import Agent, ParameterGradients, Rows, actor_critic_diagnostics
from acer_tf.agents.compiled import fused
from acer_tf.distributions import Gaussian
from acer_tf.settings import Settings
from acer_tf.types import Trajectory


class Gradients(NamedTuple):
    """Gradients of the loss in the network's outputs, per row, zero on masked rows."""

    policy: tf.Tensor  # [B, T, d] in φ's coordinates, the mean's: −z*, weighted
    value: tf.Tensor  # [B, T] of V(x_t), weighted
    diagnostics: dict[str, tf.Tensor]  # scalars, in the order of computation
    errors: tf.Tensor  # [B] the critic's mean |error|


class ActorCritic(Agent[Any]):
    """A3C or TIS on a `networks.ContinuousNetwork` without a critic of actions."""

    @classmethod
    def network_options(cls, settings: Settings) -> dict[str, Any]:
        return {"critic": "none"}

    def parameter_gradients(self, trajectory: Trajectory, weight: tf.Tensor | None = None) -> ParameterGradients:
        """One backward pass, from −z* in φ and the weighted error in V(x_t)."""
        trust_region = self.settings.trust_region
        average = self.average(trajectory.observation[:, :-1])[0] if trust_region else None
        with tf.GradientTape() as tape:
            mean, values, _ = self.network(trajectory.observation)
            phi, value = mean[:, :-1], values[:, :-1]
        outputs = fused(self.output_gradients)(trajectory, phi, values, average, weight)
        gradients = tape.gradient(
            [phi, value], self.network.model.trainable_variables, output_gradients=[outputs.policy, outputs.value]
        )
        return gradients, outputs.diagnostics, outputs.errors

    def output_gradients(
        self,
        trajectory: Trajectory,
        phi: tf.Tensor,
        values: tf.Tensor,
        average: tf.Tensor | None,
        weight: tf.Tensor | None = None,
    ) -> Gradients:
        """Appendix E.2 between the network's outputs and the gradients in them.

        Args:
            trajectory: [B, T, ...]; its observations are not read.
            phi: [B, T, d] φ(x).
            values: [B, T+1] V(x), the bootstrap row last.
            average: [B, T, d] φ_a(x); None without a trust region.
            weight: [B] factors of the trajectories' z* (not of g, which δ bounds); None for 1.
        """
        h, mask = self.settings, trajectory.mask
        reward = tf.clip_by_value(trajectory.reward, -h.effective_reward_clip, h.effective_reward_clip)
        std = self.network.policy_std
        policy, behaviour = Gaussian(phi, std), Gaussian(trajectory.behaviour, std)
        value = values[:, :-1]
        log_rho = policy.log_density(trajectory.action) - behaviour.log_density(trajectory.action)
        importance = tf.ones_like(log_rho)
        if h.rule.trajectory_weights:
            importance = equations.trajectory_weight(log_rho, trajectory.discount, mask, c=h.importance_truncation)
        returns = equations.multi_step_return(reward, trajectory.discount, mask, value, values[:, -1], gamma=h.gamma)
        error = returns - value
        g = (importance * error)[..., None] * policy.score(trajectory.action)
        z = g
        average_policy = None if average is None else Gaussian(average, std)
        if average_policy is not None:
            z = equations.trust_region_projection(g, policy.kl_gradient(average_policy), delta=h.trust_region_delta)

        rows = Rows(mask, h.reduction, weight)
        diagnostics = {
            "value": rows.mean(value),
            "trajectory_weight_mean": rows.mean(importance),
            "trajectory_weight_truncated": rows.mean(tf.cast(importance >= h.importance_truncation, tf.float32)),
            "return": rows.mean(returns),
            **actor_critic_diagnostics(rows, policy, average_policy, g, h.trust_region_delta, returns, error),
        }
        return Gradients(
            policy=rows.weighted(-z),
            value=rows.weighted(-h.critic_weight * importance * error),
            diagnostics=diagnostics,
            errors=rows.mean_of_each(tf.abs(error)),
        )
