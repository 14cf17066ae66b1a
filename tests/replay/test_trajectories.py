"""Trajectory replay compared with a plain list of rows; memory, copies and bad arguments."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

from acer_tf.replay import TrajectoryReplay
from acer_tf.types import EnvironmentSpec, Trajectory
from tests.replay.checks import check_valid
from tests.replay.twin import Twin, World, latest, sample, spec_of, stack_frames

ATARI = EnvironmentSpec((4, 84, 84), "uint8", 4, num_actions=18, frames_per_step=4)


class Pair:
    """A replay and its twin, with the same rows from one random world."""

    def __init__(
        self, spec: EnvironmentSpec, num_envs: int, capacity: int, unroll_length: int, seed: int, **options: Any
    ) -> None:
        self.world = World(spec, num_envs, seed)
        self.replay = TrajectoryReplay(spec, num_envs, capacity, unroll_length, seed, **options)
        self.state_size, burn_in = options.get("state_size", 0), options.get("burn_in", 0)
        self.twin = Twin(spec, num_envs, capacity, unroll_length, self.state_size, burn_in)
        self.reset()

    def _both(self, operation: str, *arguments: Any) -> None:
        getattr(self.replay, operation)(*arguments)
        getattr(self.twin, operation)(*arguments)

    def unroll(self, rows: int = 1) -> None:
        state = self.world.rng.normal(size=(self.world.num_envs, self.state_size)).astype(np.float32)
        self._both("append", self.world.unroll(rows, state))

    def reset(self) -> None:
        self._both("reset", *self.world.first())


def shapes(batch: Any) -> list[Any]:
    return [(array.shape, array.dtype) for array in optree.tree_leaves(batch)]


SIZES = [  # stack, environments, capacity, T
    (4, 3, 8, 5),  # the smallest capacity for which every environment always has a window
    (4, 3, 23, 5),
    (3, 2, 9, 1),
    (1, 3, 4, 4),
    (1, 2, 17, 3),
]


@pytest.mark.parametrize("segments_only", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stack, num_envs, capacity, unroll_length", SIZES)
def test_equals_the_twin_under_random_operations(
    stack: int, num_envs: int, capacity: int, unroll_length: int, seed: int, segments_only: bool
) -> None:
    masks = seed == 2
    spec = spec_of(stack, 11 if masks else 3, dtype="uint8" if seed % 2 else "float32", masks=masks)
    pair = Pair(spec, num_envs, capacity, unroll_length, seed, segments_only=segments_only)
    replay, twin = pair.replay, pair.twin
    choose = np.random.default_rng(seed)
    sampled = 0
    for _ in range(150):
        if choose.random() < 0.05:
            pair.reset()
        else:  # unrolls of one row, of T rows, and longer than T
            pair.unroll(choose.choice([1, unroll_length, unroll_length + 2], p=[0.4, 0.5, 0.1]))
        check_valid(replay)
        assert (replay.rows, replay.stored) == (twin.rows, twin.rows - twin.first)
        if replay.stored >= unroll_length:
            rows = latest(replay)
            for env in range(num_envs):
                window = twin.window(env, twin.rows - unroll_length)
                for got, wanted in zip(optree.tree_leaves(rows), optree.tree_leaves(window), strict=True):
                    np.testing.assert_array_equal(got[env], wanted)
        assert replay.can_sample == all(twin.valid_starts(env, segments_only) for env in range(num_envs))
        if replay.can_sample:
            drawn = sample(replay)
            starts = twin.starts_of(drawn, segments_only)
            sampled += 1
            if stack > 1:
                stacks = stack_frames(drawn.observation, drawn.age, stack)
                for env, start in enumerate(starts):
                    shown = pair.world.shown[start : start + unroll_length + 1]
                    np.testing.assert_array_equal(stacks[env], [observations[env] for observations in shown])
    assert twin.rows > 3 * capacity, "the ring must have wrapped several times"
    assert sampled > (10 if segments_only else 100)


@pytest.mark.parametrize("segments_only", [False, True])
@pytest.mark.parametrize("rows, uneven", [(7, False), (24, False), (25, False), (26, False), (48, True)])
def test_draws_every_valid_start_equally_often_and_no_other(rows: int, uneven: bool, segments_only: bool) -> None:
    pair = Pair(spec_of(4), num_envs=4, capacity=24, unroll_length=3, seed=2, segments_only=segments_only)

    def valid_starts() -> list[list[int]]:
        return [pair.twin.valid_starts(env, segments_only) for env in range(4)]

    # Uneven: the oldest rows lack frames in some environments only.
    while pair.replay.rows < rows or (uneven and len({len(starts) for starts in valid_starts()}) == 1):
        pair.unroll(min(3, max(1, rows - pair.replay.rows)))
    valid = valid_starts()

    draws = 2000
    # The frames are random, so they identify the window.
    names = [{pair.twin.window(env, s).observation.tobytes(): s for s in valid[env]} for env in range(4)]
    starts = np.zeros((draws, 4), int)
    for draw in range(draws):
        observation = sample(pair.replay).observation
        starts[draw] = [names[env][observation[env].tobytes()] for env in range(4)]

    for env in range(4):
        counts = np.array([(starts[:, env] == start).sum() for start in valid[env]])
        assert (counts > 0).all()
        expected = draws / len(counts)
        chi_square, freedom = ((counts - expected) ** 2 / expected).sum(), len(counts) - 1
        assert chi_square <= freedom + 4 * np.sqrt(2 * freedom)
    if len(valid[0]) > 2 and not segments_only:
        assert abs(np.corrcoef(starts[:, 0], starts[:, 1])[0, 1]) < 0.1, "environments draw independently"


@pytest.mark.parametrize("burn_in", [0, 2, 7])
@pytest.mark.parametrize("stack, num_envs, unroll_length, spare", [(4, 3, 5, 0), (1, 2, 3, 9), (4, 2, 1, 0)])
@pytest.mark.parametrize("seed", range(2))
def test_a_recurrent_networks_windows_equal_the_twins(
    stack: int, num_envs: int, unroll_length: int, spare: int, burn_in: int, seed: int, tmp_path: Path
) -> None:
    """With unrolls, interruptions, restored replays, and random ends of lives and games."""
    sizes = {"num_envs": num_envs, "unroll_length": unroll_length, "state_size": 6, "burn_in": burn_in}
    spec = spec_of(stack, masks=bool(seed))
    capacity = TrajectoryReplay.least_capacity(spec, unroll_length, 6, burn_in) + spare
    pair = Pair(spec, capacity=capacity, seed=seed, **sizes)
    choose = np.random.default_rng(seed)
    starts: set[int] = set()
    for _ in range(60):
        if choose.random() < 0.15:
            other = TrajectoryReplay(spec, capacity=capacity, seed=99, **sizes)
            other.restore(tmp_path, pair.replay.save(tmp_path))
            pair.replay = other
            pair.reset()
        pair.unroll(unroll_length)
        replay, twin = pair.replay, pair.twin
        check_valid(replay)
        rows = latest(replay)
        for env in range(num_envs):
            window = twin.window(env, twin.rows - unroll_length)
            for got, wanted in zip(optree.tree_leaves(rows), optree.tree_leaves(window), strict=True):
                np.testing.assert_array_equal(got[env], wanted)
        assert replay.can_sample == all(twin.valid_starts(env) for env in range(num_envs))
        assert replay.can_sample or replay.stored < capacity
        if replay.can_sample:
            drawn = replay.batch(np.array([False]), np.arange(num_envs)[None])
            assert shapes(drawn) == shapes(replay.blank(1, num_envs))
            starts.update(twin.starts_of(sample(replay)))
    assert twin.rows > 3 * capacity
    assert len(starts) > 20


def test_states_are_stored_once_per_segment_and_counted() -> None:
    sizes = {"num_envs": 3, "capacity": 103, "unroll_length": 10}
    with_states = TrajectoryReplay.required_bytes(spec_of(1), 3, 103, unroll_length=10, state_size=8)
    assert with_states - TrajectoryReplay.required_bytes(spec_of(1), 3, 103) == 4 * 3 * 8 * (103 // 10 + 1)
    replay = TrajectoryReplay(spec_of(1), **sizes, seed=0, state_size=8, burn_in=5)
    assert replay._segments._ring.nbytes == 4 * 3 * 8 * 11
    assert replay.blank(2, 3).trajectory.memory.carry.shape == (2, 3, 5 + 10 + 1)


def test_a_new_segment_does_not_copy_earlier_states() -> None:
    pair = Pair(spec_of(1), num_envs=2, capacity=200, unroll_length=1, seed=0, state_size=50_000)
    unroll = pair.world.unroll(1, np.zeros((2, 50_000), np.float32))
    tracemalloc.start()
    for _ in range(50):
        pair.replay.append(unroll)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < unroll.state.nbytes


def test_no_window_straddles_the_write_position() -> None:
    pair = Pair(spec_of(1), num_envs=2, capacity=7, unroll_length=3, seed=0)
    for row in range(40):
        unroll = pair.world.unroll()
        pair.replay.append(unroll._replace(reward=np.full_like(unroll.reward, row)))
        for _ in range(20 if pair.replay.can_sample else 0):
            reward = sample(pair.replay).reward
            assert (np.diff(reward) == 1).all() and reward.min() >= row - 6 and reward.max() <= row


def test_only_whole_collected_segments_are_drawn_with_segments_only() -> None:
    pair = Pair(spec_of(1), num_envs=1, capacity=30, unroll_length=4, seed=0, segments_only=True)
    for length in (4, 2, 6, 4):  # starts 0, 4 (cut short), 6 (longer than T), 12
        pair.unroll(length)
    starts = {pair.twin.starts_of(sample(pair.replay), segments_only=True)[0] for _ in range(100)}
    assert starts == {0, 6, 12}
    pair.reset()
    pair.unroll(4)
    starts = {pair.twin.starts_of(sample(pair.replay), segments_only=True)[0] for _ in range(100)}
    assert starts == {0, 6, 12, 17}, "the masked row 16 started no segment"


@pytest.mark.parametrize("after_a_game", [False, True])
def test_a_second_reset_is_one_masked_row_then_a_fresh_episode(after_a_game: bool) -> None:
    pair = Pair(spec_of(4), num_envs=2, capacity=20, unroll_length=5, seed=1)
    pair.world.game_over = 0.0
    pair.unroll(5)
    pair.world.game_over = float(after_a_game)
    pair.unroll()
    pair.reset()
    pair.world.game_over = 0.0
    pair.unroll(2)
    window = latest(pair.replay)  # rows 4 and 5, the masked row 6, then 7 and 8

    np.testing.assert_array_equal(window.mask, np.tile([True, True, False, True, True], (2, 1)))
    np.testing.assert_array_equal(window.reward[:, 2], 0)
    np.testing.assert_array_equal(window.discount[:, 2], 1)
    np.testing.assert_array_equal(window.action[:, 2], 0)
    np.testing.assert_array_equal(window.behaviour[:, 2], np.full((2, 3), np.float32(1 / 3)))
    np.testing.assert_array_equal(window.age, np.tile(np.array([3, 3, 3, 0, 1, 2], np.uint8), (2, 1)))
    stacks = stack_frames(window.observation, window.age, 4)
    for row, shown in enumerate(pair.world.shown[4:]):
        np.testing.assert_array_equal(stacks[:, row], shown)
    assert not stacks[:, 3, :3].any()


def test_frames_before_the_episodes_start_never_reach_a_stack() -> None:
    pair, poison = Pair(spec_of(4), num_envs=1, capacity=9, unroll_length=2, seed=0), 255

    def append(value: int, age: int) -> None:
        unroll = pair.world.unroll()
        shown = {"observation": np.full_like(unroll.observation, value), "age": np.full_like(unroll.age, age)}
        pair.replay.append(unroll._replace(**shown))

    for age in (1, 2, 3, 3, 3):
        append(poison, age)
    for age in range(7):
        append(1 + age, min(age, 3))
        for _ in range(50):
            drawn = sample(pair.replay)
            stacks = stack_frames(drawn.observation, drawn.age, 4)[0]
            for stack, row_age in zip(stacks, drawn.age[0], strict=True):
                fresh = 0 < stack[-1, 0, 0] <= 7
                assert not (fresh and (stack == poison).any())
                if fresh:
                    newest = int(stack[-1, 0, 0])
                    assert [plane[0, 0] for plane in stack] == [max(0, newest - older) for older in (3, 2, 1, 0)]
                    assert (stack != 0).all(axis=(1, 2)).sum() == row_age + 1


def test_windows_of_some_environments_are_those_of_all() -> None:
    replays = []
    for _ in range(2):
        pair = Pair(spec_of(3, dtype="uint8"), 6, 40, 5, seed=0)
        pair.unroll(70)
        replays.append(pair.replay)
    some = replays[0].batch(np.array([True]), np.array([[2, 3]])).trajectory
    for part, whole in zip(optree.tree_leaves(some), optree.tree_leaves(latest(replays[0])), strict=True):
        np.testing.assert_array_equal(part, whole[None, 2:4])
    # The draws of consecutive groups are those of all at once.
    parts = [replays[0].batch(np.array([False]), np.array([[first, first + 1]])).trajectory for first in (0, 2, 4)]
    for *pieces, whole in zip(*map(optree.tree_leaves, parts), optree.tree_leaves(sample(replays[1])), strict=True):
        np.testing.assert_array_equal(np.concatenate(pieces, axis=1), whole[None])


@pytest.mark.parametrize("masks", [False, True])
def test_shapes_and_dtypes_are_those_of_trajectory(masks: bool) -> None:
    pair = Pair(spec_of(4, num_actions=5, masks=masks), num_envs=3, capacity=12, unroll_length=6, seed=0)
    pair.unroll(9)
    for trajectory in (sample(pair.replay), latest(pair.replay)):
        fields = trajectory._asdict()
        assert fields.pop("memory") is None
        legal = fields.pop("legal")
        assert (legal.shape, str(legal.dtype)) == ((3, 7, 5), "bool") if masks else legal is None
        assert {name: (array.shape, str(array.dtype)) for name, array in fields.items()} == {
            "observation": ((3, 3 + 6 + 1, 2, 3), "uint8"),
            "age": ((3, 7), "uint8"),
            "action": ((3, 6), "int32"),
            "reward": ((3, 6), "float32"),
            "discount": ((3, 6), "float32"),
            "mask": ((3, 6), "bool"),
            "behaviour": ((3, 6, 5), "float32"),
        }


def test_masks_are_stored_as_bits() -> None:
    sizes = [TrajectoryReplay.required_bytes(spec_of(1, 18, masks=masks), 2, 9) for masks in (False, True)]
    assert sizes[1] - sizes[0] == 2 * 10 * 3
    pair = Pair(spec_of(1, 18, masks=True), num_envs=2, capacity=9, unroll_length=3, seed=0)
    assert sum(array.nbytes for array in pair.replay._ring.values()) == sizes[1]


def test_trajectories_are_copies() -> None:
    pair = Pair(spec_of(4), num_envs=2, capacity=10, unroll_length=3, seed=0)
    pair.unroll(10)

    def frozen(trajectory: Trajectory) -> list[bytes]:
        return [array.tobytes() for array in optree.tree_leaves(trajectory)]

    windows = latest(pair.replay), sample(pair.replay)
    before = [frozen(window) for window in windows]
    pair.unroll(11)  # overwrites every slot
    assert [frozen(window) for window in windows] == before
    kept = frozen(latest(pair.replay))
    for array in optree.tree_leaves(latest(pair.replay)):
        array[...] = 0
    assert frozen(latest(pair.replay)) == kept


def test_the_same_seed_gives_the_same_windows_whatever_else_is_drawn() -> None:
    def draws(seed: int) -> list[bytes]:
        pair = Pair(spec_of(1), num_envs=2, capacity=30, unroll_length=2, seed=0)
        replay = TrajectoryReplay(spec_of(1), 2, 30, 2, seed)
        replay.reset(*pair.world.first())
        out = []
        for _ in range(30):
            replay.append(pair.world.unroll())
            np.random.random()  # noqa: NPY002 - the global generator must not matter
            if replay.can_sample:
                out.append(sample(replay).reward.tobytes())
        return out

    assert draws(5) == draws(5) != draws(6)


def test_an_atari_step_takes_at_most_three_percent_more_than_its_frame() -> None:
    num_envs, capacity = 2, 1000
    required = TrajectoryReplay.required_bytes(ATARI, num_envs, capacity)
    assert required <= 1.03 * 7056 * num_envs * capacity
    tracemalloc.start()
    try:
        replay = TrajectoryReplay(ATARI, num_envs, capacity, 20, 0)
        besides = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert sum(array.nbytes for array in replay._ring.values()) == required and besides <= 10_000
    assert TrajectoryReplay.required_bytes(ATARI, 16, 50_000) == 16 * 50_001 * (7056 + 1 + 4 + 4 + 4 + 1 + 4 * 18)


def test_memory_is_committed_as_it_fills() -> None:
    def resident() -> int:
        try:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096
        except FileNotFoundError:
            pytest.skip("needs /proc")

    before = resident()
    replay = TrajectoryReplay(ATARI, num_envs=16, capacity=5_000, unroll_length=20, seed=0)  # 571 MB when full
    replay.reset(np.ones((16, 84, 84), np.uint8), np.zeros(16, np.uint8))
    assert resident() - before < 100e6


def test_a_capacity_without_a_valid_window_is_refused() -> None:
    sizes: dict[str, Any] = dict(num_envs=2, unroll_length=5, seed=0)
    TrajectoryReplay(spec_of(4), capacity=8, **sizes)
    with pytest.raises(ValueError, match=r"capacity must be at least 8 rows, .* frame stacks of 4 .*; got 7"):
        TrajectoryReplay(spec_of(4), capacity=7, **sizes)


def test_operations_in_the_wrong_order_are_refused() -> None:
    pair, other = (Pair(spec_of(4), num_envs=2, capacity=8, unroll_length=3, seed=0) for _ in range(2))
    unroll = other.world.unroll()
    empty = TrajectoryReplay(spec_of(4), 2, 8, 3, 0)
    with pytest.raises(RuntimeError, match="reset"):
        empty.append(unroll)
    pair.unroll(2)
    assert not pair.replay.can_sample
    with pytest.raises(ValueError):
        sample(pair.replay)
    pair.unroll()
    assert pair.replay.can_sample
    sample(pair.replay)


def test_check_valid_names_what_a_wrong_source_breaks() -> None:
    pair = Pair(spec_of(1), num_envs=2, capacity=8, unroll_length=3, seed=0)
    pair.unroll(3)
    check_valid(pair.replay)
    wrong = {"mask": np.zeros((2, 1), bool), "reward": np.ones((2, 1), np.float32)}
    pair.replay.append(pair.world.unroll()._replace(**wrong))
    with pytest.raises(AssertionError, match="masked rows have reward 0"):
        check_valid(pair.replay)
