"""The kit's functions as this package computes them, in either precision: thin wrappers of its own code."""

from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import keras
import numpy as np
import tensorflow as tf
from gymnasium.vector import AutoresetMode, VectorEnv

from acer_tf import envs, equations
from acer_tf.distributions import Categorical, Gaussian
from acer_tf.networks.layers import EpsilonGreedy, Valid
from acer_tf.replay import Priorities, PrioritizedReplay, RankHeap, SumTree
from acer_tf.replay.priorities import importance_weights
from acer_tf.types import Batch, EnvironmentSpec, Unroll

Array = np.ndarray
_FINE = 4096  # draws of equal ranges: every item of the cases has a larger share than one of them


class Functions:
    """The kit's functions, with tensors of `dtype`; names and arguments are those of docs/conformance.md."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype

    def _tensor(self, value: Any) -> tf.Tensor:
        value = np.asarray(value)
        return tf.constant(value.astype(self._dtype) if value.dtype.kind == "f" else value)

    def _laid_out(self, terminated: Array, truncated: Array, next_value: Any, **columns: Array) -> dict[str, tf.Tensor]:
        """[1, T] tensors of the rows, and of a masked row after each time limit, where only the value is read.

        After a termination there is none, as where a life was lost: the discount of 0 alone ends the return.
        """
        rows: dict[str, list[Any]] = {name: [] for name in (*columns, "discount", "mask")}
        for t in range(len(terminated)):
            here = {name: column[t] for name, column in columns.items()}
            of_rows = [here | {"discount": 1.0 - terminated[t], "mask": True}]
            if truncated[t] and t + 1 < len(terminated):
                nothing = dict.fromkeys(here, np.nan)
                of_rows.append(nothing | {"value": next_value[t], "discount": 1.0, "mask": False})
            for row in of_rows:
                for name, column in rows.items():
                    column.append(row[name])
        return {name: self._tensor(column)[None] for name, column in rows.items()}

    def _return(self, function: Any, window: dict[str, Any], **options: Any) -> Array:
        """What a function of `equations` makes of a window's rows."""
        gamma, bootstrap = window.pop("gamma"), self._tensor(window["next_value"][-1:])
        window.setdefault("value", np.zeros_like(window["reward"]))
        rows = self._laid_out(**window)
        returns = function(**rows, bootstrap_value=bootstrap, gamma=gamma, **options)
        return returns.numpy()[rows["mask"].numpy()]

    def retrace(self, *, rho: Array, **window: Any) -> Array:
        trace = equations.retrace_coefficient(self._tensor(rho)).numpy()
        return self._return(equations.off_policy_return, window | {"trace": trace})

    def retrace_continuous(self, *, log_rho: Array, dimension: int, **window: Any) -> Array:
        logs = self._tensor(log_rho)
        trace = equations.retrace_coefficient_of_logs(logs, tf.zeros_like(logs), dimension=dimension).numpy()
        return self._return(equations.off_policy_return, window | {"trace": trace})

    def q_opc(self, **window: Any) -> Array:
        return self._return(equations.off_policy_return, window | {"trace": np.ones_like(window["q"])})

    def multi_step_return(self, **window: Any) -> Array:
        return self._return(equations.multi_step_return, window)

    def importance_sampled_return(self, **window: Any) -> Array:
        return self._return(equations.importance_sampled_return, window)

    def trajectory_weight(self, *, log_rho: Array, terminated: Array, truncated: Array, c: float) -> Array:
        rows = self._laid_out(terminated, truncated, log_rho, log_rho=log_rho)
        return equations.trajectory_weight(**rows, c=c).numpy()[rows["mask"].numpy()]

    def importance_weights(self, probabilities: Array, behaviour: Array) -> tf.Tensor:
        return equations.importance_weight(self._tensor(probabilities), self._tensor(behaviour))

    def state_value(self, probabilities: Array, q: Array) -> tf.Tensor:
        return equations.state_value(self._tensor(q), self._tensor(probabilities))

    def truncated_gradient(
        self, probabilities: Array, behaviour: Array, action: int, advantage: float, c: float
    ) -> tf.Tensor:
        rho = self.importance_weights(probabilities, behaviour)[action]
        score = Categorical(self._tensor(probabilities)).score(tf.constant(action))
        return equations.truncated_policy_gradient(rho, score, self._tensor(advantage), c=c)

    def bias_correction(self, probabilities: Array, behaviour: Array, q: Array, value: float, c: float) -> tf.Tensor:
        advantage = self._tensor(q) - self._tensor(value)
        return equations.bias_correction(self.importance_weights(probabilities, behaviour), advantage, c=c)

    def entropy(self, probabilities: Array) -> tf.Tensor:
        return Categorical(self._tensor(probabilities)).entropy()

    def entropy_gradient(self, probabilities: Array, legal: Array) -> tf.Tensor:
        return Categorical(self._tensor(probabilities), tf.constant(legal)).entropy_gradient()

    def kl(self, average: Array, probabilities: Array) -> tf.Tensor:
        return Categorical(self._tensor(probabilities)).kl_from(Categorical(self._tensor(average)))

    def kl_gradient(self, average: Array, probabilities: Array) -> tf.Tensor:
        return Categorical(self._tensor(probabilities)).kl_gradient(Categorical(self._tensor(average)))

    def masked_softmax(self, logits: Array, legal: Array) -> tf.Tensor:
        valid = Valid(dtype=self._dtype)(self._tensor(logits)[None], tf.constant(legal)[None])
        return keras.layers.Softmax(dtype=self._dtype)(valid)[0]

    def epsilon_greedy(self, q: Array, legal: Array, epsilon: float) -> tf.Tensor:
        layer = EpsilonGreedy(dtype=self._dtype)
        layer.build((1, len(q)))
        layer.epsilon.assign(epsilon)
        return layer(self._tensor(q)[None], tf.constant(legal)[None])[0]

    def _gaussian_rho(self, action: Array, mean: Array, behaviour_mean: Array, std: float) -> tuple[tf.Tensor, ...]:
        """ρ and the score of the action."""
        policy, behaviour = (Gaussian(self._tensor(each), std) for each in (mean, behaviour_mean))
        logs = (each.log_density(self._tensor(action)) for each in (policy, behaviour))
        return equations.importance_weight_of_logs(*logs), policy.score(self._tensor(action))

    def gaussian_importance_weight(self, **policies: Any) -> tf.Tensor:
        return self._gaussian_rho(**policies)[0]

    def gaussian_truncated_gradient(self, *, advantage: float, c: float, **policies: Any) -> tf.Tensor:
        rho, score = self._gaussian_rho(**policies)
        return equations.truncated_policy_gradient(rho, score, self._tensor(advantage), c=c)

    def gaussian_bias_correction(self, *, q: float, value: float, c: float, **policies: Any) -> tf.Tensor:
        rho, score = self._gaussian_rho(**policies)
        return equations.sampled_bias_correction(rho, score, self._tensor(q) - self._tensor(value), c=c)

    def gaussian_kl(self, average_mean: Array, mean: Array, std: float) -> tf.Tensor:
        return Gaussian(self._tensor(mean), std).kl_from(Gaussian(self._tensor(average_mean), std))

    def gaussian_kl_gradient(self, average_mean: Array, mean: Array, std: float) -> tf.Tensor:
        return Gaussian(self._tensor(mean), std).kl_gradient(Gaussian(self._tensor(average_mean), std))

    def dueling_q(self, value: float, advantage: float, sampled_advantages: Array) -> tf.Tensor:
        return equations.dueling_q(*map(self._tensor, (value, advantage, sampled_advantages)))

    def value_target(self, rho: float, q_ret: float, q: float, value: float) -> tf.Tensor:
        return equations.target_value(*map(self._tensor, (rho, q_ret, q, value)))

    def trust_region(self, g: Array, k: Array, delta: float) -> tf.Tensor:
        return equations.trust_region_projection(self._tensor(g), self._tensor(k), delta=delta)

    def dqn_error(self, next_q: Array, **step: Any) -> tf.Tensor:
        return self.double_dqn_error(next_q=next_q, next_online_q=next_q, **step)

    def double_dqn_error(
        self,
        q: float,
        reward: float,
        terminated: bool,
        next_q: Array,
        next_online_q: Array,
        legal: Array,
        gamma: float,
    ) -> tf.Tensor:
        choice = np.where(legal, next_online_q, -np.inf)
        row = (np.atleast_1d(each) for each in (q, reward, 1.0 - terminated, next_q[None], choice[None]))
        return equations.q_learning_error(*map(self._tensor, row), gamma=gamma)[0]

    def proportional_draws(
        self, capacity: int, indices: Array, priorities: Array, alpha: float, uniforms: Array
    ) -> dict[str, Array]:
        items, probabilities = _drawn(SumTree(capacity, alpha), indices, priorities, uniforms)
        return {"items": items, "probabilities": probabilities}

    def rank_probabilities(self, priorities: Array, alpha: float) -> Array:
        heap = RankHeap(len(priorities), alpha)
        return _of_items(*_drawn(heap, np.arange(len(priorities)), priorities, np.zeros(_FINE)))

    def rank_draws(self, priorities: Array, alpha: float, uniforms: Array) -> Array:
        return _drawn(RankHeap(len(priorities), alpha), np.arange(len(priorities)), priorities, uniforms)[0]

    def replay_weights(self, probabilities: Array, size: int, beta: float) -> Array:
        return importance_weights(probabilities, beta)

    def replay_weights_of_memory(self, probabilities: Array, least_probability: float, size: int, beta: float) -> Array:
        return importance_weights(probabilities, beta, least_probability=least_probability)

    def ring_probabilities(
        self, capacity: int, alpha: float, epsilon: float, events: list[str], items: Array, errors: Array
    ) -> Array:
        replay, nothing = _Ring(capacity, alpha, epsilon), cast(Any, None)
        for event, item, error in zip(events, items, errors, strict=True):
            if event == "append":
                replay.append_row()
            else:
                replay.update_priorities(Batch(nothing, nothing, np.array([item % capacity])), np.array([error]))
        return replay.probabilities()

    def vector_rows(self, **answers: Any) -> dict[str, list[Any]]:
        vector = _Answers(**answers)
        env = envs.make("conformance", 1, 0, factory=lambda num_envs: vector)
        env.reset()
        rows = []
        while (t := vector.steps) < len(answers["terminated"]):
            step = env.step(np.zeros(1, np.int64))
            if vector.steps > t:  # else a pause between two episodes in SAME_STEP mode
                rows.append((step.mask[0], step.discount[0], step.observation[0, 0]))
        return dict(zip(("mask", "discount", "next_observation"), map(list, zip(*rows, strict=True)), strict=True))


float64, float32 = Functions("float64"), Functions("float32")


def _drawn(structure: Priorities, indices: Array, priorities: Array, uniforms: Array) -> tuple[Array, Array]:
    """The items of stratified draws, and P of each, after all of the priorities are set at once."""
    structure.set(indices, priorities)
    return structure.sample(len(uniforms), SimpleNamespace(random=lambda k: uniforms))  # type: ignore[arg-type]


def _of_items(items: Array, probabilities: Array) -> Array:
    """P by item, of draws in which every item occurs."""
    return probabilities[np.unique(items, return_index=True)[1]]


class _Ring(PrioritizedReplay):
    """A memory of single rows of one environment."""

    def __init__(self, capacity: int, alpha: float, epsilon: float) -> None:
        priorities: Any = dict(priority="proportional", priority_exponent=(alpha, alpha), priority_epsilon=epsilon)
        spec = EnvironmentSpec((1,), "float32", 1, num_actions=2)
        super().__init__(spec, 1, capacity, 1, 0, batch_size=1, importance_exponent=(1.0, 1.0), **priorities)
        self.reset(np.zeros((1, 1), np.float32), np.zeros(1, np.uint8))

    def append_row(self) -> None:
        numbers, nothing = np.zeros((1, 1), np.float32), np.zeros((1, 0), np.float32)
        row = dict(reward=numbers, discount=numbers + 1, mask=numbers == 0, last=numbers > 0)
        about = dict(action=np.zeros((1, 1), np.int32), behaviour=np.full((1, 1, 2), 0.5, np.float32))
        shown = dict(observation=np.zeros((1, 2, 1), np.float32), age=np.zeros((1, 2), np.uint8))
        self.append(Unroll(**row, **about, **shown, state=nothing, next_state=nothing))  # type: ignore[arg-type]
        self._follow()  # as a draw does

    def probabilities(self) -> Array:
        """P of the stored rows, the oldest first."""
        by_place = _of_items(*self._priorities.sample(_FINE, self._generator))
        return np.roll(by_place, -((self.rows - self.stored) % len(by_place)))


class _Answers(VectorEnv[Any, Any, Any]):
    """A vector environment of one copy that answers as told."""

    num_envs = 1
    single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(2)

    def __init__(
        self, autoreset: str, observation: Array, final_observation: Array, terminated: Array, truncated: Array
    ) -> None:
        self.metadata = {"autoreset_mode": AutoresetMode[autoreset.upper()]}
        self._observation, self._final = observation.astype(np.float32), final_observation.astype(np.float32)
        self._terminated, self._truncated = terminated, truncated
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.steps = 0
        return self._observation[:1, None], {}

    def step(self, actions: Any) -> Any:
        t = self.steps
        self.steps += 1
        terminated, truncated = self._terminated[t : t + 1], self._truncated[t : t + 1]
        final = np.array([self._final[t : t + 1]]) if (terminated | truncated).any() else None
        infos = {} if final is None else {"final_obs": final}
        return self._observation[self.steps : self.steps + 1, None], np.zeros(1), terminated, truncated, infos
