"""Rank-based prioritization: a binary heap that is nearly sorted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from acer_tf.replay.priorities.interface import Priorities


class RankHeap(Priorities):
    """Rank-based prioritization, P(i) ∝ (1 / rank(i))^α  (§3.3, Appendix B.2.1).

    A binary heap approximates the sorted array: an item's rank is its place in the heap, 1 for the largest priority.

    The paper draws from a piecewise-linear approximation of the cumulative distribution, recomputed as N changes; here
    no approximation is needed: the prefix sums Σ_{r ≤ j} r^−α do not depend on N, so one table serves every N and k,
    and draws follow exactly the probabilities that are returned.

    After a batch of updates the heap is repaired in rounds, each a few NumPy calls. A node is *open* while its children
    may exceed it: at first the updated places and their parents. A round takes the open nodes of the even or of the odd
    levels; these share no child, so all can be exchanged with their larger child at once. An exchange opens the node's
    parent and the child, which are of the other parity. When no node is open, the heap is valid.
    """

    sort_interval = 1_000_000  # priorities set between full sorts (the paper: 10^6 steps)

    def __init__(self, capacity: int, alpha: float = 1.0) -> None:
        """Makes an empty heap; arguments and errors are those of `Priorities`."""
        super().__init__(capacity, alpha)
        self._unsorted = 0  # priorities set since the last full sort
        # By place, from 1; children of place v are 2v and 2v + 1. The infinities stand for the root's parent and for
        # missing children.
        self._keys = np.full(2 * capacity + 2, -np.inf)
        self._keys[0] = np.inf
        self._items = np.zeros(capacity + 1, np.int64)
        self._places = np.zeros(capacity, np.int64)  # by item; 0: not stored
        self._stored = 0
        self._apply_alpha()

    def __len__(self) -> int:
        return self._stored

    def discard(self, indices: np.ndarray) -> None:
        places = np.unique(self._places[self._checked(indices)])
        places = places[places > 0]
        last = self._stored - len(places)
        holes, movers = places[places <= last], np.setdiff1d(np.arange(last + 1, self._stored + 1), places)
        self._places[self._items[places]] = 0
        self._put(holes, self._keys[movers], self._items[movers])
        self._keys[last + 1 : self._stored + 1] = -np.inf
        self._stored = last
        self._repair(holes)

    def least_probability(self) -> float:
        if not self._stored:
            raise ValueError("least_probability() needs a stored item, but the memory is empty")
        return float(self._probabilities(np.asarray(self._stored)))

    def state(self) -> dict[str, np.ndarray]:
        return {
            "capacity": np.asarray(self.capacity),
            "alpha": np.asarray(self.alpha),
            "priorities": self._keys[1 : self._stored + 1].copy(),
            "indices": self._items[1 : self._stored + 1].copy(),
            "unsorted": np.asarray(self._unsorted),
        }

    def _apply_alpha(self) -> None:
        self._cumulative = np.zeros(self.capacity + 1)
        np.cumsum(np.arange(1, self.capacity + 1) ** -self.alpha, out=self._cumulative[1:])

    def _probabilities(self, places: np.ndarray) -> np.ndarray:
        powers: np.ndarray = places**-self.alpha
        return powers / self._cumulative[self._stored]

    def _sample(self, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cumulative = self._cumulative[: self._stored + 1]
        places = np.minimum(np.searchsorted(cumulative, quantiles * cumulative[-1], side="right"), self._stored)
        return self._items[places], self._probabilities(places)

    def _set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        new = np.unique(indices[self._places[indices] == 0])
        self._put(np.arange(self._stored + 1, self._stored + 1 + len(new)), -np.inf, new)
        self._stored += len(new)
        places = self._places[indices]
        self._keys[places] = priorities
        self._unsorted += len(indices)
        if self._unsorted >= self.sort_interval or 4 * len(indices) >= self._stored:
            self._sort()
        else:
            self._repair(places)

    def _put(self, places: np.ndarray, keys: np.ndarray | float, items: np.ndarray) -> None:
        self._keys[places], self._items[places], self._places[items] = keys, items, places

    def _sort(self) -> None:
        order = 1 + np.argsort(-self._keys[1 : self._stored + 1], kind="stable")
        self._put(np.arange(1, self._stored + 1), self._keys[order], self._items[order])
        self._unsorted = 0

    def _repair(self, places: np.ndarray) -> None:
        keys, items = self._keys, self._items
        opened = np.concatenate((places, places // 2))
        odd = np.frexp(opened)[1] % 2 == 1  # the exponent of a place is its level
        now, later, most = opened[odd], opened[~odd], 2 * len(opened)
        while len(now) or len(later):
            if len(now) > most:  # nodes may be opened more than once
                now = np.unique(now)
            child = 2 * now
            child += keys[child + 1] > keys[child]
            key, child_key = keys[now], keys[child]
            exchanged = np.flatnonzero(child_key > key)
            if len(exchanged):
                now, child = now[exchanged], child[exchanged]
                item, child_item = items[now], items[child]
                self._put(now, child_key[exchanged], child_item)
                self._put(child, key[exchanged], item)
                later = np.concatenate((later, now // 2, child))
            now, later = later, now[:0]

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._keys[1:] = -np.inf
        self._places[:] = 0
        self._stored, self._unsorted = len(state["indices"]), int(state["unsorted"])
        self._put(np.arange(1, self._stored + 1), state["priorities"], state["indices"])
