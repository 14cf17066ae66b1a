"""The collector: puts what the actors collect into the replay, and counts whole episodes."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from acer_tf.envs.vector import VectorEnvironment
from acer_tf.replay import TrajectoryReplay
from acer_tf.training.actor import Act, Actor, Actors, LocalActors, Request
from acer_tf.types import TimeStep

RECENT_EPISODES = 100  # in the running mean return


class Collector:
    """Appends unrolls of N environments to a replay.

    Args:
        actors: of the environments, which are not yet reset.
        replay: receives every row. If it already holds rows (a resumed run), a masked row separates them from the new
            episodes, so that the interruption looks like a truncation.
        lagging: whether the next unroll begins as soon as one has been appended, so that it is collected with the
            weights from before the updates that follow.
    """

    def __init__(self, actors: Actors, replay: TrajectoryReplay, *, lagging: bool = False) -> None:
        self._actors, self._replay, self._lagging = actors, replay, lagging
        self.steps = 0
        self.games = 0
        self.recent_returns: collections.deque[float] = collections.deque(maxlen=RECENT_EPISODES)
        self.recent_lengths: collections.deque[int] = collections.deque(maxlen=RECENT_EPISODES)
        self._new_returns: list[float] = []
        self._return = np.zeros(replay.num_envs, np.float64)
        self._length = np.zeros(replay.num_envs, np.int64)
        self._reset = self._begun = False
        self._earlier_rows = 0  # of this run, that the replay does not number since it was emptied

    def collect(self, rows: int) -> None:
        """Appends `rows` rows of every environment to the replay, as one segment. Raises as `Actors.take`."""
        steps = self.steps
        if not self._begun:
            seam = not self._reset and self._replay.started
            self._actors.begin(Request(rows, self._rows + seam, steps, steps))
        unroll = self._actors.take()
        observation = self._stacked(unroll.frame)
        if not self._reset:
            begin = self._replay.seam if self._replay.started else self._replay.start
            begin(observation[0], unroll.age[0])
            self._reset = True
        self._replay.begin_segment(unroll.state[0])
        for row in range(rows):
            step = TimeStep(observation[row + 1], unroll.age[row + 1], *(values[row] for values in unroll[4:8]))
            self._replay.append(unroll.action[row], unroll.behaviour[row], step)
            self._count(step)
        if self._lagging:
            self._actors.begin(Request(rows, self._rows, self.steps, steps))
        self._begun = self._lagging

    def take_returns(self) -> list[float]:
        """Returns of the episodes that ended since the last call."""
        returns, self._new_returns = self._new_returns, []
        return returns

    def state(self) -> dict[str, Any]:
        """JSON-able counters, without unfinished episodes and recurrent states: a resumed run starts new episodes."""
        return {
            "steps": self.steps,
            "rows": self._rows,
            "games": self.games,
            "recent_returns": list(self.recent_returns),
            "recent_lengths": list(self.recent_lengths),
            "new_returns": list(self._new_returns),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.games = state["steps"], state["games"]
        self._earlier_rows = max(state.get("rows", 0) - self._replay.rows, 0)  # earlier versions did not store rows
        self.recent_returns.extend(state["recent_returns"])
        self.recent_lengths.extend(state["recent_lengths"])
        self._new_returns.extend(state["new_returns"])

    @property
    def _rows(self) -> int:
        return self._earlier_rows + self._replay.rows

    def _stacked(self, frame: np.ndarray) -> np.ndarray:
        """Observations [k + 1, N, *observation_shape] of which the replay reads the newest frames alone."""
        stack = self._replay.spec.stack
        return frame if stack == 1 else np.broadcast_to(frame[:, :, None], (*frame.shape[:2], stack, *frame.shape[2:]))

    def _count(self, step: TimeStep) -> None:
        self.steps += int(step.mask.sum())
        self._return += step.reward
        self._length += step.mask
        for env in np.flatnonzero(step.last):
            self.recent_returns.append(float(self._return[env]))
            self._new_returns.append(float(self._return[env]))
            self.recent_lengths.append(int(self._length[env]))
        self.games += int(step.last.sum())
        # A masked row also follows an episode that was given up with its actor.
        begins = step.last | ~step.mask
        self._return[begins] = 0.0
        self._length[begins] = 0


def collector_of(env: VectorEnvironment, act: Act, replay: TrajectoryReplay, seed: int, **options: Any) -> Collector:
    """The collector of one actor in this process; `options` are those of `Collector`."""
    return Collector(LocalActors([Actor(env, act, seed, replay.state_size)]), replay, **options)
