"""What the update rules share: acting, one compiled step with its optimizer, and all that a checkpoint must hold."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from acer_tf.agents.compiled import Compiled, fused
from acer_tf.averaging import copy_weights, update_average
from acer_tf.settings import Settings
from acer_tf.types import Trajectory


class Update(NamedTuple):
    """What one gradient step reports."""

    # In the order of computation; means over unmasked rows unless named otherwise.
    diagnostics: dict[str, float]
    # [B] float32: the critic's mean |error| over each trajectory's unmasked rows.
    errors: np.ndarray


class Rows:
    """The unmasked rows of a batch: statistics over them, and the weight of each in the loss.

    Args:
        mask: [B, T] bool.
        reduction: see `Settings.reduction`; "threads" is "sum" here, and has a learning rate and decays to match.
        weight: [B] factor of each trajectory in the loss, not in the statistics; None for 1.
    """

    def __init__(self, mask: tf.Tensor, reduction: str, weight: tf.Tensor | None = None) -> None:
        self.mask = mask
        self._count = tf.maximum(tf.reduce_sum(tf.cast(mask, tf.float32)), 1.0)
        share = 1.0 / (self._count if reduction == "mean" else tf.cast(tf.shape(mask)[0], tf.float32))
        self._weight = share * (tf.ones_like(mask[:, 0], tf.float32) if weight is None else weight)

    def only(self, x: tf.Tensor) -> tf.Tensor:
        """`x` [B, T] or [B, T, D], zero on masked rows whatever it is there."""
        mask = self.mask if x.shape.rank == 2 else self.mask[..., None]
        return tf.where(mask, x, tf.zeros_like(x))

    def weighted(self, x: tf.Tensor) -> tf.Tensor:
        """`x` [B, T] or [B, T, D] times what its row weighs in the loss; zero on masked rows."""
        return self.only(tf.reshape(self._weight, [-1] + [1] * (x.shape.rank - 1)) * x)

    def mean(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(self.only(x)) / self._count

    def mean_of_each(self, x: tf.Tensor) -> tf.Tensor:
        """[B], over the unmasked rows of each trajectory; 0 where there is none."""
        count = tf.maximum(tf.reduce_sum(tf.cast(self.mask, tf.float32), axis=1), 1.0)
        return tf.reduce_sum(self.only(x), axis=1) / count

    def max(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(self.only(x))

    def explained_variance(self, target: tf.Tensor, error: tf.Tensor) -> tf.Tensor:
        """1 − Var[error] / Var[target]; 0 where the target does not vary."""
        variance = self._variance(target)
        return tf.math.divide_no_nan(variance - self._variance(error), variance)

    def _variance(self, x: tf.Tensor) -> tf.Tensor:
        return self.mean(tf.square(x - self.mean(x)))


def trust_region_diagnostics(rows: Rows, policy: Any, average: Any, g: tf.Tensor, delta: float) -> dict[str, tf.Tensor]:
    """How the constraint lies: `policy` and `average` are distributions, g [B, T, D] is what is projected."""
    k = policy.kl_gradient(average)
    k_dot_g = tf.reduce_sum(k * g, axis=-1)
    return {
        "kl_average": rows.mean(policy.kl_from(average)),
        "k_norm": rows.mean(tf.norm(k, axis=-1)),
        "k_dot_g": rows.mean(k_dot_g),
        "trust_region_active": rows.mean(tf.cast(k_dot_g > delta, tf.float32)),
    }


class Agent:
    """Acts by f(·|φ_θ(x)) and improves θ from trajectories; how it improves, a subclass says.

    A subclass writes `parameter_gradients`, and `network_options` where its network is not the usual one.

    Args:
        network: θ. Its average θ_a starts as a copy.
        average: a network of the same architecture, to hold θ_a.
        optimizer: built for `network.model`; see `agents.optimizer.rmsprop`.
        settings: of the run, resolved; what the update rule reads of them.
    """

    def __init__(self, network: Any, average: Any, optimizer: keras.optimizers.Optimizer, settings: Settings) -> None:
        self.network = network
        self.average = average
        self.optimizer = optimizer
        self.settings = settings
        copy_weights(network.model, average.model)
        self.diagnostic_names: tuple[str, ...] = ()
        self._act = Compiled(self.choose, network.torso.acting)
        # XLA would compile the rows of an LSTM for half a minute, and gain nothing.
        updates = network.torso.updates
        self._learn = Compiled(self._updates, "serial" if network.state_size and updates == "xla" else updates)
        if network.normalization is not None:
            self._note = Compiled(network.normalization.note, "xla")

    @classmethod
    def network_options(cls, settings: Settings) -> dict[str, Any]:
        """Arguments of `Network`, or of `ContinuousNetwork` where actions are continuous, that the rule decides."""
        return {}

    def act(
        self, observation: np.ndarray, seed: np.ndarray, state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Samples a_t ~ f(·|φ(x_t)).

        Args:
            observation: [N, *observation_shape] as the environment shows them.
            seed: [2] int32; the same seed, weights, observations and states give the same actions.
            state: [N, U] float32 that the call before returned, zeros where an episode begins; U is 0, and the state is
                not looked at, where the network is not recurrent.

        Returns:
            (action [N] int32 or [N, d] float32, the statistics φ(x_t) [N, A or d] float32, the next state [N, U]).
        """
        if not self.network.state_size:
            action, statistics = self._act(observation, seed)
            return action.numpy(), statistics.numpy(), state
        action, statistics, next_state = self._act(observation, seed, state)
        return action.numpy(), statistics.numpy(), next_state.numpy()

    def prepare(self, trajectory: Trajectory, updates: int = 1) -> None:
        """Compiles `learn` for at most so many updates on trajectories of these shapes [B, T, ...].

        From then on `diagnostic_names` is known.
        """
        arrays = [np.broadcast_to(array, (updates, *array.shape)) for array in trajectory.arrays()]
        self._learn.trace(*arrays, np.ones((updates, len(trajectory.mask)), np.float32), np.array(updates, np.int32))

    def learn(self, trajectories: Trajectory, weight: np.ndarray | None = None, at_most: int = 1) -> list[Update]:
        """M gradient steps, one after another, each with a trust region followed by one of the average network.

        Args:
            trajectories: [M, B, T, ...].
            weight: [M, B] float32, factors of the trajectories' gradients; None for 1.
            at_most: calls of up to so many updates share one trace.

        Returns:
            What they found. The steps have been taken whatever that is: the caller stops on a value that is not finite.
        """
        updates = len(trajectories.mask)
        if weight is None:
            weight = np.ones(trajectories.mask.shape[:2], np.float32)
        arrays = [_padded(array, at_most) for array in (*trajectories.arrays(), weight)]
        diagnostics, errors = self._learn(*arrays, np.array(updates, np.int32))
        found = zip(diagnostics.numpy()[:updates].tolist(), errors.numpy(), strict=False)
        return [Update(dict(zip(self.diagnostic_names, values, strict=True)), error) for values, error in found]

    def update(self, trajectory: Trajectory, weight: np.ndarray | None = None) -> Update:
        """One gradient step on `trajectory` [B, T, ...]: `learn` with M = 1."""
        one = Trajectory.of(array[None] for array in trajectory.arrays())
        return self.learn(one, None if weight is None else weight[None])[0]

    def schedule(self, steps: int) -> None:
        """Sets what depends on the steps done: before the next ones are, and behind them."""

    def note(self, trajectory: Trajectory) -> None:
        """Takes notice of a trajectory just collected: what normalises observations sees each of them once."""
        if self.network.normalization is not None:
            self._note(trajectory.observation[:, :-1])

    def variables(self) -> dict[str, keras.Variable]:
        """Everything that training changes, by name: what a checkpoint must hold."""
        groups = {
            "online": self.network.model.weights,
            "average": self.average.model.weights,
            "optimizer": self.optimizer.variables,
        }
        return {f"{group}/{variable.path}": variable for group, variables in groups.items() for variable in variables}

    def choose(self, observation: tf.Tensor, seed: tf.Tensor, *state: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """`act` on tensors; a state goes in and out where the network is recurrent."""
        if not state:
            policy = self.network.distribution(observation)
            return policy.sample(seed), policy.statistics
        policy, next_state = self.network.distribution(observation, *state)
        return policy.sample(seed), policy.statistics, next_state

    def parameter_gradients(
        self, trajectory: Trajectory, weight: tf.Tensor | None = None
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor], tf.Tensor]:
        """The gradient of the loss in every trainable variable of `network.model`, before clipping.

        Args:
            trajectory: [B, T, ...].
            weight: [B] factors of the trajectories' gradients; None for 1.

        Returns:
            The gradients, and diagnostics and errors [B] as `Update` has them.
        """
        raise NotImplementedError

    def _updates(self, *arguments: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The first `count` of the updates whose arrays [M, B, ...], weights [M, B] and count the arguments are."""
        *arrays, weights, count = arguments
        found = [tf.TensorArray(tf.float32, weights.shape[0]) for _ in range(2)]

        def update(i: tf.Tensor, diagnostics: tf.TensorArray, errors: tf.TensorArray) -> tuple[Any, ...]:
            trajectory = Trajectory.of(array[i] for array in arrays)
            gradients, values, error = self.parameter_gradients(trajectory, weights[i])
            values["gradient_norm"] = fused(self._apply)(gradients)
            self.diagnostic_names = tuple(values)
            return i + 1, diagnostics.write(i, tf.stack(list(values.values()))), errors.write(i, error)

        if weights.shape[0] == 1:
            _, *found = update(tf.constant(0), *found)
        else:
            _, *found = tf.while_loop(lambda i, *_: i < count, update, (0, *found), parallel_iterations=1)
        return tuple(values.stack() for values in found)

    def _apply(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Moves θ and θ_a; returns the gradients' global norm before clipping."""
        norm = tf.linalg.global_norm(gradients)
        if math.isfinite(self.settings.max_gradient_norm):
            gradients, _ = tf.clip_by_global_norm(gradients, self.settings.max_gradient_norm, use_norm=norm)
        self.optimizer.apply(gradients, self.network.model.trainable_variables)
        if self.settings.trust_region:
            update_average(self.average.model, self.network.model, self.settings.update_average_decay)
        return norm


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    """`array` extended to `length` rows, of which the compiled function does not read the added ones."""
    if len(array) >= length:
        return array
    padded = np.empty((length, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    return padded
