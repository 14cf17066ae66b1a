import mmap

import numpy as np
import optree
import pytest

from acer_tf.replay import TrajectoryReplay
from acer_tf.replay.chunks import ReplayCorrupt
from acer_tf.replay.storage import prefetch, zeros
from acer_tf.types import EnvironmentSpec
from tests.replay.twin import World, latest, sample

FIELDS = {"frames": ((3, 7, 50, 50), np.dtype(np.uint8)), "rewards": ((3, 7), np.dtype(np.float32))}
STACKED = EnvironmentSpec((4, 60, 60), "uint8", stack=4, num_actions=3)


def test_arrays_in_a_file_equal_those_in_memory_and_do_not_overlap(tmp_path):
    in_memory, in_file = zeros(FIELDS), zeros(FIELDS, tmp_path / "new")
    for name, (shape, dtype) in FIELDS.items():
        assert in_memory[name].shape == in_file[name].shape == shape
        assert in_memory[name].dtype == in_file[name].dtype == dtype
        assert not in_memory[name].any() and not in_file[name].any()
    in_file["frames"][:] = 255
    assert not in_file["rewards"].any()
    in_file["rewards"][:] = -1.5
    assert (in_file["frames"] == 255).all() and (in_file["rewards"] == -1.5).all()


def test_the_file_has_no_name_while_in_use_and_an_existing_file_is_not_touched(tmp_path):
    kept = zeros(FIELDS, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    again = zeros(FIELDS, tmp_path / "new")  # the name can be used again, as a restored replay does
    kept["rewards"][:] = 1
    assert not again["rewards"].any()
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        zeros(FIELDS, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_file_larger_than_its_disk_is_refused_at_once_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError):
        zeros({"frames": ((2**50,), np.dtype(np.uint8))}, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_prefetching_changes_nothing_and_may_include_slots_after_the_end(tmp_path):
    frames = zeros(FIELDS, tmp_path / "new")["frames"]
    frames[:] = np.arange(7, dtype=np.uint8)[:, None, None]
    before = frames.copy()
    prefetch(frames, np.array([0, 2, 1]), np.array([0, 3, 6]), 5)
    assert np.array_equal(frames, before)


def filled(replay, rows):
    """`replay` after a reset and unrolls of one row."""
    world = World(STACKED, 2, seed=0)
    replay.reset(*world.first())
    for _ in range(rows):
        replay.append(world.unroll())
    return replay


def test_a_replay_in_a_file_draws_the_same_as_one_in_memory_also_when_restored(tmp_path):
    # The ring wraps twice.
    replays = [filled(TrajectoryReplay(STACKED, 2, 40, 5, 1, file=file), 100) for file in (None, tmp_path / "new")]

    def same():
        for _ in range(30):
            windows = [optree.tree_leaves(sample(replay)) for replay in replays]
            assert all(np.array_equal(a, b) for a, b in zip(*windows, strict=True))

    same()
    folders = [tmp_path / "chunks0", tmp_path / "chunks1"]
    states = [replay.save(folder) for replay, folder in zip(replays, folders, strict=True)]
    replays = [TrajectoryReplay(STACKED, 2, 40, 5, 9, file=file) for file in (tmp_path / "new", None)]
    for replay, folder, state in zip(replays, folders, states, strict=True):
        replay.restore(folder, state)
    same()
    assert replays[0].rows == replays[1].rows == 100


def test_draws_from_a_replay_in_a_file_are_copies(tmp_path):
    replay = filled(TrajectoryReplay(STACKED, 2, 40, 5, 1, file=tmp_path / "new"), 29)
    before, window = optree.tree_leaves(latest(replay)), optree.tree_leaves(latest(replay))
    for array in window:
        array[:] = 0
    assert all(np.array_equal(a, b) for a, b in zip(before, optree.tree_leaves(latest(replay)), strict=True))


def test_sampled_rows_are_prefetched_from_the_file(tmp_path, monkeypatch):
    asked = []

    def note(array, which, first, count):
        assert isinstance(array.base, mmap.mmap), "a view has no file"
        asked.append((which.tolist(), count))
        prefetch(array, which, first, count)

    monkeypatch.setattr("acer_tf.replay.trajectories.prefetch", note)
    replay = filled(TrajectoryReplay(STACKED, 2, 40, 5, 1, file=tmp_path / "new"), 29)
    sample(replay)
    replay.batch(np.array([False]), np.array([[1]]))
    assert asked == [([0, 1], 9), ([1], 9)]


def test_a_replay_is_restored_into_its_own_storage_and_only_if_it_holds_nothing(tmp_path, monkeypatch):
    """A disk with room for one replay suffices to resume, and a checkpoint that cannot be read leaves it usable."""
    state = filled(TrajectoryReplay(STACKED, 2, 40, 5, 1), 59).save(tmp_path / "chunks")
    fresh = [TrajectoryReplay(STACKED, 2, 40, 5, 1, file=tmp_path / "new") for _ in range(2)]

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("acer_tf.replay.ring.zeros", full)
    fresh[0].restore(tmp_path / "chunks", state)
    assert (fresh[0].rows, fresh[0].stored) == (59, 40)
    with pytest.raises(RuntimeError, match="without rows"):
        fresh[0].restore(tmp_path / "chunks", state)
    assert fresh[0].stored == 40
    (tmp_path / "chunks" / TrajectoryReplay.chunk_files(state)[-1]).unlink()
    with pytest.raises(ReplayCorrupt):
        fresh[1].restore(tmp_path / "chunks", state)
    monkeypatch.undo()
    replays = filled(fresh[1], 30), filled(TrajectoryReplay(STACKED, 2, 40, 5, 1), 30)
    for _ in range(20):
        windows = [optree.tree_leaves(sample(replay)) for replay in replays]
        assert all(np.array_equal(a, b) for a, b in zip(*windows, strict=True))
