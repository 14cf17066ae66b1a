"""Priorities of stored items, and draws by them: proportional (`SumTree`) and rank-based (`RankHeap`).

Source: "Prioritized Experience Replay" (Schaul et al., 2016), §3.3, §3.4 and Appendix B.2.1. An item i is drawn with
probability

    P(i) = p_i^α / Σ_k p_k^α  (Eq. 1),    p_i = its priority, or 1 / rank(i) by priority,

and its update has the weight (N P(i))^−β, divided by the largest weight. A minibatch of k is stratified: one item is
drawn from each of k equal ranges of the probability mass. The replay sets the priorities (|δ| + ε in the paper; the
running maximum for a new item).

Every operation takes a whole batch: Python loops run over the levels of a tree, never over items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

_LARGEST = 1e300  # the largest priority: sums of them remain finite


def importance_weights(probabilities: np.ndarray, beta: float, *, least_probability: float | None = None) -> np.ndarray:
    """w_i = (N P(i))^−β / max_j w_j  (§3.4); the number of items N cancels.

    Args:
        probabilities: [k] P(i) > 0 of the drawn items.
        beta: β in [0, 1].
        least_probability: P of the item with the largest weight: over the whole memory
            (`Priorities.least_probability`, as in OpenAI baselines), or None for that of the batch (as in DQN Zoo). The
            paper does not say which.

    Returns:
        [k] float64 in (0, 1]; exactly 1 if all probabilities are equal.

    Raises:
        ValueError: no probabilities, an argument out of range, or a `least_probability` above the batch's smallest.
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
    """β (or α) after a fraction of training: linear from `start` to `end`, constant after fraction 1  (§3.4).

    Raises:
        ValueError: `start` or `end` outside [0, 1], or a negative or NaN fraction.
    """
    start, end = _in_unit_range("start", start), _in_unit_range("end", end)
    if not fraction >= 0:
        raise ValueError(f"fraction must be at least 0, got {fraction}")
    fraction = min(1.0, fraction)
    return (1.0 - fraction) * start + fraction * end


class Priorities(ABC):
    """Priorities of some of the items 0 .. capacity−1: the interface of both structures.

    Methods raise ValueError if `indices` is not a vector of integers in [0, capacity), and then change nothing.

    Args:
        capacity: the number of items that can be stored.
        alpha: α in [0, 1]; with 0 all draws are uniform.

    Raises:
        ValueError: a capacity below 1, or α out of range.
    """

    def __init__(self, capacity: int, alpha: float) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = int(capacity)
        self.alpha = _in_unit_range("alpha", alpha)

    def set_alpha(self, alpha: float) -> None:
        """Changes α, in time proportional to capacity. Raises ValueError if it is out of range."""
        if alpha != self.alpha:
            self.alpha = _in_unit_range("alpha", alpha)
            self._apply_alpha()

    @abstractmethod
    def __len__(self) -> int:
        """N, the number of stored items."""

    def set(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Stores items with priorities, or changes the priorities of stored items.

        Args:
            indices: [m] integers. The last of equal ones counts, as in NumPy's assignment.
            priorities: [m] numbers in [0, 1e300].

        Raises:
            ValueError: also for priorities of another shape or out of range, or NaN.
        """
        indices = self._checked(indices)
        priorities = np.asarray(priorities, np.float64)
        if priorities.shape != indices.shape:
            raise ValueError(f"priorities must have the shape of indices, {indices.shape}, got {priorities.shape}")
        wrong = np.flatnonzero(~((priorities >= 0) & (priorities <= _LARGEST)))
        if len(wrong):
            raise ValueError(
                f"priorities must be finite, at least 0 and at most {_LARGEST:g}, got {priorities[wrong[0]]} "
                f"for index {indices[wrong[0]]}"
            )
        if len(indices):
            self._set(indices, priorities)

    @abstractmethod
    def discard(self, indices: np.ndarray) -> None:
        """Removes items [m], so that they are not drawn; items that are not stored are ignored."""

    def sample(self, k: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """k stratified draws with replacement: one from each of k equal ranges of the probability mass, in order.

        Returns:
            [k] int64 indices, and [k] float64 P(i) of each. An item occurs k P(i) times in expectation.

        Raises:
            ValueError: k below 1, or no item that can be drawn.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        if not len(self):
            raise ValueError("sample() needs a stored item, but the memory is empty: set() priorities first")
        return self._sample((np.arange(k) + generator.random(k)) / k)

    @abstractmethod
    def least_probability(self) -> float:
        """P of the least probable item that can be drawn, for weights normalised over the memory.

        Raises:
            ValueError: no item can be drawn.
        """

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """The whole state, as copies."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores what `state` returned, α included. If it raises, nothing is changed.

        Raises:
            ValueError: the state is of another structure or capacity.
        """
        expected = set(self.state())
        if set(state) != expected:
            raise ValueError(f"the state of a {type(self).__name__} holds {sorted(expected)}, got {sorted(state)}")
        if int(state["capacity"]) != self.capacity:
            raise ValueError(f"the saved priorities have capacity {int(state['capacity'])}, these {self.capacity}")
        alpha = _in_unit_range("alpha", float(state["alpha"]))
        self._restore(state)
        self.alpha = alpha
        self._apply_alpha()

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
        if indices.size and not (indices.min() >= 0 and indices.max() < self.capacity):
            wrong = indices[(indices < 0) | (indices >= self.capacity)][0]
            raise ValueError(f"indices must lie in [0, {self.capacity}), the capacity, got {wrong}")
        return indices


def _in_unit_range(name: str, value: Any) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")
    return float(value)
