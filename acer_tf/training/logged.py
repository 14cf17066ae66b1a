"""Logged episodes, with which the replay of a new run is filled: `train(..., replay_from=episodes)`.

They are played to an actor, as if environments returned them and a policy chose their actions. So they become unrolls,
masked rows and frames as all that is collected does. Nothing here imports TensorFlow.
"""

import bisect
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from acer_tf.errors import SettingsError
from acer_tf.settings import Settings
from acer_tf.training.actor import Act
from acer_tf.types import EnvironmentSpec, PerLeaf, TimeStep, by_field, in_dtype, map_leaves, of_fields

_INEXACT = 1e-3  # by how much the sum of probabilities may differ from 1


@dataclasses.dataclass(frozen=True)
class Episode:
    """T ≥ 1 consecutive steps of one episode, or of a part of it.

    Observations, actions and masks have the form in which an exported policy takes and returns them (`Policy`).

    Attributes:
        observations: [T + 1, *observation_shape], the last one being what the last step led to; or a dictionary of such
            arrays by the names of the leaves. Any real dtype whose values are those of the observations' dtype;
            categories are one-hot. Stacks of frames (Atari) begin with zeros before the first frame, so an episode with
            its reset.
        actions: [T, ...] the environment's own: numbers, arrays of numbers, or vectors [T, d] between its bounds (of
            those that were clipped, the vectors before that are better: they are what `behaviour` drew).
        rewards: [T] raw, as the environment returned them.
        terminated: [T] bool: whether the return ended with the step, so that nothing of what follows counts (before the
            last step: a lost life, after which the episode went on); or one bool for the last step. An episode whose
            last step is not terminated was cut there: V of the last observation stands for the rest.
        behaviour: of the policy that acted: the probabilities [T, A] of all actions, over which ACER's bias correction
            is a sum, or with continuous actions the means [T, d] of a Gaussian with the run's `policy_std`, for bounds
            of [-1, 1]. None if they are not known; DQN does not need them.
        action_masks: [T + 1, A] zeros and ones, or booleans: the valid actions; None for all of them.
    """

    observations: PerLeaf
    actions: Any
    rewards: Any
    terminated: Any
    behaviour: Any = None
    action_masks: Any = None


# What estimates the behaviour of episodes without one: "uniform" (over valid actions), or a function from observations
# [T, ...] and, in environments with action masks, [T, A] bool to [T, A or d].
Behaviour = str | Callable[..., np.ndarray]


class _Rows(NamedTuple):
    """The rows of an episode, as `types` has them, and after these a masked row at the last observation."""

    observation: PerLeaf  # [T + 1, *observation_shape]
    action: np.ndarray  # [T + 1, ...] as agents have them
    reward: np.ndarray  # [T + 1] float32
    discount: np.ndarray  # [T + 1] float32
    mask: np.ndarray  # [T + 1] bool
    behaviour: np.ndarray  # [T + 1, A or d] float32
    legal: np.ndarray | None  # [T + 1, A] bool


class Log:
    """Episodes as N environments (with the interface of `VectorEnvironment`), and the policy that acted in them.

    The episodes are laid end to end, with a masked row between two of them, and cut into N pieces, which have the most
    `rows` that are possible if all have as many. Pieces may begin and end within an episode.

    Args:
        episodes: at least as many steps as there are environments.
        behaviour: see `Behaviour`; None if all episodes have theirs, or none is needed.
        settings: the run's, resolved.
        spec: of its environment.

    Raises:
        SettingsError: `behaviour` is missing, an episode does not suit the environment, or nothing is replayed.
    """

    def __init__(
        self, episodes: Iterable[Episode], behaviour: Behaviour | None, settings: Settings, spec: EnvironmentSpec
    ) -> None:
        if settings.replay_ratio == 0:
            raise SettingsError("replay_from: has no effect with --replay_ratio=0.0")
        if hasattr(behaviour, "answer"):
            answer = "lambda x: policy.answer(x)['mean']" if spec.continuous else "policy.probabilities"
            raise SettingsError(f"behaviour: must be a function of observations, got a policy: give {answer}")
        uniform = isinstance(behaviour, str) and behaviour == "uniform" and not spec.continuous
        if not (behaviour is None or uniform or callable(behaviour)):
            wanted = "a function of observations" if spec.continuous else "'uniform', or a function of observations"
            raise SettingsError(f"behaviour={behaviour!r}: must be {wanted}")
        needed = not settings.rule.transitions  # DQN does not read it
        if not needed:
            behaviour = behaviour or "uniform"
        self.spec, self.num_envs = spec, settings.num_envs
        if isinstance(episodes, Episode):
            raise SettingsError("replay_from: must be episodes, got one Episode: give [episode]")
        self._episodes = []
        for number, episode in enumerate(episodes):
            try:
                self._episodes.append(_rows(episode, behaviour, spec, needed))
            except (ValueError, TypeError, AttributeError) as error:
                raise SettingsError(f"replay_from: episode {number}: {error}") from error
        ends = np.cumsum([len(rows.mask) for rows in self._episodes], dtype=np.int64)
        self._masked = set((ends - 1).tolist())
        most = max(self._masked, default=0) // self.num_envs
        self.rows = bisect.bisect_left(range(1, most + 1), True, key=lambda rows: self._pieces(rows) is None)
        self.steps = sum(len(rows.mask) - 1 for rows in self._episodes)
        if not self.rows:
            raise SettingsError(f"replay_from: {self.steps} steps are too few for --num_envs={self.num_envs}")
        starts = np.concatenate([[0], ends[:-1]])
        begins = np.array(self._pieces(self.rows))
        found = np.searchsorted(starts, begins, side="right") - 1
        self._places = list(zip(found.tolist(), (begins - starts[found]).tolist(), strict=True))
        self._played = 0

    def act_with(self, act: Act) -> Act:
        """The policy that acted, with the recurrent states that the policy `act` has at these observations."""

        def logged(
            observation: PerLeaf, seed: np.ndarray, state: np.ndarray, legal: np.ndarray | None
        ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            if state.shape[1]:
                state = act(observation, seed, state, legal)[2]
            return self._gather("action"), self._gather("behaviour"), state

        return logged

    def reset(self) -> TimeStep:
        nothing = np.zeros(self.num_envs, np.float32)
        return self._time_step(nothing, nothing + 1, nothing.astype(bool))

    def step(self, action: np.ndarray) -> TimeStep:
        """The logged answer, to the action that was logged."""
        row = [self._gather(name) for name in ("reward", "discount", "mask")]
        lengths = [len(self._episodes[e].mask) for e, _ in self._places]
        places = zip(self._places, lengths, strict=True)
        self._places = [(e, t + 1) if t + 1 < length else (e + 1, 0) for (e, t), length in places]
        self._played += 1
        return self._time_step(*row)

    def close(self) -> None:
        pass

    def _time_step(self, reward: np.ndarray, discount: np.ndarray, mask: np.ndarray) -> TimeStep:
        each = [map_leaves(lambda leaf, t=t: leaf[t], self._episodes[e].observation) for e, t in self._places]
        ends = ~self._gather("mask") | (self._played == self.rows)  # the new episodes of the run follow a piece
        return TimeStep(
            observation=map_leaves(lambda *leaves: np.stack(leaves), *each),
            age=np.array([min(t, self.spec.stack - 1) for _, t in self._places], np.uint8),
            reward=reward,
            discount=discount,
            mask=mask,
            last=mask & ends,
            legal=self._gather("legal") if self.spec.action_masks else None,
        )

    def _gather(self, name: str) -> np.ndarray:
        return np.stack([getattr(self._episodes[e], name)[t] for e, t in self._places])

    def _pieces(self, rows: int) -> list[int] | None:
        """The places [N] in all rows at which pieces of so many begin; None if there are not so many rows."""
        begins, place = [], 0
        for _ in range(self.num_envs):
            place += place in self._masked  # which follows the piece before
            begins.append(place)
            place += rows
        return begins if place <= max(self._masked) else None


def _rows(episode: Episode, estimate: Behaviour | None, spec: EnvironmentSpec, needed: bool) -> _Rows:
    """Raises ValueError or TypeError for what does not suit the environment; behaviour need suit only if `needed`."""
    reward = _array("rewards", episode.rewards, (np.size(episode.rewards),), "float32")
    length = len(reward)
    if not length:
        raise ValueError("it has no steps")
    wanted = by_field(
        {"observations": map_leaves(lambda *about: about, spec.observation_shape, spec.observation_dtype)}
    )
    given = by_field({"observations": episode.observations})
    if given.keys() != wanted.keys():
        raise ValueError(f"expected {', '.join(wanted)}, got {', '.join(given)}")
    leaves = {name: _array(name, given[name], (length + 1, *shape), dtype) for name, (shape, dtype) in wanted.items()}
    observation = of_fields(leaves)["observations"]
    if spec.stack > 1 and (observation[0, :-1].any() or (observation[1:, :-1] != observation[:-1, 1:]).any()):
        raise ValueError("its stacks of frames do not go on from one to the next, after zeros before the first")
    flags = np.asarray(episode.terminated)
    if not flags.ndim:
        flags = np.append(np.zeros(length - 1, flags.dtype), flags)
    ended = _array("terminated", flags, (length,), "bool")
    legal = _legal(episode, spec, length, bool(ended[-1]))
    native = np.shape(spec.action_sizes) if spec.action_sizes else spec.action_shape
    action = _array("actions", episode.actions, (length, *native), "float32" if spec.continuous else "int64")
    known = episode.behaviour if needed or np.shape(episode.behaviour) == (length, spec.statistics_size) else None
    action, behaviour = spec.agent_action(action), _behaviour(known, estimate, observation, legal, spec, length)
    if needed and not spec.continuous:
        taken = behaviour[np.arange(length), action]
        if (behaviour < 0).any() or np.abs(behaviour.sum(axis=1) - 1).max() > _INEXACT:
            raise ValueError("behaviour: each row must be probabilities, whose sum is 1")
        if not taken.all() or behaviour[~legal[:-1]].any():
            raise ValueError("behaviour: must be above 0 for the action that was chosen, and 0 for those not valid")

    def before_masked(values: np.ndarray, value: float) -> np.ndarray:
        return np.concatenate([values, np.full_like(values[:1], value)])

    return _Rows(
        observation,
        before_masked(action, 0),
        before_masked(reward, 0),
        before_masked(1 - ended.astype(np.float32), 1),
        before_masked(np.ones(length, bool), False),
        before_masked(behaviour, spec.masked_statistic),
        legal,
    )


def _legal(episode: Episode, spec: EnvironmentSpec, length: int, ended: bool) -> np.ndarray:
    """[T + 1, A] bool: the valid actions."""
    legal = np.ones((length + 1, spec.num_actions), bool)
    if episode.action_masks is not None:
        if not spec.action_masks:
            raise ValueError("action_masks: the environment gives none")
        legal = _array("action_masks", episode.action_masks, legal.shape, "bool").copy()
        legal[-1] |= ended or not legal[-1].any()
        if not legal.any(axis=1).all():
            raise ValueError("action_masks: each must allow an action")
    return legal


def _behaviour(
    given: Any, estimate: Behaviour | None, observation: PerLeaf, legal: np.ndarray, spec: EnvironmentSpec, length: int
) -> np.ndarray:
    """[T, A or d] float32."""
    if given is None and estimate is None:
        what = "the means" if spec.continuous else "the probabilities of all actions"
        raise ValueError(
            f"it has no behaviour, {what} by which its actions were chosen: give them, or an estimate as behaviour=..."
        )
    if given is None and isinstance(estimate, str):
        given = legal[:-1] / legal[:-1].sum(axis=1, keepdims=True)
    elif given is None and callable(estimate):
        acted = map_leaves(lambda leaf: leaf[:-1], observation)
        given = estimate(acted, legal[:-1]) if spec.action_masks else estimate(acted)
    if np.shape(given) == (length,) and not spec.continuous:
        raise ValueError(
            "behaviour: the probability of the action that was chosen is not enough: ACER's bias correction needs "
            f"those of all {spec.num_actions}"
        )
    return _array("behaviour", given, (length, spec.statistics_size), "float32")


def _array(name: str, given: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    values = np.asarray(given)
    if values.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {values.shape}")
    if dtype != "float32" and values.dtype.kind == "f" and (np.abs(values) < 2**53).all() and not (values % 1).any():
        values = values.astype(np.int64)
    return in_dtype(name, values, dtype)
