"""The rows where collected segments start, with the behaviour's recurrent state there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Segments:
    """The starts of the latest segments of N environments in lockstep, with a state [N, U] at each.

    States are stored per segment, not per row, because U is much larger than most observations.

    Args:
        ring: [K, N, U] float32 zeros, for the states of the newest K segments; with U = 0 the number of segments is not
            bounded.
    """

    def __init__(self, ring: np.ndarray) -> None:
        self.starts = np.zeros(0, np.int64)  # absolute rows, in order
        self._begun = 0  # segments ever begun; the state of the last is in slot (_begun - 1) mod K
        self._ring, self._most = ring, len(ring) if ring.shape[2] else 0

    def begin(self, row: int, first: int, state: np.ndarray) -> None:
        """Marks the newest row as a start (again, with another state), and drops the starts before row `first`."""
        self.forget(row)
        self.starts = np.append(self.starts[self.starts >= first], row)
        self._begun += 1
        if self._most:
            self._ring[(self._begun - 1) % self._most] = state
            self.starts = self.starts[-self._most :]

    def forget(self, row: int) -> None:
        """Removes the mark of the newest row, if it has one."""
        if len(self.starts) and self.starts[-1] == row:
            self.starts = self.starts[:-1]
            self._begun -= 1

    def states(self, starts: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """A copy [B, U] of the states of environments [B] at the given starts [B]."""
        back = len(self.starts) - np.searchsorted(self.starts, starts)
        return self._ring[(self._begun - back) % self._most, envs]

    def save(self) -> dict[str, np.ndarray]:
        slots = (self._begun - np.arange(len(self.starts), 0, -1)) % max(1, self._most)
        return {"segments": self.starts.copy(), **({"states": self._ring[slots]} if self._most else {})}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.starts = np.array(state["segments"], np.int64)
        self._begun = len(self.starts)
        if self._most:
            self._ring[: self._begun] = state["states"]
