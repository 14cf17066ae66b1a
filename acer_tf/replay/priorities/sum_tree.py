"""Proportional prioritization: a sum tree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from acer_tf.replay.priorities.interface import Priorities

_FAN = 16  # children per node; fewer levels, and so fewer NumPy calls, than in a binary tree


class SumTree(Priorities):
    """Proportional prioritization, P(i) ∝ p_i^α  (§3.3, Appendix B.2.1).

    The leaves hold p^α, and every inner node the sum of its children. The ancestors of changed leaves are recomputed
    from their children, level by level for the whole batch, so rounding errors do not accumulate.

    An item of priority 0 is drawn only if α is 0, since 0^0 = 1.
    """

    def __init__(self, capacity: int, alpha: float = 1.0) -> None:
        """Makes an empty tree; arguments and errors are those of `Priorities`."""
        super().__init__(capacity, alpha)
        self._priorities = np.full(capacity, np.nan)  # p; NaN: not stored
        self._stored = 0
        self._sums = _Tree(capacity, np.add, 0.0)  # over p^α
        self._minima = _Tree(capacity, np.minimum, np.inf)  # over p^α > 0

    def __len__(self) -> int:
        return self._stored

    def discard(self, indices: np.ndarray) -> None:
        indices = self._checked(indices)
        self._stored -= len(np.unique(indices[~np.isnan(self._priorities[indices])]))
        self._priorities[indices] = np.nan
        self._set_leaves(indices, np.zeros(len(indices)))

    def least_probability(self) -> float:
        least = self._minima.root()
        if least == np.inf:
            raise ValueError("least_probability() needs an item with a priority above 0, but none is stored")
        return least / self._sums.root()

    def state(self) -> dict[str, np.ndarray]:
        return {
            "capacity": np.asarray(self.capacity),
            "alpha": np.asarray(self.alpha),
            "priorities": self._priorities.copy(),
        }

    def _apply_alpha(self) -> None:
        stored = np.flatnonzero(~np.isnan(self._priorities))
        self._set_leaves(stored, self._priorities[stored] ** self.alpha)

    def _set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        if self._stored < self.capacity:
            self._stored += len(np.unique(indices[np.isnan(self._priorities[indices])]))
        self._priorities[indices] = priorities
        self._set_leaves(indices, priorities**self.alpha)

    def _set_leaves(self, indices: np.ndarray, values: np.ndarray) -> None:
        self._sums.set(indices, values)
        self._minima.set(indices, np.where(values > 0, values, np.inf))

    def _sample(self, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = self._sums.root()
        if not total:
            raise ValueError("sample() needs an item that can be drawn, but all stored priorities are 0")
        mass = total * quantiles
        nodes, rows = np.zeros(len(mass), np.int64), np.arange(len(mass))
        below = np.zeros((len(mass), _FAN + 1))  # column c: the mass of the children before child c
        for blocks in reversed(self._sums.blocks):
            np.cumsum(blocks[nodes], axis=1, out=below[:, 1:])
            # By rounding, the remaining mass may reach the node's total; it then means the last child with any mass.
            # The mass of the child found is above 0, because `below` rises there.
            mass = np.minimum(mass, np.nextafter(below[:, -1], 0))
            child = np.count_nonzero(below[:, 1:] <= mass[:, None], axis=1)
            mass = mass - below[rows, child]
            nodes = nodes * _FAN + child
        return nodes, self._sums.levels[0][nodes] / total

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._priorities = np.array(state["priorities"])
        self._stored = int(np.count_nonzero(~np.isnan(self._priorities)))
        self._sums = _Tree(self.capacity, np.add, 0.0)
        self._minima = _Tree(self.capacity, np.minimum, np.inf)


class _Tree:
    """Numbers at the leaves, and at every inner node the reduction of its children, up to a last block below the root.

    Level 0 holds the leaves; `blocks` are views of the levels whose row b holds the children of node b of the next one.
    """

    def __init__(self, capacity: int, reduce: np.ufunc, empty: float) -> None:
        self.reduce = reduce
        self.levels: list[np.ndarray] = []
        count = capacity
        while not self.levels or count > 1:
            count = -(-count // _FAN)
            self.levels.append(np.full(count * _FAN, empty))
        self.blocks = [level.reshape(-1, _FAN) for level in self.levels]

    def root(self) -> float:
        return float(self.reduce.reduce(self.levels[-1]))

    def set(self, leaves: np.ndarray, values: np.ndarray) -> None:
        self.levels[0][leaves] = values
        nodes = leaves
        for blocks, parents in zip(self.blocks, self.levels[1:], strict=False):
            if len(nodes) < len(blocks):
                nodes = nodes // _FAN  # duplicates are reduced repeatedly, with the same result
                parents[nodes] = self.reduce.reduce(blocks[nodes], axis=1)
            else:
                self.reduce.reduce(blocks, axis=1, out=parents[: len(blocks)])
