"""What must hold in a replay and in its priorities, whatever they hold."""

from __future__ import annotations

import numpy as np

from acer_tf.replay import Priorities, RankHeap, SumTree, TrajectoryReplay
from acer_tf.replay.ring import SHOWN


def check_valid(replay: TrajectoryReplay) -> None:
    """Checks every invariant of the stored rows; the error names the one that does not hold."""
    spec, first = replay.spec, replay.rows - replay.stored
    age = replay._gather("age", np.arange(first, replay.rows + 1)).astype(int)
    row = {name: replay._gather(name, np.arange(first, replay.rows)) for name in replay._ring if name not in SHOWN}
    segments, chunks = replay._segments.starts, replay._chunks
    discrete = [
        ((row["action"] < spec.num_actions).all(), "actions are below A"),
        ((row["action"] >= 0).all(), "actions are not negative"),
        ((row["behaviour"] >= 0).all(), "probabilities are not negative"),
        (np.allclose(row["behaviour"].sum(axis=-1), 1, atol=1e-4), "probabilities sum to 1"),
    ]
    for holds, invariant in (
        (replay.started or not replay.stored, "rows are appended only after start()"),
        ((age <= spec.stack - 1).all(), "age is at most S - 1"),
        ((np.diff(age, axis=1) <= 1).all(), "age grows by at most 1 per row"),
        (first > 0 or (age[:, 0] == 0).all(), "the first row begins an episode"),
        (np.isin(row["discount"], (0, 1)).all(), "discounts are 0 or 1"),
        ((row["reward"][~row["mask"]] == 0).all(), "masked rows have reward 0"),
        ((row["discount"][~row["mask"]] == 1).all(), "masked rows have discount 1"),
        (np.isfinite(row["behaviour"]).all() and np.isfinite(row["action"]).all(), "actions and policy are finite"),
        *([] if spec.continuous else discrete),
        ((np.diff(segments) > 0).all() and (segments <= replay.rows).all(), "segments start in order"),
        (all(a.last == b.first for a, b in zip(chunks, chunks[1:], strict=False)), "chunks leave no gap"),
        (not chunks or chunks[-1].last <= replay.rows, "chunks hold no later rows"),
    ):
        assert holds, f"replay invariant broken: {invariant}"


def check_priorities(structure: Priorities) -> None:
    if isinstance(structure, SumTree):
        stored = ~np.isnan(structure._priorities)
        assert len(structure) == stored.sum(), "the count is the number of stored items"
        leaves = np.where(stored, np.nan_to_num(structure._priorities) ** structure.alpha, 0.0)
        smallest = np.where(leaves > 0, leaves, np.inf)
        assert np.array_equal(structure._sums.levels[0][: structure.capacity], leaves), "leaves are p^alpha"
        assert np.array_equal(structure._minima.levels[0][: structure.capacity], smallest), "no zero is a minimum"
        for tree in (structure._sums, structure._minima):
            for children, parents in zip(tree.blocks, tree.levels[1:], strict=False):
                reduced = tree.reduce.reduce(children, axis=1)
                assert np.array_equal(parents[: len(children)], reduced), "a node is the reduction of its children"
        return
    assert isinstance(structure, RankHeap)
    keys, stored = structure._keys, len(structure)
    places = np.arange(1, stored + 1)
    assert (keys[places // 2] >= keys[places]).all(), "no child exceeds its parent"
    assert np.array_equal(structure._places[structure._items[places]], places), "places and items are inverse"
    assert np.count_nonzero(structure._places) == stored, "only stored items have a place"
    assert (keys[stored + 1 :] == -np.inf).all(), "nothing is stored after the last place"


def priorities_of(structure: Priorities, indices: np.ndarray) -> np.ndarray:
    """[m] priorities of the items `indices` [m]; NaN for items that are not stored."""
    if isinstance(structure, SumTree):
        return structure._priorities[indices]
    assert isinstance(structure, RankHeap)
    places = structure._places[indices]
    return np.where(places > 0, structure._keys[places], np.nan)


def probabilities_of(structure: Priorities, indices: np.ndarray) -> np.ndarray:
    """[m] P(i) of the items `indices` [m], exactly as `sample` draws; 0 for items that are not stored."""
    if isinstance(structure, SumTree):
        leaves, total = structure._sums.levels[0][indices], structure._sums.root()
        return leaves / total if total else leaves
    assert isinstance(structure, RankHeap)
    places = structure._places[indices]
    return (
        np.where(places > 0, structure._probabilities(np.maximum(places, 1)), 0.0) if len(structure) else places * 0.0
    )
