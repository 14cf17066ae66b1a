"""The actor: steps the environments with the current policy, fills the replay, and counts whole episodes."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from acer_tf.envs import VectorEnvironment
from acer_tf.replay import TrajectoryReplay

# (observations [N, ...], int32 seed [2], recurrent states [N, U]) to (actions [N], statistics of the behaviour policy
# [N, A], next recurrent states [N, U]).
Act = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]

RECENT_EPISODES = 100  # in the running mean return


class NonFiniteError(ArithmeticError):
    """A quantity became NaN or infinite: the message names the first one in the order of computation."""


class Actor:
    """Collects rows from N environments that step in lockstep.

    Args:
        env: not yet reset.
        act: the current policy.
        replay: receives every row. If it already holds rows (a resumed run), a masked row separates them from the new
            episodes, so that the interruption looks like a truncation.
        seed: of the sampled actions; a row's sample depends only on this and the row's number.
    """

    def __init__(self, env: VectorEnvironment, act: Act, replay: TrajectoryReplay, seed: int) -> None:
        self._env, self._act, self._replay, self._seed = env, act, replay, seed
        self.steps = 0
        self.games = 0
        self.recent_returns: collections.deque[float] = collections.deque(maxlen=RECENT_EPISODES)
        self.recent_lengths: collections.deque[int] = collections.deque(maxlen=RECENT_EPISODES)
        self._new_returns: list[float] = []
        self._return = np.zeros(env.num_envs, np.float64)
        self._length = np.zeros(env.num_envs, np.int64)
        self._observation: np.ndarray | None = None
        self._state = np.zeros((env.num_envs, replay.state_size), np.float32)

    def collect(self, rows: int) -> None:
        """Appends `rows` rows of every environment to replay, as one segment.

        Raises:
            NonFiniteError: an observation, a reward or the policy is not finite.
        """
        if self._observation is None:
            first = self._env.reset()
            begin = self._replay.seam if self._replay.started else self._replay.start
            begin(first.observation, first.age)
            self._observation = first.observation
        self._replay.begin_segment(self._state)
        for _ in range(rows):
            seed = np.array([self._seed, self._replay.rows], np.int32)
            self._require_finite("observation", self._observation)
            action, behaviour, state = self._act(self._observation, seed, self._state)
            self._require_finite("policy", behaviour)
            step = self._env.step(action)
            self._require_finite("reward", step.reward)
            self._replay.append(action, behaviour, step)
            self._observation = step.observation
            # The row after a masked row is the first of a new episode. A lost life does not end the episode.
            self._state = state if step.mask.all() else np.where(step.mask[:, None], state, np.float32(0))
            self.steps += int(step.mask.sum())
            self._return += step.reward
            self._length += step.mask
            if step.last.any():
                self._finish_episodes(step.last)

    def take_returns(self) -> list[float]:
        """Returns of the episodes that ended since the last call."""
        returns, self._new_returns = self._new_returns, []
        return returns

    def state(self) -> dict[str, Any]:
        """JSON-able counters, without unfinished episodes and recurrent states: a resumed run starts new episodes."""
        return {
            "steps": self.steps,
            "games": self.games,
            "recent_returns": list(self.recent_returns),
            "recent_lengths": list(self.recent_lengths),
            "new_returns": list(self._new_returns),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.games = state["steps"], state["games"]
        self.recent_returns.extend(state["recent_returns"])
        self.recent_lengths.extend(state["recent_lengths"])
        self._new_returns.extend(state["new_returns"])

    def _require_finite(self, name: str, values: np.ndarray) -> None:
        if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            raise NonFiniteError(f"{name} is {values[~finite][0]}, at step {self.steps:,}")

    def _finish_episodes(self, last: np.ndarray) -> None:
        for env in np.flatnonzero(last):
            self.recent_returns.append(float(self._return[env]))
            self._new_returns.append(float(self._return[env]))
            self.recent_lengths.append(int(self._length[env]))
        self.games += int(last.sum())
        self._return[last] = 0.0
        self._length[last] = 0
