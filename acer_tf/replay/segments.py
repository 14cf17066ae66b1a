"""Where collected segments start, and the state of the behaviour's recurrent network there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Segments:
    """The starts of the latest segments of N environments that move in lockstep, with a state [N, U] at each.

    States are stored per segment, not per row: U is much larger than most observations.

    Args:
        ring: [K, N, U] float32 zeros, to hold the states of the newest K segments; with U = 0 there are none, and no
            bound on the number of segments.
    """

    def __init__(self, ring: np.ndarray) -> None:
        self.starts = np.zeros(0, np.int64)  # absolute rows, in order
        self._begun = 0  # as many, counted from the first: the last start's state is in the slot before this
        self._ring, self._most = ring, len(ring) if ring.shape[2] else 0

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
        self.starts = np.array(state["segments"], np.int64)
        self._begun = len(self.starts)
        if self._most:
            self._ring[: self._begun] = state["states"]
