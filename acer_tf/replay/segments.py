"""Where collected segments start, and the state of the behaviour's recurrent network there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from acer_tf.replay.storage import zeros


class Segments:
    """The starts of the latest segments of N environments that move in lockstep, with a state [N, U] at each.

    States are stored per segment, not per row: U is much larger than most observations. They lie in a ring, of which
    the system commits memory only as it fills.

    Args:
        num_envs: N.
        state_size: U; with 0 there are no states, and no bound on the number of segments.
        most: segments whose states are kept, the newest.
    """

    def __init__(self, num_envs: int, state_size: int, most: int) -> None:
        self.starts = np.zeros(0, np.int64)  # absolute rows, in order
        self._begun = 0  # as many, counted from the first: the last start's state is in the slot before this
        self._most = most if state_size else 0
        self._ring = _ring(num_envs, state_size, self._most)

    @staticmethod
    def required_bytes(num_envs: int, state_size: int, most: int) -> int:
        """Bytes that the states of so many segments occupy."""
        return 4 * num_envs * state_size * most

    def begin(self, row: int, first: int, state: np.ndarray) -> None:
        """Marks `row`, the newest, as a start, and drops the starts before row `first`. A second mark replaces."""
        self.forget(row)
        self.starts = np.append(self.starts[self.starts >= first], row)
        self._begun += 1
        if self._most:
            self._ring[(self._begun - 1) % self._most] = state
            self.starts = self.starts[-self._most :]

    def forget(self, row: int) -> None:
        """Takes the mark of the newest row back, if it has one."""
        if len(self.starts) and self.starts[-1] == row:
            self.starts = self.starts[:-1]
            self._begun -= 1

    def states(self, starts: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """A copy [B, U] of the states of environments [B] at their starts [B], each of which is one of `starts`."""
        back = len(self.starts) - np.searchsorted(self.starts, starts)
        return self._ring[(self._begun - back) % self._most, envs]

    def save(self) -> dict[str, np.ndarray]:
        """All of it, as arrays."""
        slots = (self._begun - np.arange(len(self.starts), 0, -1)) % max(1, self._most)
        return {"segments": self.starts.copy(), **({"states": self._ring[slots]} if self._most else {})}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Brings back what `save` returned, of segments of the same sizes."""
        starts = np.array(state["segments"], np.int64)
        if self._most:
            _, num_envs, size = self._ring.shape
            self._ring = _ring(num_envs, size, self._most)
            self._ring[: len(starts)] = state["states"]
        self.starts, self._begun = starts, len(starts)


def _ring(num_envs: int, state_size: int, most: int) -> np.ndarray:
    shape = (most, num_envs, state_size)
    return zeros({"state": (shape, np.dtype(np.float32))})["state"] if most else np.zeros(shape, np.float32)
