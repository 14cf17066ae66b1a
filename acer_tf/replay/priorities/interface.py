"""Priorities of stored items, and draws by them: proportional (`SumTree`) and rank-based (`RankHeap`).

Source: "Prioritized Experience Replay" (Schaul et al., 2016), §3.3, §3.4 and Appendix B.2.1. An item i is drawn with
probability

    P(i) = p_i^α / Σ_k p_k^α  (Eq. 1),    p_i = its priority, or 1 / rank(i) by priority,

and its update is weighted by (N P(i))^−β, over the largest such weight. A minibatch of k is stratified: the
probability mass is split into k equal ranges, and each gives one draw. What an item's priority is (|δ| + ε in the
paper; the running maximum for a new item) is the replay's business.

Both structures have one face, so a proportional replay and a rank-based one differ in which of them they hold. Every
operation takes a whole batch: there are Python loops over the levels of a tree, none over items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

_LARGEST = 1e300  # of a priority: so many of them still have a finite sum


def importance_weights(probabilities: np.ndarray, beta: float, *, least_probability: float | None = None) -> np.ndarray:
    """w_i = (N P(i))^−β / max_j w_j  (§3.4), in which the number of items N cancels.

    Args:
        probabilities: [k] P(i) > 0 of the drawn items, as `sample` returns them.
        beta: β in [0, 1]: 0 for no correction, 1 for a full one.
        least_probability: P of the least probable item, whose weight is the largest: of the whole memory
            (`Priorities.least_probability`, as OpenAI baselines), or None for that of this batch (as DQN Zoo). The
            paper does not say which.

    Returns:
        [k] float64 in (0, 1]; exactly 1 where all probabilities are equal.

    Raises:
        ValueError: no probabilities, one that is not in (0, 1], β outside [0, 1], or a least probability that is none.
    """
    probabilities = np.asarray(probabilities, np.float64)
    if not (probabilities.size and ((probabilities > 0) & (probabilities <= 1)).all()):
        raise ValueError(f"probabilities must be one or more numbers in (0, 1], got {probabilities.tolist()}")
    smallest = probabilities.min()
    least = smallest if least_probability is None else least_probability
    if not 0 < least <= smallest * (1 + 1e-9):  # NumPy's powers of one number and of many differ in the last bit
        raise ValueError(f"least_probability must lie in (0, {smallest}], the batch's smallest, got {least}")
    least = min(least, smallest)
    weights: np.ndarray = (least / probabilities) ** _in_unit_range("beta", beta)
    return weights


def annealed(start: float, end: float, fraction: float) -> float:
    """β (or α) after this share of training: linear from `start` to `end`, which it keeps from then on  (§3.4).

    Args:
        start: at the beginning.
        end: when `fraction` is 1; 1 for the paper's β.
        fraction: of training that is done; more than 1 counts as 1.

    Raises:
        ValueError: `start` or `end` outside [0, 1], or a negative or NaN fraction.
    """
    start, end = _in_unit_range("start", start), _in_unit_range("end", end)
    if not fraction >= 0:
        raise ValueError(f"fraction must be at least 0, got {fraction}")
    fraction = min(1.0, fraction)
    return (1.0 - fraction) * start + fraction * end


class Priorities(ABC):
    """The face of both structures: priorities of the items 0 .. capacity−1, of which some are stored."""

    def __init__(self, capacity: int, alpha: float) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._capacity = int(capacity)
        self._alpha = _in_unit_range("alpha", alpha)

    @property
    def capacity(self) -> int:
        """The number of items that can be stored."""
        return self._capacity

    @property
    def alpha(self) -> float:
        """α in [0, 1], how much priorities matter: 0 not at all. Setting it takes time in proportion to capacity."""
        return self._alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        if alpha != self._alpha:
            self._alpha = _in_unit_range("alpha", alpha)
            self._apply_alpha()

    @abstractmethod
    def __len__(self) -> int:
        """N, the number of stored items."""

    @abstractmethod
    def get(self, indices: np.ndarray) -> np.ndarray:
        """[m] float64 priorities of the items `indices` [m]; NaN for one that is not stored.

        Raises:
            ValueError: `indices` is not a vector of integers in [0, capacity).
        """

    def set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Stores items, and gives those that are stored already new priorities.

        Args:
            indices: [m] integers. Of several equal ones the last counts, as in NumPy's assignment.
            priorities: [m] numbers in [0, 1e300].

        Raises:
            ValueError: other shapes, an index outside [0, capacity), a negative, NaN, infinite or larger priority.
                Nothing is changed.
        """
        indices = self._checked(indices)
        priorities = np.asarray(priorities, np.float64)
        if priorities.shape != indices.shape:
            raise ValueError(f"priorities must be as many as indices, {indices.shape}, got {priorities.shape}")
        if not ((priorities >= 0) & (priorities <= _LARGEST)).all():
            worst = int(np.flatnonzero(~((priorities >= 0) & (priorities <= _LARGEST)))[0])
            raise ValueError(
                f"priorities must be finite, at least 0 and at most {_LARGEST:g}, got {priorities[worst]} "
                f"for index {indices[worst]}"
            )
        if len(indices):
            self._set(indices, priorities)

    @abstractmethod
    def discard(self, indices: np.ndarray) -> None:
        """Takes items [m] out, so that they are not drawn; one that is not stored is left so.

        Raises:
            ValueError: `indices` is not a vector of integers in [0, capacity).
        """

    def sample(self, k: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """k stratified draws with replacement: one from each of k equal ranges of the probability mass, in order.

        Args:
            k: the number of draws.
            generator: gives k uniform numbers, and nothing else is drawn from it.

        Returns:
            [k] int64 indices, and [k] float64 P(i) of each. An item occurs k P(i) times in expectation.

        Raises:
            ValueError: k below 1, or no item that can be drawn.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if not len(self):
            raise ValueError("sample() needs a stored item, the memory is empty: set() priorities first")
        return self._sample((np.arange(k) + generator.random(k)) / k)

    @abstractmethod
    def probabilities(self, indices: np.ndarray) -> np.ndarray:
        """[m] float64 P(i) of the items `indices` [m], exactly as `sample` draws; 0 for one that is not stored.

        Raises:
            ValueError: `indices` is not a vector of integers in [0, capacity).
        """

    @abstractmethod
    def least_probability(self) -> float:
        """P of the least probable item that can be drawn, for weights normalised over the memory.

        Raises:
            ValueError: no item can be drawn.
        """

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Everything that later draws depend on but the generator, as plain arrays that are the caller's own."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Brings back what `state` returned, α included. If it raises, nothing is changed.

        Raises:
            ValueError: the state is of another structure, or of another capacity.
        """
        expected = set(self.state())
        if set(state) != expected:
            raise ValueError(f"the state of a {type(self).__name__} holds {sorted(expected)}, got {sorted(state)}")
        if int(state["capacity"]) != self._capacity:
            raise ValueError(f"the saved priorities have capacity {int(state['capacity'])}, these {self._capacity}")
        alpha = _in_unit_range("alpha", float(state["alpha"]))
        self._restore(state)
        self._alpha = alpha
        self._apply_alpha()

    @abstractmethod
    def check_valid(self) -> None:
        """Checks every invariant, for tests.

        Raises:
            AssertionError: one does not hold.
        """

    @abstractmethod
    def _apply_alpha(self) -> None: ...

    @abstractmethod
    def _set(self, indices: np.ndarray, priorities: np.ndarray) -> None: ...

    @abstractmethod
    def _sample(self, quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...

    @abstractmethod
    def _restore(self, state: Mapping[str, np.ndarray]) -> None: ...

    def _checked(self, indices: np.ndarray) -> np.ndarray:
        indices = np.asarray(indices)
        if indices.ndim != 1 or not (indices.dtype.kind in "iu" or indices.size == 0):
            raise ValueError(f"indices must be a vector of integers, got {indices.dtype} of shape {indices.shape}")
        indices = indices.astype(np.int64, copy=False)
        if indices.size and not (indices.min() >= 0 and indices.max() < self._capacity):
            wrong = indices[(indices < 0) | (indices >= self._capacity)][0]
            raise ValueError(f"indices must lie in [0, {self._capacity}), the capacity, got {wrong}")
        return indices


def _in_unit_range(name: str, value: Any) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")
    return float(value)
