"""The base of all update rules: acting, the compiled update with its optimizer, and the variables of a checkpoint."""

import collections
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import keras
import numpy as np
import optree
import tensorflow as tf

from acer_tf import equations
from acer_tf.agents.compiled import Compiled, fused
from acer_tf.agents.loss import ParameterGradients
from acer_tf.agents.optimizer import make_optimizer
from acer_tf.agents.rewards import RewardNormalization
from acer_tf.errors import Mismatch
from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.networks.torsos import torso_of
from acer_tf.replay import TrajectoryReplay
from acer_tf.schedules import linear, progress
from acer_tf.settings import Settings
from acer_tf.types import Batch, PerLeaf, Trajectory, Unroll

_SAME_ROWS = 4  # the fewest rows whose matrix products round as those of many do


def update_average(average: keras.Model, online: keras.Model, decay: float) -> None:
    """θ_a ← α θ_a + (1 − α) θ, α = `decay`, for every trainable variable (§3.3 and Algorithm 2)."""
    for theta_a, theta in zip(average.trainable_variables, online.trainable_variables, strict=True):
        theta_a.assign(decay * theta_a + (1.0 - decay) * theta)


class Update(NamedTuple):
    """The report of one gradient step."""

    diagnostics: dict[str, float]  # in the order of computation; means over unmasked rows unless named otherwise
    errors: np.ndarray  # [B] float32: the critic's mean |error| over each trajectory's unmasked rows


N = TypeVar("N", bound=PolicyNetwork)


class Agent(Generic[N]):
    """Acts by f(·|φ_θ(x)) and improves θ from trajectories.

    A subclass defines `parameter_gradients`; it may override `network_options`, `make_optimizer`, `replay_class`,
    `learning_reward`, `loss_term`, `project` and `schedule`.

    Args:
        network: holds θ.
        average: a network of the same architecture for θ_a, which starts as a copy of θ.
        optimizer: any of Keras's, such as `agents.optimizer.RMSProp`; it is built for θ at once, so that it can be
            restored.
        settings: the resolved settings of the run.
    """

    def __init__(self, network: N, average: N, optimizer: keras.optimizers.Optimizer, settings: Settings) -> None:
        self.network, self.average, self.optimizer, self.settings = network, average, optimizer, settings
        average.set_weights(network.get_weights())
        optimizer.build(network.trainable_variables)
        torso = torso_of(network.architecture)
        self._act = Compiled(self.choose, torso.acting)
        # On the CPU XLA would take half a minute to compile the rows of an LSTM, without a gain in speed.
        serial = network.state_size and torso.updates == "xla"
        rows = settings.windows_per_update * settings.window_length
        self._learn = Compiled(self._updates, "serial" if serial else torso.updates_of(rows))
        self._progress = tf.Variable(0.0, trainable=False, name="progress")  # the share of the run that is done
        self._rewards = RewardNormalization(settings.gamma) if settings.normalize_rewards else None
        normalization = network.normalization
        self._normalize = None if normalization is None else Compiled(network.update_normalization, "xla")

    # Of which draws without priorities are made: a subclass may draw other windows.
    replay_class: ClassVar[type[TrajectoryReplay]] = TrajectoryReplay

    @classmethod
    def network_options(cls, settings: Settings) -> dict[str, Any]:
        """The arguments of `Network`, or for continuous actions of `ContinuousNetwork`, that the rule decides."""
        return {}

    @classmethod
    def make_optimizer(cls, settings: Settings) -> keras.optimizers.Optimizer:
        """A new optimizer, by default the one that `settings.optimizer` names; ValueError if it cannot be made."""
        return make_optimizer(settings)

    def act(
        self,
        observation: PerLeaf,
        seed: np.ndarray,
        state: np.ndarray,
        legal: np.ndarray | None = None,
        first: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(a_t ~ f(·|φ(x_t)), [N] int32 or [N, d] float32; φ(x_t) [N, A or d] float32; the next state [N, U]).

        Takes x_t [N, *observation_shape], a seed [2] int32 that decides the draws, and the state [N, U] from the
        previous call, or zeros where an episode begins; U is 0 without recurrence. `legal` [N, A] bool are the valid
        actions, None for all. With `first`, an int32 scalar, the N rows are those from `first` on of all environments
        of the run, and get the draws that these rows have when all act together.
        """
        action, statistics, next_state = self._act(observation, seed, state, legal, first)
        return action.numpy(), statistics.numpy(), next_state.numpy()

    def acting_weights(self) -> list[tf.Tensor]:
        """Copies of all that acting depends on but the schedule, for `act_as`: updates write in place."""
        return [tf.raw_ops.DeepCopy(x=weight.value) for weight in self.network.weights]

    def act_as(self, weights: Sequence[Any], steps: int) -> None:
        """Makes this agent act as another of the same settings did, by its `acting_weights`, after `steps` steps."""
        for variable, weight in zip(self.network.weights, weights, strict=True):
            variable.assign(weight)
        self.schedule(steps)

    def prepare(self, batch: Batch) -> list[str]:
        """Traces `learn` for up to M updates on batches of these shapes; returns the names of its diagnostics.

        On a CPU it is compiled afterwards in a thread, for which `learn` and `close` wait.
        """
        arguments = batch.trajectory, batch.weight, np.int32(0)
        trace = self._learn.trace(*arguments)
        self._learn.compile_ahead(*arguments)
        return list(trace.structured_outputs[0])

    def close(self) -> None:
        """Ends what `prepare` has begun: Python would wait for it too, but no longer answer signals."""
        self._learn.finish()

    def learn(self, batch: Batch, at_most: int = 1) -> list[Update]:
        """M consecutive gradient steps; with a trust region, each also updates the average policy network.

        Calls with up to `at_most` updates share one trace. A step is taken even if its diagnostics are not finite: the
        caller must check them.
        """
        count = len(batch.weight)
        arrays = optree.tree_map(lambda array: _padded(array, at_most), (batch.trajectory, batch.weight))
        diagnostics, errors = self._learn(*arrays, np.int32(count))
        columns = {name: values.numpy()[:count].tolist() for name, values in diagnostics.items()}
        values = zip(*columns.values(), strict=True)
        return [Update(dict(zip(columns, row, strict=True)), e) for row, e in zip(values, errors.numpy(), strict=False)]

    def update(self, trajectory: Trajectory, weight: np.ndarray | None = None) -> Update:
        """One gradient step on `trajectory` [B, T, ...], with factors [B] of the gradients; None for 1."""
        weight = np.ones(len(trajectory.mask), np.float32) if weight is None else weight
        return self.learn(Batch(*optree.tree_map(lambda array: array[None], (trajectory, weight))))[0]

    def schedule(self, steps: int) -> None:
        """Sets all that depends on the run's steps so far; called before the first unroll, and after each iteration."""
        self._progress.assign(progress(steps, self.settings.total_steps))
        if (final := self.settings.update_learning_rate_final) is not None:
            self.optimizer.learning_rate = self.annealed(self.settings.update_learning_rate, final)

    def annealed(self, first: float, final: float | None) -> Any:
        """The present value of a setting that changes linearly over the run from `first` to `final`.

        If `final` is None, it does not change.
        """
        return first if final is None else linear(first, final, self._progress)

    def observe_rewards(self, unroll: Unroll) -> None:
        """Updates the statistics that normalize rewards, if any, by new rows; called before the updates on them."""
        if self._rewards is not None:
            self._rewards.update(unroll)

    def update_normalization(self, observation: PerLeaf) -> None:
        """Updates the statistics of a network that normalises its observations, by new ones [N, k, *frame_shape]."""
        if self._normalize is not None:
            self._normalize(observation)

    def variables(self) -> dict[str, keras.Variable]:
        """All variables that training changes, by name, for checkpoints."""
        rewards = [] if self._rewards is None else [self._rewards.statistics]
        groups = (self.network.weights, self.average.weights, self.optimizer.variables, rewards)
        names = ("online", "average", "optimizer", "rewards")
        found: dict[str, keras.Variable] = {}
        for name, group in zip(names, groups, strict=True):
            same = collections.Counter[str]()  # some optimizers of Keras give several variables one path
            for each in group:
                same[each.path] += 1
                number = f"#{same[each.path]}" if same[each.path] > 1 else ""
                found[f"{name}/{each.path}{number}"] = each
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """The values of `variables`, as views that the next update may change."""
        return {name: np.asarray(variable.value) for name, variable in self.variables().items()}

    def begin_with(self, weights: Mapping[str, np.ndarray]) -> None:
        """Takes weights of the network by their paths; θ_a equals θ then, and all other variables stay as they are."""
        for weight in self.network.weights:
            if weight.path in weights:
                weight.assign(weights[weight.path])
        self.average.set_weights(self.network.get_weights())

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Sets the variables to `arrays` from an agent of the same settings; raises Mismatch if they are others."""
        variables = self.variables()
        if arrays.keys() != variables.keys() and [*map(_unnumbered, arrays)] == [*map(_unnumbered, variables)]:
            arrays = dict(zip(variables, arrays.values(), strict=True))
        here = {name: tuple(variable.shape) for name, variable in variables.items()}
        there = {name: array.shape for name, array in arrays.items()}
        if here != there:
            name = next(name for name in [*here, *there] if here.get(name) != there.get(name))
            one, other = (f"of shape {found[name]}" if name in found else "absent" for found in (there, here))
            raise Mismatch(
                f"the checkpoint's variables are not those of this agent: {name} is {one} there, {other} here; another "
                "version wrote it, or another version of your --network, --agent or --optimizer"
            )
        for name, variable in variables.items():
            variable.assign(arrays[name])

    def choose(
        self,
        observation: PerLeaf,
        seed: tf.Tensor,
        state: tf.Tensor,
        legal: tf.Tensor | None = None,
        first: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, ...]:
        """Does what `act` does, on tensors."""
        if first is None:
            policy, next_state = self.network.distribution(observation, state, legal)
            return policy.sample(seed), policy.statistics, next_state
        count = state.shape[0]
        inputs = observation, state, legal
        if count < _SAME_ROWS:  # the last row again
            at = tf.minimum(tf.range(_SAME_ROWS), count - 1)
            inputs = optree.tree_map(lambda rows: tf.gather(rows, at), inputs)
        policy, next_state = self.network.distribution(*inputs)
        place = first + tf.range(count)
        everywhere = tf.minimum((tf.range(self.settings.num_envs) - first) % self.settings.num_envs, count - 1)
        drawn = tf.gather(policy.rows(everywhere).sample(seed), place)
        return drawn, policy.statistics[:count], next_state[:count]

    def learning_reward(self, reward: tf.Tensor) -> tf.Tensor:
        """The raw rewards [...] as updates use them: scaled, normalized and clipped, as the settings say."""
        h, bound = self.settings, self.settings.effective_reward_clip
        scale = h.reward_scale if self._rewards is None else h.reward_scale / self._rewards.standard_deviation()
        return tf.clip_by_value(scale * reward, -bound, bound)

    def update_inputs(self, trajectory: Trajectory, **given: Any) -> tuple[tuple[Any, Any], tf.Tensor | None]:
        """(arguments of the network's `windows` for x_0 to x_T; φ_a(x_t) [B, T, A or d], None without a trust region).

        A recurrent θ and θ_a both start from the stored state and update it through the burn-in with their own weights
        (Kapturowski et al. 2019); the backward pass ends at x_0. `given` are more arguments of `windows`.
        """
        planes, rows = self.network.planes(trajectory.observation, trajectory.age), trajectory.mask.shape[1] + 1
        average = None
        if self.settings.trust_region:
            inputs = self.average.burn_in(planes, trajectory.memory, rows)
            average = self.average.windows(*inputs, **given)[0][:, :-1]
        return self.network.burn_in(planes, trajectory.memory, rows), average

    def project(self, g: tf.Tensor, policy: Any, average: Any) -> tf.Tensor:
        """z*, the projection of g [B, T, A or d] on the trust region around f(·|φ_a) (§3.3), all in φ's coordinates.

        `policy` is f(·|φ), and `average` is f(·|φ_a). Without a trust region `average` is None, and z* is g.
        """
        if average is None:
            return g
        delta = self.settings.trust_region_delta
        return equations.trust_region_projection(g, policy.kl_gradient(average), delta=delta)

    def loss_term(self, trajectory: Trajectory) -> tf.Tensor | None:
        """A scalar that is minimized besides, with gradients of its own in the weights; None for none.

        Takes tensors [B, T, ...], as `parameter_gradients` does. It is not weighted by `Settings.reduction`.
        """
        return None

    def parameter_gradients(self, trajectory: Trajectory, weight: tf.Tensor | None = None) -> ParameterGradients:
        """(gradients in every trainable variable, before clipping; diagnostics by name and errors [B], as in `Update`).

        Takes tensors [B, T, ...], and factors [B] of the trajectories' gradients; None for 1.
        """
        raise NotImplementedError

    def _updates(
        self, trajectories: Trajectory, weights: tf.Tensor, count: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The first `count` of M updates on [M, B, ...]: (diagnostics [M] by name, errors [M, B])."""
        most = weights.shape[0]
        names: list[str] = []  # known once an update is traced

        def update(i: tf.Tensor, diagnostics: tf.TensorArray, errors: tf.TensorArray) -> tuple[Any, ...]:
            trajectory = optree.tree_map(lambda array: array[i], trajectories)
            gradients, values, error = self.parameter_gradients(trajectory, weights[i])
            gradients = self._without_gaps(gradients)
            with tf.GradientTape() as tape:
                term = self.loss_term(trajectory)
            if term is not None:
                more = self._without_gaps(tape.gradient(term, self.network.trainable_variables))
                gradients = [one + other for one, other in zip(gradients, more, strict=True)]
                values["loss_term"] = term
            # Outside of `fused`: XLA's sum over all weights takes three times as long on the CPU.
            values["gradient_norm"] = norm = tf.linalg.global_norm(gradients)
            fused(self._apply)(gradients, norm)
            names[:] = values
            return i + 1, diagnostics.write(i, tf.stack(list(values.values()))), errors.write(i, error)

        found = [tf.TensorArray(tf.float32, most) for _ in range(2)]
        if most == 1:
            _, *found = update(tf.constant(0), *found)
        else:
            _, *found = tf.while_loop(lambda i, *_: i < count, update, (0, *found), parallel_iterations=1)
        diagnostics, errors = (values.stack() for values in found)
        return dict(zip(names, tf.unstack(diagnostics, len(names), axis=1), strict=True)), errors

    def _without_gaps(self, gradients: list[tf.Tensor | None]) -> list[tf.Tensor]:
        """The gradients in every trainable variable, zeros for None: a loss need not touch every head."""
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        return [tf.zeros(v.shape, v.dtype) if g is None else g for g, v in pairs]

    def _apply(self, gradients: list[tf.Tensor], norm: tf.Tensor) -> None:
        """Updates θ and θ_a by gradients of the global norm `norm`, which are clipped."""
        if math.isfinite(self.settings.max_gradient_norm):
            gradients, _ = tf.clip_by_global_norm(gradients, self.settings.max_gradient_norm, use_norm=norm)
        self.optimizer.apply(gradients, self.network.trainable_variables)
        if self.settings.trust_region:
            update_average(self.average, self.network, self.settings.update_average_decay)


def _unnumbered(name: str) -> str:
    """A variable's name without the numbers of unnamed layers, which Keras counts through the whole process."""
    # A layer's name ends at a "/" or, in the name of an optimizer's slot, at a "_".
    return re.sub(r"_\d+(?=[_/]|$)", "", name)


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    """`array` extended to `length` entries; the compiled function does not read the added ones."""
    if len(array) >= length:
        return array
    padded = np.empty((length, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    return padded
