import numpy as np
import pytest

from acer_tf.replay.priorities import Priorities, RankHeap, SumTree, importance_weights
from tests.replay.checks import check_priorities, priorities_of, probabilities_of

STRUCTURES = [SumTree, RankHeap]


def heap_of(capacity, alpha=1.0, *, sort_interval):
    heap = RankHeap(capacity, alpha)
    heap.sort_interval = sort_interval
    return heap


class Quantile:
    """A generator whose uniform numbers are all equal."""

    def __init__(self, value):
        self.value = value

    def random(self, k):
        return np.full(k, self.value)


class Twin:
    """The same content in a dictionary, one item at a time."""

    def __init__(self):
        self.priorities = {}

    def set(self, indices, priorities):
        for index, priority in zip(indices.tolist(), priorities.tolist(), strict=True):
            self.priorities[index] = priority

    def discard(self, indices):
        for index in indices.tolist():
            self.priorities.pop(index, None)

    def get(self, capacity):
        return np.array([self.priorities.get(index, np.nan) for index in range(capacity)])

    def proportional(self, capacity, alpha):
        powers = {index: p**alpha for index, p in self.priorities.items()}
        return np.array([powers.get(index, 0.0) for index in range(capacity)]) / sum(powers.values())

    def rank_based(self, capacity, alpha):
        """By exact rank; no two priorities may be equal."""
        order = sorted(self.priorities, key=self.priorities.__getitem__, reverse=True)
        powers = {index: (1 / rank) ** alpha for rank, index in enumerate(order, start=1)}
        return np.array([powers.get(index, 0.0) for index in range(capacity)]) / sum(powers.values())


def random_operations(structure, twin, generator, steps, batch, before_each=lambda: None):
    """Sets, with duplicates of different values, and discards; yields after each."""
    for step in range(steps):
        before_each()
        # From a third of the items: many indices occur twice in a batch.
        indices = generator.integers(max(1, structure.capacity // 3), size=batch) * 3 % structure.capacity + step % 3
        indices %= structure.capacity
        if step % 5 == 4:
            structure.discard(indices)
            twin.discard(indices)
        else:
            # Some very large, some very small, some equal.
            priorities = generator.choice([generator.random(batch), 10.0 ** generator.integers(-9, 9, size=batch)])
            structure.set(indices, priorities)
            twin.set(indices, priorities)
        yield


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(("capacity", "batch"), [(1, 1), (2, 3), (16, 5), (17, 5), (300, 32), (1000, 64), (5000, 7)])
@pytest.mark.parametrize("seed", range(3))
def test_it_holds_what_a_dictionary_holds(structure, capacity, batch, seed):
    held, twin = structure(capacity, alpha=0.7), Twin()
    for _ in random_operations(held, twin, np.random.default_rng(seed), 60, batch):
        check_priorities(held)
        assert len(held) == len(twin.priorities)
        np.testing.assert_array_equal(priorities_of(held, np.arange(capacity)), twin.get(capacity))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_proportional_probabilities_are_the_twin_s(alpha, seed):
    tree, twin = SumTree(300, alpha), Twin()
    for _ in random_operations(tree, twin, np.random.default_rng(seed), 40, 32):
        exact = twin.proportional(300, alpha)
        np.testing.assert_allclose(probabilities_of(tree, np.arange(300)), exact, rtol=1e-12)
        np.testing.assert_allclose(tree._sums.root(), sum(p**alpha for p in twin.priorities.values()), rtol=1e-12)
        np.testing.assert_allclose(tree.least_probability(), exact[exact > 0].min(), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_rank_based_probabilities_are_the_twin_s_where_the_heap_is_sorted(alpha, seed):
    heap, twin, generator = heap_of(300, alpha, sort_interval=1), Twin(), np.random.default_rng(seed)
    for _ in range(40):
        indices, priorities = generator.integers(300, size=32), generator.random(32)
        heap.set(indices, priorities)
        twin.set(indices, priorities)
        exact = twin.rank_based(300, alpha)
        np.testing.assert_allclose(probabilities_of(heap, np.arange(300)), exact, rtol=1e-10)
        np.testing.assert_allclose(heap.least_probability(), exact[exact > 0].min(), rtol=1e-10)


def test_the_heap_is_approximately_sorted_between_sorts_and_exactly_by_a_sort():
    generator = np.random.default_rng(0)
    size, everything = 2000, np.arange(2000)
    heap = heap_of(size, sort_interval=200 * 32)
    heap.set(everything, generator.random(size))  # a batch this large is sorted at once

    def by_place():
        return np.argsort(-probabilities_of(heap, everything), kind="stable")

    assert (np.diff(priorities_of(heap, by_place())) <= 0).all()
    for _ in range(199):
        indices, _ = heap.sample(32, generator)
        heap.set(indices, generator.random(32))
    check_priorities(heap)
    nearly_sorted = priorities_of(heap, by_place())
    assert (np.diff(nearly_sorted) > 0).any()
    assert np.corrcoef(np.argsort(np.argsort(-nearly_sorted)), everything)[0, 1] > 0.6
    heap.set(np.arange(32), generator.random(32))
    assert (np.diff(priorities_of(heap, by_place())) <= 0).all()


def test_a_heap_is_sorted_after_a_million_priorities_as_in_the_paper():
    size, generator = 20_000, np.random.default_rng(0)
    heap, everything = RankHeap(size, 1.0), np.arange(size)

    def is_sorted():
        order = np.argsort(-probabilities_of(heap, everything), kind="stable")
        return bool((np.diff(priorities_of(heap, order)) <= 0).all())

    heap.set(everything, generator.random(size))
    for _ in range(249):
        heap.set(generator.permutation(size)[:4000], generator.random(4000))
    assert not is_sorted()
    heap.set(generator.permutation(size)[:3999], generator.random(3999))
    assert not is_sorted()
    heap.set(everything[:1], generator.random(1))
    assert is_sorted()


def test_repeated_updates_to_the_same_and_to_equal_priorities_keep_the_heap():
    heap = RankHeap(4096)
    heap.set(np.arange(4096), np.ones(4096))
    for new in (2.0, 1.0, 0.0, 1.0):
        for first in range(0, 4096, 256):
            heap.set(np.repeat(np.arange(first, first + 256, 2), 2), np.tile([9.0, new], 128))
            check_priorities(heap)
    assert (priorities_of(heap, np.arange(4096)) == 1).all()


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("k", [1, 7])
def test_items_are_drawn_as_often_as_their_probabilities_say(structure, alpha, k):
    generator = np.random.default_rng(1)
    held = structure(40, alpha)
    held.set(np.arange(0, 40, 2), generator.exponential(size=20))
    counts, draws = np.zeros(40), 7_000 // k
    for _ in range(draws):
        indices, probabilities = held.sample(k, generator)
        np.testing.assert_array_equal(probabilities, probabilities_of(held, indices))
        np.add.at(counts, indices, 1)
    expected = probabilities_of(held, np.arange(40)) * draws * k
    assert expected.sum() == pytest.approx(draws * k) and (counts[1::2] == 0).all() and (expected[1::2] == 0).all()
    # The 99.9 % quantile of χ² with 19 degrees of freedom. Stratification can only make the counts more regular.
    assert np.sum((counts - expected)[::2] ** 2 / expected[::2]) < 43.8


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_batch_has_one_draw_from_each_equal_range(structure):
    held, k = structure(1000, alpha=0.8), 32
    held.set(np.arange(1000), np.random.default_rng(0).exponential(size=1000))
    if structure is RankHeap:  # ranges lie in the order of ranks, those of the tree in that of indices
        order = np.argsort(-probabilities_of(held, np.arange(1000)), kind="stable")
    else:
        order = np.arange(1000)
    upper = dict(zip(order.tolist(), np.cumsum(probabilities_of(held, order)), strict=True))
    for seed in range(50):
        indices, probabilities = held.sample(k, np.random.default_rng(seed))
        ends = np.array([upper[index] for index in indices.tolist()])
        # The item's share of the mass overlaps the range.
        assert (ends > np.arange(k) / k - 1e-12).all() and (
            ends - probabilities < np.arange(1, k + 1) / k + 1e-12
        ).all()


@pytest.mark.parametrize(("size", "alpha", "k"), [(1000, 0.7, 32), (1000, 0.5, 7), (12, 1.0, 32), (10_000, 0.0, 10)])
def test_the_segments_of_ranks_begin_where_the_exact_cumulative_sums_say(size, alpha, k):
    heap = RankHeap(10_000, alpha)
    heap.set(np.arange(size), np.arange(size, 0, -1.0))  # index i has rank i + 1
    cumulative = np.cumsum([rank**-alpha for rank in range(1, size + 1)])
    cumulative /= cumulative[-1]
    first = [next(i for i in range(size) if cumulative[i] > s / k + 1e-13) for s in range(k)]
    last = [next(i for i in range(size) if cumulative[i] >= (s + 1) / k - 1e-13) for s in range(k)]
    assert heap.sample(k, Quantile(1e-9))[0].tolist() == first
    assert heap.sample(k, Quantile(1 - 1e-9))[0].tolist() == last


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("size", [1, 3, 49, 1000])
def test_alpha_zero_is_exactly_uniform_with_weights_of_exactly_one(structure, size):
    held = structure(1000, alpha=0.0)
    held.set(np.arange(size), np.random.default_rng(0).permutation(size) * 3.7)  # one of them 0
    assert (probabilities_of(held, np.arange(size)) == 1 / size).all()
    indices, probabilities = held.sample(64, np.random.default_rng(0))
    assert (probabilities == 1 / size).all()
    assert (importance_weights(probabilities, 0.4) == 1).all()
    assert (importance_weights(probabilities, 0.4, least_probability=held.least_probability()) == 1).all()
    # Each of k equal ranges of the indices (of the ranks) has one draw.
    if structure is SumTree:
        assert np.array_equal(indices, np.floor((np.arange(64) + np.random.default_rng(0).random(64)) / 64 * size))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_alpha_may_change(structure):
    generator = np.random.default_rng(0)
    priorities = generator.random(100)
    held, twin = structure(120, alpha=0.5), structure(120, alpha=0.2)
    for each in (held, twin):
        each.set(np.arange(100), priorities)
    held.set_alpha(0.2)
    check_priorities(held)
    np.testing.assert_array_equal(probabilities_of(held, np.arange(120)), probabilities_of(twin, np.arange(120)))
    assert held.alpha == 0.2


def test_an_item_of_priority_0_is_never_drawn():
    generator = np.random.default_rng(0)
    extreme = np.array([0.0, 0.0, 1e-300, 0.0, 5e-324, 1e300, 0.0, 1e-17, 1.0, 0.0, 0.1, 0.0, 0.0])
    for _ in range(200):
        tree = SumTree(400)
        tree.set(np.arange(400), generator.choice(extreme, size=400))
        for quantile in (0.0, 0.5, np.nextafter(1.0, 0.0), 1.0):
            indices, probabilities = tree.sample(5, Quantile(quantile))
            assert (priorities_of(tree, indices) > 0).all()
            np.testing.assert_array_equal(probabilities, priorities_of(tree, indices) / tree._sums.root())
    alone = SumTree(400)
    alone.set(np.array([399, 3]), np.array([0.0, 5e-324]))
    assert alone.sample(3, Quantile(1.0))[0].tolist() == [3, 3, 3]


def test_sums_do_not_drift_over_ten_million_updates():
    generator = np.random.default_rng(0)
    tree = SumTree(100_000)
    for _ in range(100):
        indices = generator.integers(100_000, size=100_000)
        tree.set(indices, 10.0 ** generator.uniform(-8, 8, size=100_000))
    for _ in range(200):  # few enough to update single paths
        tree.set(generator.integers(100_000, size=32), 10.0 ** generator.uniform(-8, 8, size=32))
    leaves = priorities_of(tree, np.arange(100_000))
    assert tree._sums.root() == pytest.approx(np.nansum(leaves), rel=1e-12)
    tree.set(np.arange(100_000), np.full(100_000, 1e-8))  # nothing of the large ones remains
    assert tree._sums.root() == pytest.approx(1e-3, rel=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_restored_structure_draws_what_the_saved_one_would_have_drawn(structure):
    generator = np.random.default_rng(0)
    held, other = structure(500, alpha=0.6), structure(500, alpha=0.6)
    other.set(np.arange(3), np.ones(3))
    for _ in range(30):
        held.set(generator.integers(450, size=16), generator.random(16))
    state = held.state()
    assert {array.dtype.kind for array in state.values()} <= {"i", "f"}
    other.restore(state)
    for _ in range(30):
        indices, priorities = generator.integers(500, size=16), generator.random(16)
        held.set(indices, priorities)
        other.set(indices, priorities)  # the state is a copy
    check_priorities(other)
    for ours, theirs in zip(
        held.sample(32, np.random.default_rng(1)), other.sample(32, np.random.default_rng(1)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert len(other) == len(held)
    other.restore(state)
    assert len(other) < len(held)
    assert {name: array.tolist() for name, array in other.state().items() if name != "priorities"} == {
        name: array.tolist() for name, array in state.items() if name != "priorities"
    }
    np.testing.assert_array_equal(other.state()["priorities"], state["priorities"])


def test_the_interval_between_sorts_continues_after_a_restore():
    heap, restored = (heap_of(1000, sort_interval=1100) for _ in range(2))
    heap.set(np.arange(1000), np.arange(1000.0))
    for first in range(0, 1000, 50):
        heap.set(np.arange(first, first + 50), np.arange(first, first + 50)[::-1] % 97.0)
    restored.restore(heap.state())
    order = np.argsort(-probabilities_of(restored, np.arange(1000)), kind="stable")
    assert (np.diff(priorities_of(restored, order)) > 0).any()
    for _ in range(2):
        restored.set(np.arange(50), np.arange(50.0))
    order = np.argsort(-probabilities_of(restored, np.arange(1000)), kind="stable")
    assert (np.diff(priorities_of(restored, order)) <= 0).all()


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("alpha", [0.0, 1e-9, 0.01, 0.7])
def test_the_least_probability_has_the_largest_weight(structure, alpha):
    held = structure(100_000, alpha)
    held.set(np.arange(100_000), np.linspace(1e-3, 1e3, 100_000))
    probabilities = probabilities_of(held, np.arange(100_000))
    np.testing.assert_allclose(probabilities.min(), held.least_probability(), rtol=1e-15)
    weights = importance_weights(probabilities, 1.0, least_probability=held.least_probability())
    assert weights.max() == 1 and weights.min() > 0


def test_weights_by_hand():
    # N = 4: (4 P)^-1 = 0.5, 1, 2, 4; their maximum is 4.
    probabilities = np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16])
    assert importance_weights(probabilities, 1.0).tolist() == [0.125, 0.25, 0.5, 1.0]
    assert importance_weights(probabilities, 0.5).tolist() == pytest.approx([8**-0.5, 0.5, 2**-0.5, 1.0], rel=1e-15)
    assert importance_weights(probabilities, 0.0).tolist() == [1.0, 1.0, 1.0, 1.0]
    assert importance_weights(probabilities[:2], 1.0).tolist() == [0.5, 1.0]  # of the batch
    assert importance_weights(probabilities[:2], 1.0, least_probability=1 / 16).tolist() == [0.125, 0.25]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    ("indices", "priorities", "complaint"),
    [
        ([0, 1], [1.0, -0.5], r"priorities.*at least 0.*got -0\.5 for index 1"),
        ([3, 1], [np.nan, 1.0], r"priorities.*got nan for index 3"),
        ([0], [np.inf], r"priorities.*finite.*got inf"),
        ([0], [1e301], r"at most 1e\+300, got 1e\+301"),
    ],
)
def test_a_bad_update_is_refused_and_changes_nothing(structure, indices, priorities, complaint):
    held = structure(10)
    held.set(np.arange(5), np.arange(1.0, 6.0))
    with pytest.raises(ValueError, match=complaint):
        held.set(np.array(indices), np.array(priorities))
    check_priorities(held)
    assert len(held) == 5 and priorities_of(held, np.arange(5)).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_an_empty_batch_changes_nothing(structure):
    held = structure(10)
    held.set(np.array([], int), np.array([]))
    held.discard(np.array([], int))
    assert len(held) == 0 and priorities_of(held, np.array([], int)).tolist() == []
    assert probabilities_of(held, np.arange(10)).tolist() == [0.0] * 10


@pytest.mark.parametrize("structure", STRUCTURES)
def test_nothing_can_be_drawn_from_an_empty_memory(structure):
    held = structure(10)
    for _ in range(2):
        with pytest.raises(ValueError, match="the memory is empty"):
            held.sample(2, np.random.default_rng(0))
        held.set(np.array([3]), np.array([1.0]))
        assert held.sample(2, np.random.default_rng(0))[0].tolist() == [3, 3]
        held.discard(np.array([3]))


def test_nothing_can_be_drawn_where_all_priorities_are_zero():
    tree = SumTree(10)
    tree.set(np.arange(4), np.zeros(4))
    with pytest.raises(ValueError, match="all stored priorities are 0"):
        tree.sample(1, np.random.default_rng(0))
    assert probabilities_of(tree, np.arange(4)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("alpha", [-0.1, 1.1, np.nan, np.inf])
def test_an_alpha_out_of_range_is_refused(structure, alpha):
    with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
        structure(10, alpha)
    held: Priorities = structure(10)
    with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
        held.set_alpha(alpha)
    assert held.alpha == 1.0
