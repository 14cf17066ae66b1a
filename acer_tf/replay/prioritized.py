"""Replay of items: drawn by the error that the last update found in them, or uniformly.

Source: "Prioritized Experience Replay" (Schaul et al., 2016), §3. An item is a transition there, and here for windows
of one row. For longer windows an item is a collected segment, an extension by this package. (A resumed run adds a
masked row to the replay; later items therefore begin before the collected segments do.)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from acer_tf.replay.priorities import RankHeap, SumTree, importance_weights
from acer_tf.replay.trajectories import TrajectoryReplay
from acer_tf.schedules import linear
from acer_tf.types import Batch, EnvironmentSpec

Priority = Literal["uniform", "proportional", "rank"]
_ITEM_BYTES = 40  # of a `RankHeap`, the larger structure


class PrioritizedReplay(TrajectoryReplay):
    """A `TrajectoryReplay` in which item j of an environment is its rows jT to (j + 1)T − 1.

    All environments share one memory: a draw takes B items of any environments, one from each of B equal shares of the
    probability. New items get the largest priority so far, initially 1; after an update an item gets |error| + ε. Items
    with only masked rows are never drawn.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        num_envs: int,
        capacity: int,
        unroll_length: int,
        seed: int,
        *,
        batch_size: int,
        priority: Priority,
        priority_exponent: tuple[float, float] = (0.0, 0.0),
        importance_exponent: tuple[float, float] = (0.0, 0.0),
        priority_epsilon: float = 1e-6,
        normalize_by_batch: bool = True,
        file: Path | None = None,
    ) -> None:
        """Allocates the ring and the priorities.

        Args:
            spec, num_envs, capacity, unroll_length, seed, file: as for `TrajectoryReplay`, errors too.
            batch_size: B, the number of items per draw.
            priority: "proportional", p = |error| + ε, "rank", p = 1 / (its rank), or "uniform": all items are equally
                likely, and the arguments below have no effect.
            priority_exponent: α in [0, 1] at the run's start and end; P ∝ p^α.
            importance_exponent: β in [0, 1] at the run's start and end; weights are (items · P)^−β.
            priority_epsilon: ε ≥ 0, with which items without an error can still be drawn.
            normalize_by_batch: divide weights by the largest in the batch, else by the largest of all items.
        """
        super().__init__(spec, num_envs, capacity, unroll_length, seed, file=file)
        self.draws_together = priority == "uniform"  # others depend on the errors that the previous update found
        self._batch_size, self._epsilon, self._by_batch = batch_size, priority_epsilon, normalize_by_batch
        self._alpha, self._beta = priority_exponent, importance_exponent
        if priority == "uniform":
            self._alpha = self._beta = (0.0, 0.0)  # with α = 0 all items are equally likely
        self._items = capacity // unroll_length  # per environment; item j is in place j mod this
        structure = RankHeap if priority == "rank" else SumTree
        self._priorities = structure(num_envs * self._items, self._alpha[0])
        self._largest = 1.0
        self._oldest = self._newest = 0  # items from oldest to newest − 1 have a priority

    @staticmethod
    def least_capacity(spec: EnvironmentSpec, unroll_length: int, state_size: int = 0, burn_in: int = 0) -> int:
        """The least capacity with which a full ring always has a whole item."""
        # After a resumed run's masked row, items do not begin where unrolls do; any 2T - 1 rows have a whole item.
        return 2 * unroll_length + spec.stack - 2

    @staticmethod
    def required_bytes(
        spec: EnvironmentSpec, num_envs: int, capacity: int, *, unroll_length: int = 1, state_size: int = 0
    ) -> int:
        """Bytes of a full ring of these sizes, and of the priorities of its items."""
        ring = TrajectoryReplay.required_bytes(spec, num_envs, capacity)
        return ring + _ITEM_BYTES * num_envs * (capacity // unroll_length)

    @property
    def can_sample(self) -> bool:
        self._follow()
        return len(self._priorities) > 0

    def blank(self, updates: int, trajectories: int) -> Batch:
        """Zeros in the shapes of M = `updates` replayed updates, which have a batch size of their own."""
        return super().blank(updates, self._batch_size)

    def batch(self, latest: np.ndarray, envs: np.ndarray, progress: float = 0.0) -> Batch:
        return super().batch(latest, envs) if latest.all() else self.draw(progress, len(latest))

    def draw(self, progress: float = 0.0, updates: int = 1) -> Batch:
        """B items for each of M `updates`, with their importance weights; M must be 1 unless `draws_together`.

        α and β depend on `progress`.

        Raises:
            ValueError: no item is complete yet (see `can_sample`), or all priorities are 0, with ε = 0 and α > 0.
        """
        self._follow()
        if self._alpha[0] != self._alpha[1]:
            # Setting α takes time in proportion to capacity, so it is rounded to change rarely.
            self._priorities.set_alpha(round(linear(*self._alpha, progress), 3))
        drawn = self._priorities.sample(self._batch_size, self._generator, updates)
        items, probabilities = (each.reshape(updates, self._batch_size) for each in drawn)
        least = None if self._by_batch else self._priorities.least_probability()
        weight = importance_weights(probabilities, linear(*self._beta, progress), least_probability=least)
        env, place = items % self.num_envs, items // self.num_envs
        number = self._newest - 1 - (self._newest - 1 - place) % self._items
        windows = self._windows(number * self._unroll_length, env)
        return Batch(windows, weight.astype(np.float32), None if self.draws_together else items)

    def update_priorities(self, batch: Batch, errors: np.ndarray) -> None:
        """Sets the priorities of a batch's items, if it has any; ValueError if an error is not finite."""
        if batch.items is None:
            return
        priorities = np.asarray(errors, np.float64).ravel() + self._epsilon
        self._priorities.set(batch.items.ravel(), priorities)
        self._largest = max(self._largest, float(priorities.max()))

    def save(self, folder: Path) -> dict[str, np.ndarray]:
        self._follow()
        mine = {f"priorities/{name}": array for name, array in self._priorities.state().items()}
        counters = np.array([self._oldest, self._newest], np.int64)
        return super().save(folder) | mine | {"largest": np.array(self._largest), "items": counters}

    def restore(self, folder: Path, state: Mapping[str, np.ndarray], *, salvage: bool = False) -> None:
        largest, (oldest, newest) = float(state["largest"]), map(int, state["items"])
        super().restore(folder, state, salvage=salvage)
        self._priorities.restore({name.removeprefix("priorities/"): array for name, array in state.items()})
        self._largest, self._oldest, self._newest = largest, oldest, newest

    def _layout(self) -> dict[str, Any]:
        return super()._layout() | {"priorities": type(self._priorities).__name__}

    def _follow(self) -> None:
        """Adds priorities of items that are now complete, and discards those of items with an overwritten row."""
        length, first = self._unroll_length, self.rows - self.stored
        # The oldest rows' frame stacks cannot be rebuilt where the frames before them are overwritten, or in no log.
        whole = not first and not self._gather("age", np.zeros(1, np.int64)).any()
        oldest = 0 if whole else -(-(first + self.spec.stack - 1) // length)
        newest = self.rows // length
        gone = np.arange(self._oldest, min(oldest, self._newest))
        new = np.arange(max(self._newest, oldest), newest)
        self._oldest, self._newest = max(oldest, self._oldest), max(newest, self._newest)
        if not len(gone) + len(new):
            return
        rows = new[:, None] * length + np.arange(length)
        alive = self._gather("mask", rows.ravel()).reshape(self.num_envs, *rows.shape).any(axis=2)
        each = np.arange(self.num_envs)[:, None]
        items = new % self._items * self.num_envs + each
        # Discarded first, because a new item may have the place of an old one.
        self._priorities.discard((gone % self._items * self.num_envs + each).ravel())
        self._priorities.set(items[alive], np.full(alive.sum(), self._largest))
