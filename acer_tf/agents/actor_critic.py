"""The paper's baselines for continuous actions: A3C and TIS, and both with a trust region (appendix E.2)."""

from typing import Any

import tensorflow as tf

from acer_tf import equations
from acer_tf.agents import loss
from acer_tf.agents.agent import Agent
from acer_tf.agents.compiled import fused
from acer_tf.distributions import Gaussian
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.settings import Settings
from acer_tf.types import Trajectory


class ActorCritic(Agent[ContinuousNetwork]):
    """A3C or TIS on a `networks.ContinuousNetwork` without a critic of actions."""

    @classmethod
    def network_options(cls, settings: Settings) -> dict[str, Any]:
        return {"critic": "none"}

    def parameter_gradients(self, trajectory: Trajectory, weight: tf.Tensor | None = None) -> loss.ParameterGradients:
        """One backward pass, from −z* in φ and the weighted error in V(x_t)."""
        inputs, average = self.update_inputs(trajectory)
        with tf.GradientTape() as tape:
            mean, values, _ = self.network.windows(*inputs)
            phi, value = mean[:, :-1], values[:, :-1]
        gradients = fused(self.output_gradients)(trajectory, phi, values, average, weight)
        return gradients.backward(tape, [phi, value], self.network)

    def output_gradients(
        self,
        trajectory: Trajectory,
        phi: tf.Tensor,
        values: tf.Tensor,
        average: tf.Tensor | None,
        weight: tf.Tensor | None = None,
    ) -> loss.Gradients:
        """Appendix E.2 between the network's outputs and the gradients in them; see `AcerContinuous`."""
        h, mask = self.settings, trajectory.mask
        std = self.network.policy_std
        policy, behaviour = Gaussian(phi, std), Gaussian(trajectory.behaviour, std)
        value = values[:, :-1]
        log_rho = policy.log_density(trajectory.action) - behaviour.log_density(trajectory.action)
        importance = tf.ones_like(log_rho)
        if h.rule.trajectory_weights:
            importance = equations.trajectory_weight(log_rho, trajectory.discount, mask, c=h.importance_truncation)
        returns = equations.multi_step_return(
            self.learning_reward(trajectory.reward), trajectory.discount, mask, value, values[:, -1], gamma=h.gamma
        )
        error = returns - value
        g = (importance * error)[..., None] * policy.score(trajectory.action)
        average_policy = None if average is None else Gaussian(average, std)
        z = self.project(g, policy, average_policy)

        rows = loss.UnmaskedRows(mask, h.reduction, weight)
        diagnostics = {
            "value": rows.mean(value),
            "trajectory_weight_mean": rows.mean(importance),
            "trajectory_weight_truncated": rows.mean(tf.cast(importance >= h.importance_truncation, tf.float32)),
            "return": rows.mean(returns),
        }
        return loss.actor_critic_gradients(
            h, rows, policy, average_policy, g, z, returns, error, diagnostics, value_error=importance * error
        )
