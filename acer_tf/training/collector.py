"""The collector: puts what the actors collect into the replay, and counts whole episodes."""

import collections
from typing import Any

import numpy as np

from acer_tf.replay import TrajectoryReplay
from acer_tf.training.actor import Actors, Request
from acer_tf.types import Unroll, map_leaves

RECENT_EPISODES = 100  # the episodes in the running mean return


class Collector:
    """Appends unrolls of N environments to a replay.

    If the replay already holds rows (a resumed run), a masked row separates them from the new episodes, so that the
    interruption looks like a truncation. Until `lagging_until` steps, the next unroll begins as soon as one has been
    appended, so that it is collected with the weights from before the updates that follow.
    """

    def __init__(self, actors: Actors, replay: TrajectoryReplay, *, lagging_until: int = 0) -> None:
        self._actors, self._replay, self._lagging_until = actors, replay, lagging_until
        self.steps = self.episodes = 0
        self.recent_returns: collections.deque[float] = collections.deque(maxlen=RECENT_EPISODES)
        self.recent_lengths: collections.deque[int] = collections.deque(maxlen=RECENT_EPISODES)
        self._new_returns: list[float] = []
        self._return = np.zeros(replay.num_envs, np.float64)
        self._length = np.zeros(replay.num_envs, np.int64)
        self._rows = 0  # the run's rows per environment so far, with a masked row for each resumption
        self._reset = self._begun = False

    def collect(self, rows: int) -> Unroll:
        """The next `rows` rows of every environment, which the replay has then too. Raises as `Actors.take`."""
        steps = self.steps
        # A masked row joins those of a resumed run to the earlier ones.
        first_row = self._rows + (not self._reset and self._replay.started)
        if not self._begun:
            self._actors.begin(Request(rows, first_row, steps, steps))
        unroll = self._actors.take()
        if not self._reset:
            first = map_leaves(lambda leaf: leaf[:, 0], unroll.observation)
            legal = None if unroll.legal is None else unroll.legal[:, 0]
            self._replay.reset(first, unroll.age[:, 0], legal)
            self._reset = True
        # Learning reads nothing of a masked row. In replay they are all alike.
        given_up = ~unroll.mask & (unroll.discount == 0)
        self._replay.append(unroll._replace(discount=unroll.discount + given_up) if given_up.any() else unroll)
        self._rows = first_row + rows
        self._count(unroll)
        self._begun = self.steps < self._lagging_until
        if self._begun:
            self._actors.begin(Request(rows, self._rows, self.steps, steps))
        return unroll

    def take_returns(self) -> list[float]:
        """Returns of the episodes that ended since the last call."""
        returns, self._new_returns = self._new_returns, []
        return returns

    def state(self) -> dict[str, Any]:
        """JSON-able counters, without unfinished episodes and recurrent states: a resumed run starts new episodes."""
        return {
            "steps": self.steps,
            "rows": self._rows,
            "episodes": self.episodes,
            "recent_returns": list(self.recent_returns),
            "recent_lengths": list(self.recent_lengths),
            "new_returns": list(self._new_returns),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self._rows, self.episodes = state["steps"], state["rows"], state["episodes"]
        self.recent_returns.extend(state["recent_returns"])
        self.recent_lengths.extend(state["recent_lengths"])
        self._new_returns.extend(state["new_returns"])

    def _count(self, unroll: Unroll) -> None:
        self.steps += int(unroll.mask.sum())
        self.episodes += int(unroll.last.sum())
        columns = unroll.reward.T, unroll.discount.T, unroll.mask.T, unroll.last.T
        for reward, discount, mask, last in zip(*columns, strict=True):
            self._return += reward
            self._length += mask
            self.recent_returns.extend(self._return[last].tolist())
            self._new_returns.extend(self._return[last].tolist())
            self.recent_lengths.extend(self._length[last].tolist())
            begins = last | (~mask & (discount == 0))  # given up with its actor
            self._return[begins] = 0.0
            self._length[begins] = 0
