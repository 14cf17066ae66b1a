"""Priorities of stored items, and draws by them: proportional (`SumTree`) and rank-based (`RankHeap`).

Source: "Prioritized Experience Replay" (Schaul et al., 2016), §3.3, §3.4 and Appendix B.2.1. An item i is drawn with
probability

    P(i) = p_i^α / Σ_k p_k^α  (Eq. 1),    p_i = its priority, or 1 / rank(i) by priority,

and its update has the weight (N P(i))^−β, divided by the largest weight. A minibatch of k is stratified: one item is
drawn from each of k equal ranges of the probability mass. The replay sets the priorities (|δ| + ε in the paper; the
running maximum for a new item).

Every operation takes a whole batch: Python loops run over the levels of a tree, never over items.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

_LARGEST = 1e300  # the largest priority: sums of them remain finite
_FAN = 16  # children per node of a `SumTree`; fewer levels, and so fewer NumPy calls, than in a binary tree


def importance_weights(probabilities: np.ndarray, beta: float, *, least_probability: float | None = None) -> np.ndarray:
    """w_i = (N P(i))^−β / max_j w_j  (§3.4), [..., k] float64 in (0, 1]; the number of items N cancels.

    Args:
        probabilities: [..., k] P(i) > 0 of the drawn items, of batches of k.
        beta: β in [0, 1].
        least_probability: P of the item with the largest weight: over the whole memory
            (`Priorities.least_probability`, as in OpenAI baselines), or None for the batch's own (as in DQN Zoo). The
            paper does not say which.
    """
    least = probabilities.min(axis=-1, keepdims=True)
    if least_probability is not None:
        least = np.minimum(least, least_probability)  # NumPy's powers of one number and of many differ in the last bit
    weights: np.ndarray = (least / probabilities) ** beta
    return weights


class Priorities(ABC):
    """Priorities of some of the items 0 .. capacity−1: the interface of both structures.

    `indices` are vectors of integers in [0, capacity). Raises ValueError if α is outside [0, 1].
    """

    def __init__(self, capacity: int, alpha: float = 1.0) -> None:
        self.capacity, self.alpha, self._stored = capacity, math.nan, 0
        self._clear()
        self.set_alpha(alpha)

    def __len__(self) -> int:
        """N, the number of stored items."""
        return self._stored

    def set_alpha(self, alpha: float) -> None:
        """Changes α, in time proportional to capacity."""
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must lie in [0, 1], got {alpha}")
        if alpha != self.alpha:
            self.alpha = float(alpha)
            self._apply_alpha()

    def set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Stores items with priorities [m], or changes those of stored items; the last of equal indices counts.

        Raises:
            ValueError: a priority is not in [0, 1e300]; nothing has changed.
        """
        wrong = np.flatnonzero(~((priorities >= 0) & (priorities <= _LARGEST)))
        if len(wrong):
            raise ValueError(
                f"priorities must be finite, at least 0 and at most {_LARGEST:g}, got {priorities[wrong[0]]} "
                f"for index {indices[wrong[0]]}"
            )
        self._set(indices, priorities)

    def sample(self, k: int, generator: np.random.Generator, batches: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """k stratified draws with replacement: one from each of k equal ranges of the probability mass, in order.

        With M > 1 `batches` there are k for each, one batch after another. Returns [M k] int64 indices, and [M k]
        float64 P(i) of each. An item occurs k P(i) times in expectation. Raises ValueError if no item can be drawn.
        """
        if not self._stored:
            raise ValueError("sample() needs a stored item, but the memory is empty: set() priorities first")
        return self._sample((np.tile(np.arange(k), batches) + generator.random(batches * k)) / k)

    @abstractmethod
    def discard(self, indices: np.ndarray) -> None:
        """Removes items [m], so that they are not drawn; items that are not stored are ignored."""

    @abstractmethod
    def least_probability(self) -> float:
        """P of the least probable item that can be drawn, which there must be."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Copies of everything that is stored."""

    @abstractmethod
    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores what `state` of a structure of the same class and capacity returned."""

    @abstractmethod
    def _clear(self) -> None: ...

    @abstractmethod
    def _apply_alpha(self) -> None: ...

    @abstractmethod
    def _set(self, indices: np.ndarray, priorities: np.ndarray) -> None: ...

    @abstractmethod
    def _sample(self, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class SumTree(Priorities):
    """Proportional prioritization, P(i) ∝ p_i^α  (§3.3, Appendix B.2.1).

    The leaves hold p^α, and every inner node the sum of its children. The ancestors of changed leaves are recomputed
    from their children, level by level for the whole batch, so rounding errors do not accumulate.

    An item of priority 0 is drawn only if α is 0, since 0^0 = 1.
    """

    def _clear(self) -> None:
        self._priorities = np.full(self.capacity, np.nan)  # p; NaN: not stored
        self._sums = _Tree(self.capacity, np.add, 0.0)  # over p^α
        self._minima = _Tree(self.capacity, np.minimum, np.inf)  # over p^α > 0

    def discard(self, indices: np.ndarray) -> None:
        self._stored -= len(np.unique(indices[~np.isnan(self._priorities[indices])]))
        self._priorities[indices] = np.nan
        self._set_leaves(indices, np.zeros(len(indices)))

    def least_probability(self) -> float:
        return self._minima.root() / self._sums.root()

    def state(self) -> dict[str, np.ndarray]:
        return {"priorities": self._priorities.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._clear()
        self._priorities = np.array(state["priorities"])
        self._stored = int(np.count_nonzero(~np.isnan(self._priorities)))
        self._apply_alpha()

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

    def _clear(self) -> None:
        self._unsorted = 0  # priorities set since the last full sort
        # By place, from 1; children of place v are 2v and 2v + 1. The infinities stand for the root's parent and for
        # missing children.
        self._keys = np.full(2 * self.capacity + 2, -np.inf)
        self._keys[0] = np.inf
        self._items = np.zeros(self.capacity + 1, np.int64)
        self._places = np.zeros(self.capacity, np.int64)  # an item's place; 0: not stored

    def discard(self, indices: np.ndarray) -> None:
        places = np.unique(self._places[indices])
        places = places[places > 0]
        last = self._stored - len(places)
        holes, movers = places[places <= last], np.setdiff1d(np.arange(last + 1, self._stored + 1), places)
        self._places[self._items[places]] = 0
        self._put(holes, self._keys[movers], self._items[movers])
        self._keys[last + 1 : self._stored + 1] = -np.inf
        self._stored = last
        self._repair(holes)

    def least_probability(self) -> float:
        return float(self._probabilities(np.asarray(self._stored)))

    def state(self) -> dict[str, np.ndarray]:
        held = slice(1, self._stored + 1)
        return {
            "priorities": self._keys[held].copy(),
            "indices": self._items[held].copy(),
            "unsorted": np.asarray(self._unsorted),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._clear()
        self._stored, self._unsorted = len(state["indices"]), int(state["unsorted"])
        self._put(np.arange(1, self._stored + 1), state["priorities"], state["indices"])

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
            order = 1 + np.argsort(-self._keys[1 : self._stored + 1], kind="stable")
            self._put(np.arange(1, self._stored + 1), self._keys[order], self._items[order])
            self._unsorted = 0
        else:
            self._repair(places)

    def _put(self, places: np.ndarray, keys: np.ndarray | float, items: np.ndarray) -> None:
        self._keys[places], self._items[places], self._places[items] = keys, items, places

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
