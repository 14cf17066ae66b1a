"""DQN and Double DQN (Mnih et al. 2015; van Hasselt et al. 2016) on windows of one row.

The replay chooses the rows and their weights: uniform or prioritized (Schaul et al. 2016).
"""

from typing import Any

import numpy as np
import tensorflow as tf

from acer_tf import equations
from acer_tf.agents.agent import Agent
from acer_tf.agents.loss import ParameterGradients, UnmaskedRows
from acer_tf.networks.discrete import Network
from acer_tf.schedules import linear, progress
from acer_tf.settings import Settings
from acer_tf.types import Trajectory, map_leaves


class Dqn(Agent[Network]):
    """Q-learning on a `networks.Network` with an ε-greedy policy."""

    _steps: int | None = None  # in the last call of `schedule`; None in a new or restored agent

    @classmethod
    def network_options(cls, settings: Settings) -> dict[str, Any]:
        options = {"shared_bias": settings.shared_bias, "evaluation_epsilon": settings.evaluation_epsilon}
        return {"policy": "epsilon_greedy", **options}

    @property
    def target(self) -> Network:
        """The target network, which replaces the average policy network."""
        return self.average

    def schedule(self, steps: int) -> None:
        """Sets ε, and updates the target network if a period has ended since the previous call."""
        super().schedule(steps)
        h = self.settings
        share = progress(steps - h.exploration_start, h.exploration_steps)
        assert self.network.exploration is not None  # see network_options
        self.network.exploration.epsilon.assign(linear(1.0, h.exploration_final, share))
        if self._steps is not None and steps // h.target_period > self._steps // h.target_period:
            self.target.set_weights(self.network.get_weights())
        self._steps = steps

    def parameter_gradients(self, trajectory: Trajectory, weight: tf.Tensor | None = None) -> ParameterGradients:
        h = self.settings
        planes = self.network.planes(trajectory.observation, trajectory.age)
        now, following = map_leaves(lambda leaf: leaf[:, :1], planes), map_leaves(lambda leaf: leaf[:, 1:], planes)
        legal_now = legal_next = None
        if trajectory.legal is not None:
            legal_now, legal_next = trajectory.legal[:, :1], trajectory.legal[:, 1:]
        next_values = self.target.windows(following, legal=legal_next)[1][:, 0]
        next_choice = self.network.windows(following, legal=legal_next)[1][:, 0] if h.double_q else next_values
        if legal_next is not None:
            next_choice = tf.where(legal_next[:, 0], next_choice, tf.constant(-np.inf, next_choice.dtype))
        with tf.GradientTape() as tape:
            q = tf.gather(self.network.windows(now, legal=legal_now)[1], trajectory.action, batch_dims=2)
        reward, discount = self.learning_reward(trajectory.reward[:, 0]), trajectory.discount[:, 0]
        delta = equations.q_learning_error(q[:, 0], reward, discount, next_values, next_choice, gamma=h.gamma)
        clipped = tf.clip_by_value(delta, -h.error_clip, h.error_clip)
        rows = UnmaskedRows(trajectory.mask, h.reduction, weight)
        output_gradients = rows.weighted(-h.critic_weight * clipped[:, None])
        gradients = tape.gradient(q, self.network.trainable_variables, output_gradients=output_gradients)
        error = delta[:, None]
        diagnostics = {
            "value": rows.mean(q),
            "td_error": rows.mean(tf.abs(error)),
            "td_error_max": rows.max(tf.abs(error)),
            "td_error_clipped": rows.mean(tf.cast(tf.abs(error) > h.error_clip, tf.float32)),
            "critic_loss": rows.mean(0.5 * tf.square(error)),
        }
        return gradients, diagnostics, rows.mean_of_each(tf.abs(error))
