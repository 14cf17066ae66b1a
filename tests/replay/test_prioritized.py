"""Prioritized replay: which items are drawn, how often, with which weights; and the same after a restore."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

from acer_tf.errors import Mismatch
from acer_tf.replay import PrioritizedReplay
from acer_tf.types import Batch, EnvironmentSpec, Unroll
from tests.replay.checks import check_valid, priorities_of, probabilities_of
from tests.replay.twin import World, spec_of


def replay_of(spec: EnvironmentSpec, num_envs: int, capacity: int, length: int, **given: Any) -> PrioritizedReplay:
    settings = {"batch_size": 8, "priority": "proportional", "priority_exponent": (1.0, 1.0)}
    settings |= {"importance_exponent": (1.0, 1.0), "priority_epsilon": 0.0}
    return PrioritizedReplay(spec, num_envs, capacity, length, 0, **(settings | given))


def feed(replay: PrioritizedReplay, world: World, steps: int) -> None:
    for _ in range(steps):
        replay.append(world.unroll())


def started(spec: EnvironmentSpec, num_envs: int, capacity: int, length: int, steps: int, **given: Any) -> tuple:
    world, replay = World(spec, num_envs, seed=1), replay_of(spec, num_envs, capacity, length, **given)
    replay.reset(*world.first())
    feed(replay, world, steps)
    return world, replay


class Counter:
    """Observations and rewards are 1000 e + n in row n of environment e."""

    spec = EnvironmentSpec((1,), "float32", 1, num_actions=2)

    def __init__(self, num_envs: int, **given: Any) -> None:
        self.number = np.arange(num_envs) * 1000.0
        self.replay = replay_of(self.spec, num_envs, **given)
        self.replay.reset(self.number[:, None].astype(np.float32), np.zeros(num_envs, np.uint8))

    def feed(self, steps: int, mask: bool = True) -> None:
        count, nothing = len(self.number), np.zeros((len(self.number), 0), np.float32)
        for _ in range(steps):
            numbers = self.number[:, None] + np.arange(2)
            unroll = Unroll(
                observation=numbers[..., None].astype(np.float32),
                age=np.zeros((count, 2), np.uint8),
                action=np.ones((count, 1), np.int32),
                reward=(numbers[:, :1] * mask).astype(np.float32),
                discount=np.ones((count, 1), np.float32),
                mask=np.full((count, 1), mask),
                behaviour=np.full((count, 1, 2), 0.5, np.float32),
                last=np.zeros((count, 1), bool),
                state=nothing,
                next_state=nothing,
            )
            self.replay.append(unroll)
            self.number += 1

    def set_errors(self, items: Sequence[int], errors: Sequence[float] | np.ndarray) -> None:
        """As after an update on these items."""
        self.replay.draw()
        self.replay.update_priorities(Batch(None, None, np.array(items)), np.asarray(errors, float))

    def priorities(self, count: int) -> list[float]:
        self.replay.draw()
        return priorities_of(self.replay._priorities, np.arange(count)).tolist()

    def drawn(self, times: int) -> np.ndarray:
        """The first rows' numbers of many draws."""
        draws = [self.replay.draw() for _ in range(times)]
        return np.concatenate([draw.trajectory.observation[0, :, 0, 0] for draw in draws]).astype(int)


@pytest.mark.parametrize("length", [1, 3])
def test_all_complete_items_and_no_others_are_drawn(length):
    counter = Counter(2, capacity=20, length=length)
    counter.feed(length - 1)
    assert not counter.replay.can_sample
    with pytest.raises(ValueError, match="empty"):
        counter.replay.draw()
    for steps in (1, 5, 20, 33):
        counter.feed(steps)
        rows = counter.replay.rows
        items = [j for j in range(rows // length) if j * length >= max(0, rows - 20)]
        assert set(counter.drawn(100)) == {1000 * e + j * length for e in range(2) for j in items}


@pytest.mark.parametrize(("stack", "length"), [(1, 1), (4, 1), (1, 4), (3, 5)])
def test_with_the_least_capacity_a_full_ring_always_has_an_item(stack, length):
    spec = spec_of(stack, dtype="uint8")
    least = PrioritizedReplay.least_capacity(spec, length)
    world, replay = started(spec, 1, least, length, least)
    for _ in range(3 * least):
        feed(replay, world, 1)
        # An item whose rows are all masked is never drawn.
        assert replay.can_sample or not replay._gather("mask", np.arange(replay.rows - least, replay.rows)).all()
    with pytest.raises(ValueError, match=f"capacity .*{least}"):
        replay_of(spec, 1, least - 1, length)


@pytest.mark.parametrize(("stack", "length"), [(4, 1), (3, 5), (1, 4)])
@pytest.mark.parametrize("priority", ["proportional", "rank"])
def test_windows_equal_those_of_the_ring_and_their_stacks_are_complete(stack, length, priority):
    spec = spec_of(stack, dtype="uint8")
    world, replay = started(spec, 3, 40, length, 25, priority=priority)
    for _ in range(30):
        feed(replay, world, 7)
        check_valid(replay)
        draw = replay.draw()
        env = draw.items[0] % 3
        for b in range(8):
            # Each window starts at a multiple of T whose frame stack is stored.
            first = replay.rows - replay.stored + (stack - 1 if replay.rows > 40 else 0)
            starts = [s for s in range(0, replay.rows - length + 1, length) if s >= first]
            matches = [
                s
                for s in starts
                if all(
                    np.array_equal(part[0], whole[0, b])
                    for part, whole in zip(
                        optree.tree_leaves(replay._windows(np.array([s]), env[b : b + 1])),
                        optree.tree_leaves(draw.trajectory),
                        strict=True,
                    )
                )
            ]
            assert matches
        assert draw.trajectory.mask.any(axis=2).all()


def test_masked_transitions_are_never_drawn():
    counter = Counter(1, capacity=50, length=1)
    counter.feed(10)
    counter.feed(3, mask=False)
    counter.feed(10)
    assert set(counter.drawn(100)) == set(range(23)) - {10, 11, 12}


@pytest.mark.parametrize("priority", ["proportional", "rank"])
def test_frequencies_are_the_probabilities_and_weights_their_inverses(priority):
    counter = Counter(1, capacity=10, length=1, priority=priority, priority_exponent=(0.6, 0.6), batch_size=10)
    counter.feed(10)
    errors = np.arange(1.0, 11.0)
    counter.set_errors(range(10), errors)
    p = (errors if priority == "proportional" else 1 / np.arange(10, 0, -1)) ** 0.6
    p /= p.sum()
    frequency = np.bincount(counter.drawn(4000), minlength=10) / 40_000
    np.testing.assert_allclose(frequency, p, atol=4 * np.sqrt(p.max() / 40_000))
    draw = counter.replay.draw()
    rows = draw.trajectory.observation[0, :, 0, 0].astype(int)
    weights = (10 * p[rows]) ** -1.0
    np.testing.assert_allclose(draw.weight[0], weights / weights.max(), rtol=1e-5)
    assert draw.weight.dtype == np.float32


def test_weights_may_be_divided_by_the_largest_of_the_memory():
    counter = Counter(1, capacity=100, length=1, batch_size=4, normalize_by_batch=False)
    counter.feed(100)
    errors = np.ones(100)
    errors[7] = 1e-3  # rarely drawn
    counter.set_errors(range(100), errors)
    np.testing.assert_allclose(counter.replay.draw().weight, 1e-3, rtol=1e-5)


def test_new_items_have_the_largest_priority_so_far_and_drawn_ones_their_error():
    counter = Counter(1, capacity=10, length=1, priority_epsilon=0.5)
    counter.feed(4)
    assert counter.priorities(4) == [1, 1, 1, 1]
    counter.set_errors([0, 1], [0.0, 7.0])
    counter.feed(1)
    assert counter.priorities(5) == [0.5, 7.5, 1, 1, 7.5]
    counter.set_errors([1], [2.0])
    counter.feed(1)
    assert counter.priorities(6) == [0.5, 2.5, 1, 1, 7.5, 7.5]


@pytest.mark.parametrize("priority", ["proportional", "rank"])
def test_with_exponent_0_all_are_equal_and_weigh_1(priority):
    counter = Counter(3, capacity=20, length=1, priority=priority, priority_exponent=(0.0, 0.0))
    counter.feed(20)
    counter.set_errors(range(60), np.random.default_rng(0).random(60) * 9)
    assert (probabilities_of(counter.replay._priorities, np.arange(60)) == 1 / 60).all()
    assert (counter.replay.draw().weight == 1).all()


def test_exponents_change_from_start_to_end():
    given = {"priority_exponent": (0.5, 0.0), "importance_exponent": (0.4, 1.0)}
    counter = Counter(1, capacity=10, length=1, **given)
    counter.feed(10)
    counter.set_errors(range(10), np.arange(1.0, 11.0))
    for progress, alpha, beta in [(0.0, 0.5, 0.4), (0.5, 0.25, 0.7), (1.0, 0.0, 1.0)]:
        draw = counter.replay.draw(progress=progress)
        p = np.arange(1.0, 11.0)[draw.items] ** alpha
        np.testing.assert_allclose(draw.weight, (p / p.min()) ** -beta, rtol=1e-5)


@pytest.mark.parametrize("priority", ["proportional", "rank"])
@pytest.mark.parametrize("length", [1, 4])
def test_a_restored_replay_continues_as_if_uninterrupted(tmp_path: Path, priority, length):
    spec = spec_of(3, dtype="uint8")
    world, replay = started(spec, 2, 40, length, 57, priority=priority)
    for _ in range(5):
        draw = replay.draw()
        replay.update_priorities(draw, np.random.default_rng(3).random(8) * 3)
    state = replay.save(tmp_path)
    other = replay_of(spec, 2, 40, length, priority=priority)
    other.restore(tmp_path, state)
    for seamed in (replay, other):
        world = World(spec, 2, seed=9)
        seamed.reset(*world.first())
        feed(seamed, world, 30)
    for _ in range(5):
        a, b = replay.draw(), other.draw()
        assert np.array_equal(a.items, b.items) and np.array_equal(a.weight, b.weight)
        assert all(
            np.array_equal(x, y)
            for x, y in zip(optree.tree_leaves(a.trajectory), optree.tree_leaves(b.trajectory), strict=True)
        )
        for each in (replay, other):
            each.update_priorities(a, np.arange(8.0))


def test_a_state_of_other_sizes_or_priorities_is_refused_and_nothing_changes(tmp_path: Path):
    spec = spec_of(1, dtype="uint8")
    _, replay = started(spec, 2, 40, 1, 57)
    state = replay.save(tmp_path)
    for change in ({"num_envs": 1, "capacity": 40}, {"num_envs": 2, "capacity": 44}):
        other = replay_of(spec, length=1, **change)
        with pytest.raises(Mismatch, match="other sizes"):  # a ValueError would count as damage
            other.restore(tmp_path, state)
        assert other.rows == 0
    other = replay_of(spec, 2, 40, 1, priority="rank")
    with pytest.raises(Mismatch, match="RankHeap"):
        other.restore(tmp_path, state)
    assert other.rows == 0


@pytest.mark.parametrize("errors", [[-1.0] + [0.0] * 7, [np.nan] + [0.0] * 7, [np.inf] + [0.0] * 7])
def test_negative_and_infinite_errors_are_refused(errors):
    counter = Counter(1, capacity=10, length=1)
    counter.feed(10)
    draw = counter.replay.draw()
    with pytest.raises(ValueError, match="priorities must be finite, at least 0"):
        counter.replay.update_priorities(draw, np.array(errors))
    assert priorities_of(counter.replay._priorities, np.arange(10)).tolist() == [1.0] * 10


def test_a_constant_exponent_is_not_rounded():
    counter = Counter(1, capacity=10, length=1, priority_exponent=(0.12345, 0.12345))
    counter.feed(10)
    counter.set_errors(range(10), np.arange(1.0, 11.0))
    p = np.arange(1.0, 11.0) ** 0.12345
    np.testing.assert_allclose(probabilities_of(counter.replay._priorities, np.arange(10)), p / p.sum(), rtol=1e-12)


def test_items_with_any_unmasked_row_are_drawn_and_those_without_are_not():
    counter = Counter(1, capacity=60, length=3)
    for steps, mask in ((4, True), (1, False), (4, True), (3, False), (3, True)):  # items 1 and 3 have masked rows
        counter.feed(steps, mask=mask)
    assert set(counter.drawn(100)) == {0, 3, 6, 12}
