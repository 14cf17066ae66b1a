"""Trajectory replay compared with a plain list of rows; memory, copies and bad arguments."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acer_tf.replay import TrajectoryReplay
from acer_tf.types import EnvironmentSpec, TimeStep, Trajectory
from tests.replay.checks import check_valid
from tests.replay.twin import Twin, World, spec_of, stack_frames

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
        self._both("start", *self.world.reset()[:2])

    def _both(self, operation: str, *arguments: Any) -> None:
        getattr(self.replay, operation)(*arguments)
        getattr(self.twin, operation)(*arguments)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._both("append", *self.world.act(), self.world.step())

    def begin_segment(self) -> None:
        shape = (self.world.num_envs, self.state_size)
        states = [self.world.rng.normal(size=shape).astype(np.float32)] if self.state_size else []
        self._both("begin_segment", *states)

    def seam(self) -> None:
        self._both("seam", *self.world.reset()[:2])


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
    spec = spec_of(stack, dtype="uint8" if seed % 2 else "float32")
    pair = Pair(spec, num_envs, capacity, unroll_length, seed, segments_only=segments_only)
    replay, twin = pair.replay, pair.twin
    choose = np.random.default_rng(seed)
    sampled = 0
    for _ in range(150):
        operation = choose.choice(["step", "unroll", "begin_segment", "seam"], p=[0.5, 0.3, 0.15, 0.05])
        if operation == "unroll":
            pair.begin_segment()
            pair.step(unroll_length)
        else:
            getattr(pair, operation)()
        check_valid(replay)
        assert (replay.rows, replay.stored) == (twin.rows, twin.rows - twin.first)
        if replay.stored >= unroll_length:
            latest = replay.latest()
            for env in range(num_envs):
                window = twin.window(env, twin.rows - unroll_length)
                for got, wanted in zip(latest.arrays(), window.arrays(), strict=True):
                    np.testing.assert_array_equal(got[env], wanted)
        assert replay.can_sample == all(twin.valid_starts(env, segments_only) for env in range(num_envs))
        if replay.can_sample:
            sample = replay.sample()
            starts = twin.starts_of(sample, segments_only)
            sampled += 1
            if stack > 1:
                stacks = stack_frames(sample.observation, sample.age, stack)
                for env, start in enumerate(starts):
                    np.testing.assert_array_equal(stacks[env], twin.shown(env, start))
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
        if pair.replay.rows % 3 == 0:
            pair.begin_segment()
        pair.step()
    valid = valid_starts()

    draws = 2000
    # The frames are random, so they identify the window.
    names = [{pair.twin.window(env, s).observation.tobytes(): s for s in valid[env]} for env in range(4)]
    starts = np.zeros((draws, 4), int)
    for draw in range(draws):
        observation = pair.replay.sample().observation
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
    capacity = TrajectoryReplay.least_capacity(spec_of(stack), unroll_length, 6, burn_in) + spare
    pair = Pair(spec_of(stack), capacity=capacity, seed=seed, **sizes)
    choose = np.random.default_rng(seed)
    starts: set[int] = set()
    for _ in range(60):
        if choose.random() < 0.15:
            other = TrajectoryReplay(spec_of(stack), capacity=capacity, seed=99, **sizes)
            other.restore(tmp_path, pair.replay.save(tmp_path))
            pair.replay = other
            if choose.random() < 0.5:
                pair.begin_segment()  # by an actor that was interrupted before its first action
            pair.seam()
        for _ in range(choose.integers(1, 3)):  # the last mark of a row counts
            pair.begin_segment()
        pair.step(unroll_length)
        replay, twin = pair.replay, pair.twin
        check_valid(replay)
        latest = replay.latest()
        for env in range(num_envs):
            window = twin.window(env, twin.rows - unroll_length)
            for got, wanted in zip(latest.arrays(), window.arrays(), strict=True):
                np.testing.assert_array_equal(got[env], wanted)
        assert replay.can_sample == all(twin.valid_starts(env) for env in range(num_envs))
        assert replay.can_sample or replay.stored < capacity
        if replay.can_sample:
            sample, blank = replay.sample(), replay.blank(num_envs)
            assert [(a.shape, a.dtype) for a in sample.arrays()] == [(a.shape, a.dtype) for a in blank.arrays()]
            starts.update(twin.starts_of(sample))
    assert twin.rows > 3 * capacity
    assert len(starts) > 20


def test_states_are_stored_once_per_segment_and_counted() -> None:
    sizes = {"num_envs": 3, "capacity": 103, "unroll_length": 10}
    with_states = TrajectoryReplay.required_bytes(spec_of(1), 3, 103, unroll_length=10, state_size=8)
    assert with_states - TrajectoryReplay.required_bytes(spec_of(1), 3, 103) == 4 * 3 * 8 * (103 // 10 + 1)
    replay = TrajectoryReplay(spec_of(1), **sizes, seed=0, state_size=8, burn_in=5)
    assert replay._segments._ring.nbytes == 4 * 3 * 8 * 11
    assert replay.blank(3).memory.carry.shape == (3, 5 + 10 + 1)


def test_a_state_of_another_shape_and_a_batch_without_a_state_are_refused() -> None:
    pair = Pair(spec_of(1), num_envs=2, capacity=30, unroll_length=4, seed=0, state_size=6)
    for wrong in (None, np.zeros((2, 5), np.float32), np.zeros((3, 6), np.float32)):
        with pytest.raises(ValueError, match=r"state must have shape \(2, 6\)"):
            pair.replay.begin_segment(wrong)
    pair.begin_segment()
    pair.step(5)
    with pytest.raises(RuntimeError, match=r"needs a state at row 1; the last is at \[0\]"):
        pair.replay.latest()
    with pytest.raises(ValueError, match="state must have shape"):
        Pair(spec_of(1), 2, 30, 4, 0).replay.begin_segment(np.zeros((2, 6), np.float32))


def test_beginning_a_segment_does_not_copy_earlier_states() -> None:
    replay = Pair(spec_of(1), num_envs=2, capacity=200, unroll_length=1, seed=0, state_size=50_000).replay
    state = np.zeros((2, 50_000), np.float32)
    tracemalloc.start()
    for _ in range(50):
        replay.begin_segment(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < state.nbytes


def test_no_window_straddles_the_write_position() -> None:
    replay = TrajectoryReplay(spec_of(1), num_envs=2, capacity=7, unroll_length=3, seed=0)
    frame, ones = np.zeros((2, 2, 3), np.uint8), np.ones(2, np.float32)
    replay.start(frame, np.zeros(2, np.uint8))
    for row in range(40):
        step = TimeStep(frame, np.zeros(2, np.uint8), row * ones, ones, np.ones(2, bool), np.zeros(2, bool))
        replay.append(np.zeros(2, np.int32), np.full((2, 3), 1 / 3, np.float32), step)
        for _ in range(20 if replay.can_sample else 0):
            reward = replay.sample().reward
            assert (np.diff(reward) == 1).all() and reward.min() >= row - 6 and reward.max() <= row


def test_only_whole_collected_segments_are_drawn_with_segments_only() -> None:
    pair = Pair(spec_of(1), num_envs=1, capacity=30, unroll_length=4, seed=0, segments_only=True)
    for length in (4, 2, 6, 4):  # starts 0, 4 (cut short), 6 (longer than T), 12
        pair.begin_segment()
        pair.begin_segment()  # a second mark of the same row changes nothing
        pair.step(length)
    pair.begin_segment()  # 16: marked, nothing collected yet
    starts = {pair.twin.starts_of(pair.replay.sample(), segments_only=True)[0] for _ in range(100)}
    assert starts == {0, 6, 12}
    pair.seam()
    pair.step(4)
    starts = {pair.twin.starts_of(pair.replay.sample(), segments_only=True)[0] for _ in range(100)}
    assert starts == {0, 6, 12}, "the seam's row started no segment"


@pytest.mark.parametrize("after_a_game", [False, True])
def test_seam_is_one_masked_row_then_a_fresh_episode(after_a_game: bool) -> None:
    spec = spec_of(4)
    pair = Pair(spec, num_envs=2, capacity=20, unroll_length=5, seed=1)
    pair.world.game_over = 0.0
    pair.step(5)
    pair.world.game_over = float(after_a_game)
    pair.step()
    final = pair.world.observation.copy()
    fresh = pair.world.reset()
    pair.replay.seam(fresh.observation, fresh.age)
    pair.world.game_over = 0.0
    steps = []
    for _ in range(2):
        action, behaviour = pair.world.act()
        steps.append(pair.world.step())
        pair.replay.append(action, behaviour, steps[-1])
    window = pair.replay.latest()  # rows 4 and 5, the seam's row 6, then 7 and 8

    np.testing.assert_array_equal(window.mask, np.tile([True, True, False, True, True], (2, 1)))
    np.testing.assert_array_equal(window.reward[:, 2], 0)
    np.testing.assert_array_equal(window.discount[:, 2], 1)
    np.testing.assert_array_equal(window.action[:, 2], 0)
    np.testing.assert_array_equal(window.behaviour[:, 2], np.full((2, 3), np.float32(1 / 3)))
    np.testing.assert_array_equal(window.age, np.tile(np.array([3, 3, 3, 0, 1, 2], np.uint8), (2, 1)))
    stacks = stack_frames(window.observation, window.age, 4)
    np.testing.assert_array_equal(stacks[:, 2], final)
    for row, step in zip((3, 4, 5), (fresh, *steps), strict=True):
        np.testing.assert_array_equal(stacks[:, row], step.observation)
    assert not stacks[:, 3, :3].any()


def test_frames_before_the_episodes_start_never_reach_a_stack() -> None:
    replay = TrajectoryReplay(spec_of(4), num_envs=1, capacity=9, unroll_length=2, seed=0)
    poison, action = 255, np.zeros(1, np.int32)
    behaviour = np.full((1, 3), 1 / 3, np.float32)
    replay.start(np.full((1, 4, 2, 3), poison, np.uint8), np.zeros(1, np.uint8))

    def append(value: int, age: int) -> None:
        observation = np.full((1, 4, 2, 3), value, np.uint8)
        one, yes = np.ones(1, np.float32), np.ones(1, bool)
        replay.append(action, behaviour, TimeStep(observation, np.array([age], np.uint8), 0 * one, one, yes, ~yes))

    for age in (1, 2, 3, 3, 3):
        append(poison, age)
    for age in range(7):
        append(1 + age, min(age, 3))
        for _ in range(50):
            sample = replay.sample()
            stacks = stack_frames(sample.observation, sample.age, 4)[0]
            for stack, row_age in zip(stacks, sample.age[0], strict=True):
                fresh = stack[-1, 0, 0] != poison
                assert not (fresh and (stack == poison).any())
                if fresh:
                    newest = int(stack[-1, 0, 0])
                    assert [plane[0, 0] for plane in stack] == [max(0, newest - older) for older in (3, 2, 1, 0)]
                    assert (stack != 0).all(axis=(1, 2)).sum() == row_age + 1


def test_windows_of_some_environments_are_those_of_all() -> None:
    replays = []
    for _ in range(2):
        pair = Pair(spec_of(3, dtype="uint8"), 6, 40, 5, seed=0)
        pair.step(70)
        replays.append(pair.replay)
    latest, drawn = np.array([True]), np.array([False])
    some = replays[0].batches(latest, np.array([[2, 3]])).trajectory
    for part, whole in zip(some.arrays(), replays[0].latest().arrays(), strict=True):
        np.testing.assert_array_equal(part, whole[None, 2:4])
    # The draws of consecutive groups are those of all at once.
    parts = [replays[0].batches(drawn, np.array([[first, first + 1]])).trajectory for first in (0, 2, 4)]
    for *pieces, whole in zip(*(part.arrays() for part in parts), replays[1].sample().arrays(), strict=True):
        np.testing.assert_array_equal(np.concatenate(pieces, axis=1), whole[None])


def test_shapes_and_dtypes_are_those_of_trajectory() -> None:
    pair = Pair(spec_of(4, num_actions=5), num_envs=3, capacity=12, unroll_length=6, seed=0)
    pair.step(9)
    for trajectory in (pair.replay.sample(), pair.replay.latest()):
        assert trajectory.memory is None
        fields = zip(trajectory._fields, trajectory.arrays(), strict=False)
        assert {name: (array.shape, str(array.dtype)) for name, array in fields} == {
            "observation": ((3, 3 + 6 + 1, 2, 3), "uint8"),
            "age": ((3, 7), "uint8"),
            "action": ((3, 6), "int32"),
            "reward": ((3, 6), "float32"),
            "discount": ((3, 6), "float32"),
            "mask": ((3, 6), "bool"),
            "behaviour": ((3, 6, 5), "float32"),
        }


def test_trajectories_are_copies() -> None:
    pair = Pair(spec_of(4), num_envs=2, capacity=10, unroll_length=3, seed=0)
    pair.step(10)

    def frozen(trajectory: Trajectory) -> list[bytes]:
        return [array.tobytes() for array in trajectory.arrays()]

    latest, sample = pair.replay.latest(), pair.replay.sample()
    before = frozen(latest) + frozen(sample)
    pair.step(11)  # overwrites every slot
    assert frozen(latest) + frozen(sample) == before
    kept = frozen(pair.replay.latest())
    for array in pair.replay.latest().arrays():
        array[...] = 0
    assert frozen(pair.replay.latest()) == kept


def test_the_same_seed_gives_the_same_windows_whatever_else_is_drawn() -> None:
    def draws(seed: int) -> list[bytes]:
        pair = Pair(spec_of(1), num_envs=2, capacity=30, unroll_length=2, seed=0)
        replay = TrajectoryReplay(spec_of(1), 2, 30, 2, seed)
        replay.start(np.zeros((2, 2, 3), np.uint8), np.zeros(2, np.uint8))
        out = []
        for _ in range(30):
            replay.append(*pair.world.act(), pair.world.step())
            np.random.random()  # noqa: NPY002 - the global generator must not matter
            if replay.can_sample:
                out.append(replay.sample().reward.tobytes())
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
    observation = np.ones((16, 4, 84, 84), np.uint8)
    replay.start(observation, np.zeros(16, np.uint8))
    assert resident() - before < 100e6


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(unroll_length=0), "unroll_length must be at least 1, got 0"),
        (dict(num_envs=0), "num_envs must be at least 1, got 0"),
        (dict(capacity=7), "capacity must be at least 8 rows, .* frame stacks of 4 and burn_in 0; got 7"),
    ],
)
def test_refuses_sizes_that_cannot_work(arguments: dict[str, int], message: str) -> None:
    sizes: dict[str, Any] = dict(num_envs=2, capacity=8, unroll_length=5, seed=0)
    TrajectoryReplay(spec_of(4), **sizes)
    with pytest.raises(ValueError, match=message):
        TrajectoryReplay(spec_of(4), **{**sizes, **arguments})


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(action=np.zeros((2, 1), np.int32)), r"action must have shape \(2,\), got \(2, 1\)"),
        (dict(action=np.zeros(2)), "action must have dtype int32, got float64"),
        (dict(behaviour=np.zeros(3, np.float32)), r"behaviour must have shape \(2, 3\), got \(3,\)"),
        (dict(reward=np.float32(0)), r"reward must have shape \(2,\), got \(\)"),
        (dict(mask=np.ones(2, np.float32)), "mask must have dtype bool, got float32"),
        (dict(observation=np.zeros((2, 2, 3), np.uint8)), r"observation must have shape \(2, 4, 2, 3\)"),
        (dict(observation=np.zeros((2, 4, 2, 3))), "observation must have dtype uint8, got float64"),
        (dict(age=np.array([1, 3], np.uint8)), r"age must be at most \[1, 1\] in this row, got \[1, 3\]"),
    ],
)
def test_refuses_wrong_values_and_is_unchanged(change: dict[str, Any], message: str) -> None:
    replay = TrajectoryReplay(spec_of(4), num_envs=2, capacity=8, unroll_length=1, seed=0)
    replay.start(np.zeros((2, 4, 2, 3), np.uint8), np.zeros(2, np.uint8))
    good: dict[str, Any] = dict(
        action=np.ones(2, np.int32),
        behaviour=np.full((2, 3), 1 / 3, np.float32),
        observation=np.zeros((2, 4, 2, 3), np.uint8),
        age=np.ones(2, np.uint8),
        reward=np.ones(2, np.float32),
        discount=np.ones(2, np.float32),
        mask=np.ones(2, bool),
        last=np.zeros(2, bool),
    )

    def append(values: dict[str, Any]) -> None:
        step = TimeStep(**{name: values[name] for name in TimeStep._fields})
        replay.append(values["action"], values["behaviour"], step)

    with pytest.raises(ValueError, match=message):
        append(good | change)
    assert replay.rows == 0 and not replay.can_sample
    append(good)
    np.testing.assert_array_equal(replay.latest().reward, 1)


def test_operations_in_the_wrong_order_are_refused() -> None:
    spec = spec_of(4)
    pair = Pair(spec, num_envs=2, capacity=8, unroll_length=3, seed=0)
    empty = TrajectoryReplay(spec, 2, 8, 3, 0)
    other = World(spec, 2, seed=1)
    fresh = other.reset()
    for refused in (
        lambda: empty.append(*other.act(), other.step()),
        empty.begin_segment,
        lambda: empty.seam(fresh.observation, fresh.age),
    ):
        with pytest.raises(RuntimeError, match="no pending row: call start"):
            refused()
    with pytest.raises(RuntimeError, match="call seam"):
        pair.replay.start(fresh.observation, fresh.age)
    for begin in (empty.start, pair.replay.seam):
        with pytest.raises(ValueError, match="age must be at most"):
            begin(fresh.observation, fresh.age + np.uint8(1))
    pair.step(2)
    with pytest.raises(RuntimeError, match=r"sample\(\) needs 3 rows per environment, 2 rows are stored"):
        pair.replay.sample()
    with pytest.raises(RuntimeError, match=r"latest\(\) needs 3 rows per environment, 2 are stored"):
        pair.replay.latest()
    pair.step()
    assert pair.replay.can_sample
    pair.replay.sample()


def test_check_valid_names_what_a_wrong_source_breaks() -> None:
    pair = Pair(spec_of(1), num_envs=2, capacity=8, unroll_length=3, seed=0)
    pair.step(3)
    check_valid(pair.replay)
    step = pair.world.step()
    wrong = step._replace(mask=np.zeros(2, bool), reward=np.ones(2, np.float32))
    pair.replay.append(*pair.world.act(), wrong)
    with pytest.raises(AssertionError, match="masked rows have reward 0"):
        check_valid(pair.replay)
