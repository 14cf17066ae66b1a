"""Discrete ACER (Algorithms 1 and 2 of Wang et al. 2017); at replay ratio 0 it is A3C or Trust-A3C."""

import tensorflow as tf

from acer_tf import equations
from acer_tf.agents import loss
from acer_tf.agents.agent import Agent
from acer_tf.agents.compiled import fused
from acer_tf.distributions import Categorical
from acer_tf.networks.discrete import Network
from acer_tf.types import Trajectory


class Acer(Agent[Network]):
    """ACER on a `Network`, recurrent or not; on-policy and replayed trajectories are treated alike."""

    def parameter_gradients(self, trajectory: Trajectory, weight: tf.Tensor | None = None) -> loss.ParameterGradients:
        """One backward pass, from −z* in φ and the critic's error in Q(x_t, a_t) (§3.3)."""
        inputs, average = self.update_inputs(trajectory, legal=trajectory.legal)
        with tf.GradientTape() as tape:
            probabilities, q = self.network.windows(*inputs, legal=trajectory.legal)
            phi = probabilities[:, :-1]
            q_taken = tf.gather(q[:, :-1], trajectory.action, batch_dims=2)
        gradients = fused(self.output_gradients)(trajectory, probabilities, q, average, weight)
        return gradients.backward(tape, [phi, q_taken], self.network)

    def output_gradients(
        self,
        trajectory: Trajectory,
        probabilities: tf.Tensor,
        q: tf.Tensor,
        average: tf.Tensor | None,
        weight: tf.Tensor | None = None,
    ) -> loss.Gradients:
        """Algorithm 2 between the network's outputs and the gradients in them.

        Args:
            trajectory: [B, T, ...]; its observations are not read.
            probabilities: [B, T+1, A] f(·|φ(x)), the bootstrap row last.
            q: [B, T+1, A] Q(x, ·).
            average: [B, T, A] f(·|φ_a(x)); None without a trust region.
            weight: [B] factors of the trajectories' z* and critic errors (on g they would act like a change of δ);
                None for 1.
        """
        h, mask, c = self.settings, trajectory.mask, self.settings.importance_truncation
        legal = None if trajectory.legal is None else trajectory.legal[:, :-1]
        policy = Categorical(probabilities[:, :-1], legal)
        values = equations.state_value(q, probabilities)
        value, q_all = values[:, :-1], q[:, :-1]
        q_taken = tf.gather(q_all, trajectory.action, batch_dims=2)

        rho_all = equations.importance_weight(policy.statistics, trajectory.behaviour)
        rho = tf.gather(rho_all, trajectory.action, batch_dims=2)
        row = (self.learning_reward(trajectory.reward), trajectory.discount, mask)
        if h.retrace:
            trace = equations.retrace_coefficient(rho)
            q_ret = equations.off_policy_return(
                *row, q_taken, value, values[:, -1], trace, gamma=h.gamma, lambda_=h.retrace_lambda
            )
        else:
            q_ret = equations.importance_sampled_return(*row, value, values[:, -1], rho, gamma=h.gamma)

        g = equations.truncated_policy_gradient(rho, policy.score(trajectory.action), q_ret - value, c=c)
        if h.bias_correction:
            g += equations.bias_correction(rho_all, q_all - value[..., None], c=c)
        entropy_gradient = self.annealed(h.entropy_weight, h.entropy_weight_final) * policy.entropy_gradient()
        if h.entropy_in_trust_region:
            g += entropy_gradient
        average_policy = None if average is None else Categorical(average)
        z = self.project(g, policy, average_policy)
        if not h.entropy_in_trust_region:
            z += entropy_gradient

        rows, error = loss.UnmaskedRows(mask, h.reduction, weight), q_ret - q_taken
        diagnostics = loss.off_policy_diagnostics(rows, value, rho, q_ret, c=c)
        return loss.actor_critic_gradients(
            h, rows, policy, average_policy, g, z, q_ret, error, diagnostics, q_error=error
        )
