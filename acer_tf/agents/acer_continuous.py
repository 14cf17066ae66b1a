"""Continuous ACER (Algorithm 3 of Wang et al. 2017) and its ablations (appendix E.4)."""

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


class AcerContinuous(Agent[ContinuousNetwork]):
    """ACER on a `networks.ContinuousNetwork` with a critic of actions."""

    @classmethod
    def network_options(cls, settings: Settings) -> dict[str, Any]:
        return {"critic": "dueling" if settings.dueling else "separate"}

    def parameter_gradients(self, trajectory: Trajectory, weight: tf.Tensor | None = None) -> loss.ParameterGradients:
        """One backward pass, from −z* in φ and the critic's errors in V(x_t) and Q̃(x_t, a_t).

        a'_t and u_i are drawn anew in every update, from the seed and the update's number, and are constants in the
        loss. Q̃ as prediction and as target uses the same u_i.
        """
        h = self.settings
        update = tf.cast(self.optimizer.iterations, tf.int32)
        seeds = tf.random.experimental.stateless_split(tf.stack([h.seed % 2**31, update]), 2)
        inputs, average = self.update_inputs(trajectory)
        with tf.GradientTape() as tape:
            mean, values, critic_input = self.network.windows(*inputs)
            phi, value = mean[:, :-1], values[:, :-1]
            policy = Gaussian(phi, self.network.policy_std)
            drawn = policy.sample(seeds[0])
            samples = tf.unstack(policy.sample(seeds[1], h.advantage_samples)) if h.dueling else []
            actions = tf.stack([trajectory.action, drawn, *samples], axis=2)
            of_actions = self.network.of_actions(critic_input[:, :-1], actions)
            q, q_drawn = of_actions[..., 0], of_actions[..., 1]
            if h.dueling:
                q = equations.dueling_q(value, q, of_actions[..., 2:])
                q_drawn = equations.dueling_q(value, q_drawn, of_actions[..., 2:])
        gradients = fused(self.output_gradients)(trajectory, phi, values, q, drawn, q_drawn, average, weight)
        return gradients.backward(tape, [phi, value, q], self.network)

    def output_gradients(
        self,
        trajectory: Trajectory,
        phi: tf.Tensor,
        values: tf.Tensor,
        q: tf.Tensor,
        drawn: tf.Tensor,
        q_drawn: tf.Tensor,
        average: tf.Tensor | None,
        weight: tf.Tensor | None = None,
    ) -> loss.Gradients:
        """Algorithm 3 between the network's outputs and the gradients in them.

        Args:
            trajectory: [B, T, ...]; its observations are not read.
            phi: [B, T, d] φ(x).
            values: [B, T+1] V(x), the bootstrap row last.
            q: [B, T] Q̃(x, a).
            drawn: [B, T, d] a' ~ f(·|φ(x)).
            q_drawn: [B, T] Q̃(x, a').
            average: [B, T, d] φ_a(x); None without a trust region.
            weight: [B] factors of the trajectories' z* and critic errors (on g they would act like a change of δ);
                None for 1.
        """
        h, mask, c = self.settings, trajectory.mask, self.settings.importance_truncation
        std = self.network.policy_std
        policy, behaviour = Gaussian(phi, std), Gaussian(trajectory.behaviour, std)
        value, bootstrap = values[:, :-1], values[:, -1]
        taken = policy.log_density(trajectory.action), behaviour.log_density(trajectory.action)
        rho = equations.importance_weight_of_logs(*taken)
        rho_drawn = equations.importance_weight_of_logs(policy.log_density(drawn), behaviour.log_density(drawn))
        row = (self.learning_reward(trajectory.reward), trajectory.discount, mask)
        if h.retrace:
            trace = equations.retrace_coefficient_of_logs(*taken, dimension=phi.shape[-1])
            q_ret = equations.off_policy_return(*row, q, value, bootstrap, trace, gamma=h.gamma)
            q_opc = equations.off_policy_return(*row, q, value, bootstrap, tf.ones_like(trace), gamma=h.gamma)
        else:
            q_ret = q_opc = equations.importance_sampled_return(*row, value, bootstrap, rho, gamma=h.gamma)

        g = equations.truncated_policy_gradient(rho, policy.score(trajectory.action), q_opc - value, c=c)
        if h.bias_correction:
            g += equations.sampled_bias_correction(rho_drawn, policy.score(drawn), q_drawn - value, c=c)
        average_policy = None if average is None else Gaussian(average, std)
        z = self.project(g, policy, average_policy)

        rows, error = loss.UnmaskedRows(mask, h.reduction, weight), q_ret - q
        value_error = equations.target_value(rho, q_ret, q, value) - value if h.dueling else rho * (q_ret - value)
        diagnostics = {**loss.off_policy_diagnostics(rows, value, rho, q_ret, c=c), "q_opc": rows.mean(q_opc)}
        return loss.actor_critic_gradients(
            h, rows, policy, average_policy, g, z, q_ret, error, diagnostics, value_error=value_error, q_error=error
        )
