"""Discrete ACER: Algorithms 1 and 2 of Wang et al. 2017, as one compiled update.

A3C and Trust-A3C are its replay ratio 0.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from acer_tf import equations
from acer_tf.agents.compiled import Compiled, Execution
from acer_tf.averaging import copy_weights, update_average
from acer_tf.distributions import Categorical
from acer_tf.networks import Architecture, Network
from acer_tf.types import Trajectory

# The average network's forward pass beside the online one's pays only where both are large.
_UPDATE_EXECUTION: dict[Architecture, Execution] = {"nature": "parallel", "small": "serial", "mlp": "xla"}


@dataclasses.dataclass(frozen=True)
class AcerHyperparameters:
    """What the update rule depends on. Defaults are OpenAI baselines' (preset `baselines`).

    Attributes:
        gamma: discount factor γ in [0, 1].
        retrace_lambda: λ of Retrace in [0, 1]; 1 in the paper.
        importance_truncation: c ≥ 0; `inf` for none.
        trust_region_delta: δ > 0 per state; `inf` turns the trust region off.
        average_decay: α in [0, 1) of the average policy network.
        entropy_weight: β ≥ 0 of the policy's entropy.
        entropy_in_trust_region: whether β∇H is part of g before the projection, or is added after it.
        critic_weight: factor of the critic's ½ (Q_ret − Q)².
        reduction: "mean" over unmasked rows, or "sum" over rows and mean over trajectories.
        reward_clip: rewards are clipped to ± this for learning; `inf` leaves them raw.
        max_gradient_norm: the gradient's global norm is clipped to this; `inf` for none.
    """

    gamma: float = 0.99
    retrace_lambda: float = 1.0
    importance_truncation: float = 10.0
    trust_region_delta: float = 1.0
    average_decay: float = 0.99
    entropy_weight: float = 0.01
    entropy_in_trust_region: bool = True
    critic_weight: float = 0.5
    reduction: Literal["mean", "sum"] = "mean"
    reward_clip: float = math.inf
    max_gradient_norm: float = 10.0

    @property
    def trust_region(self) -> bool:
        return math.isfinite(self.trust_region_delta)


class Gradients(NamedTuple):
    """What goes back through the network: gradients of the loss, per row, zero on masked rows."""

    policy: tf.Tensor  # [B, T, A] in φ's coordinates: −z*, weighted
    critic: tf.Tensor  # [B, T] of Q(x_t, a_t), weighted
    diagnostics: dict[str, tf.Tensor]  # scalars, in the order of computation


class Acer:
    """Acts by f(·|φ_θ(x)) and improves θ from trajectories, on-policy and replayed alike.

    Args:
        network: θ. Its average θ_a starts as a copy.
        average: a network of the same architecture, to hold θ_a.
        optimizer: built for `network.model`; see `agents.optimizer.rmsprop`.
        hyperparameters: of the update rule.
    """

    def __init__(
        self,
        network: Network,
        average: Network,
        optimizer: keras.optimizers.Optimizer,
        hyperparameters: AcerHyperparameters,
    ) -> None:
        self.network = network
        self.average = average
        self.optimizer = optimizer
        self.hyperparameters = hyperparameters
        copy_weights(network.model, average.model)
        self.diagnostic_names: tuple[str, ...] = ()
        self._act = Compiled(self._acting, "serial" if network.convolutional else "xla")
        self._update = Compiled(self._step, _UPDATE_EXECUTION[network.architecture])
        # This part of the update holds no convolution, whatever the network.
        self._fused_apply = tf.function(self._apply, jit_compile=True)

    def act(self, observation: np.ndarray, seed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Samples a_t ~ f(·|φ(x_t)).

        Args:
            observation: [N, *observation_shape] as the environment shows them.
            seed: [2] int32; the same seed, weights and observations give the same actions.

        Returns:
            (action [N] int32, probabilities [N, A] float32).
        """
        action, probabilities = self._act(observation, seed)
        return action.numpy(), probabilities.numpy()

    def update(self, trajectory: Trajectory) -> dict[str, float]:
        """One gradient step on `trajectory`, and with a trust region one step of the average network (Algorithm 2).

        Returns:
            Diagnostics in the order of computation, means over unmasked rows unless named otherwise. The step has been
            taken whatever they are: the caller stops on a value that is not finite.
        """
        values = self._update(*trajectory).numpy()
        return dict(zip(self.diagnostic_names, values.tolist(), strict=True))

    def variables(self) -> dict[str, keras.Variable]:
        """Everything that training changes, by name: what a checkpoint must hold."""
        groups = {
            "online": self.network.model.variables,
            "average": self.average.model.variables,
            "optimizer": self.optimizer.variables,
        }
        return {f"{group}/{variable.path}": variable for group, variables in groups.items() for variable in variables}

    def _acting(self, observation: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        probabilities, _ = self.network.observe(observation)
        return Categorical(probabilities).sample(seed), probabilities

    def _step(self, *trajectory: tf.Tensor) -> tf.Tensor:
        gradients, diagnostics = self.parameter_gradients(Trajectory(*trajectory))
        diagnostics["gradient_norm"] = self._fused_apply(gradients)
        self.diagnostic_names = tuple(diagnostics)
        return tf.stack(list(diagnostics.values()))

    def _apply(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Moves θ and θ_a; returns the gradients' global norm before clipping."""
        norm = tf.linalg.global_norm(gradients)
        if math.isfinite(self.hyperparameters.max_gradient_norm):
            gradients, _ = tf.clip_by_global_norm(gradients, self.hyperparameters.max_gradient_norm, use_norm=norm)
        self.optimizer.apply(gradients, self.network.model.trainable_variables)
        if self.hyperparameters.trust_region:
            update_average(self.average.model, self.network.model, self.hyperparameters.average_decay)
        return norm

    def parameter_gradients(self, trajectory: Trajectory) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """The gradient of the loss in every trainable variable of `network.model`, before clipping, and diagnostics.

        One backward pass serves policy and critic: −z* goes into φ, the critic's error into Q(x_t, a_t) (§3.3).
        """
        planes = self.network.planes(trajectory.observation, trajectory.age)
        average = self.average(planes)[0][:, :-1] if self.hyperparameters.trust_region else None
        with tf.GradientTape() as tape:
            probabilities, q = self.network(planes)
            phi = probabilities[:, :-1]
            q_taken = tf.gather(q[:, :-1], trajectory.action, batch_dims=2)
        outputs = self.output_gradients(trajectory, probabilities, q, average)
        gradients = tape.gradient(
            [phi, q_taken],
            self.network.model.trainable_variables,
            output_gradients=[outputs.policy, outputs.critic],
        )
        return gradients, outputs.diagnostics

    def output_gradients(
        self, trajectory: Trajectory, probabilities: tf.Tensor, q: tf.Tensor, average: tf.Tensor | None
    ) -> Gradients:
        """Algorithm 2 between the networks' outputs and the gradients that go back into them.

        Args:
            trajectory: [B, T, ...]; its observations are not read.
            probabilities: [B, T+1, A] f(·|φ(x)), the bootstrap row last.
            q: [B, T+1, A] Q(x, ·).
            average: [B, T, A] f(·|φ_a(x)); None where there is no trust region.
        """
        h, mask = self.hyperparameters, trajectory.mask
        reward = tf.clip_by_value(trajectory.reward, -h.reward_clip, h.reward_clip)
        policy = Categorical(probabilities[:, :-1])
        values = equations.state_value(q, probabilities)
        value, q_all = values[:, :-1], q[:, :-1]
        q_taken = tf.gather(q_all, trajectory.action, batch_dims=2)

        rho_all = equations.importance_weight(policy.statistics, trajectory.behaviour)
        rho = tf.gather(rho_all, trajectory.action, batch_dims=2)
        q_ret = equations.off_policy_return(
            reward,
            trajectory.discount,
            mask,
            q_taken,
            value,
            values[:, -1],
            equations.retrace_coefficient(rho),
            gamma=h.gamma,
            lambda_=h.retrace_lambda,
        )

        c = h.importance_truncation
        g = equations.truncated_policy_gradient(rho, policy.score(trajectory.action), q_ret - value, c=c)
        g += equations.bias_correction(rho_all, q_all - value[..., None], c=c)
        entropy_gradient = h.entropy_weight * policy.entropy_gradient()
        if h.entropy_in_trust_region:
            g += entropy_gradient
        z = g
        if average is not None:
            k = policy.kl_gradient(Categorical(average))
            z = equations.trust_region_projection(g, k, delta=h.trust_region_delta)
        if not h.entropy_in_trust_region:
            z += entropy_gradient

        rows = tf.cast(mask, tf.float32)
        count = tf.maximum(tf.reduce_sum(rows), 1.0)
        weight = 1.0 / (count if h.reduction == "mean" else tf.cast(tf.shape(mask)[0], tf.float32))
        error = q_ret - q_taken

        def mean(x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(tf.where(mask, x, tf.zeros_like(x))) / count

        def variance(x: tf.Tensor) -> tf.Tensor:
            return mean(tf.square(x - mean(x)))

        diagnostics = {
            "value": mean(value),
            "importance_weight_mean": mean(rho),
            "importance_weight_max": tf.reduce_max(tf.where(mask, rho, tf.zeros_like(rho))),
            "importance_weight_truncated": mean(tf.cast(rho > c, tf.float32)),
            "q_retrace": mean(q_ret),
            "critic_loss": mean(0.5 * tf.square(error)),
            # 1 − Var[error] / Var[Q_ret]; 0 where Q_ret does not vary.
            "explained_variance": tf.math.divide_no_nan(variance(q_ret) - variance(error), variance(q_ret)),
            "entropy": mean(policy.entropy()),
            "g_norm": mean(tf.norm(g, axis=-1)),
        }
        if average is not None:
            k_dot_g = tf.reduce_sum(k * g, axis=-1)
            diagnostics |= {
                "kl_average": mean(policy.kl_from(Categorical(average))),
                "k_norm": mean(tf.norm(k, axis=-1)),
                "k_dot_g": mean(k_dot_g),
                "trust_region_active": mean(tf.cast(k_dot_g > h.trust_region_delta, tf.float32)),
            }
        return Gradients(
            policy=tf.where(mask[..., None], -weight * z, tf.zeros_like(z)),
            critic=tf.where(mask, -weight * h.critic_weight * error, tf.zeros_like(error)),
            diagnostics=diagnostics,
        )
