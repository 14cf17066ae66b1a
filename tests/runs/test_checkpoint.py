import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import optree
import pytest

from acer_tf.errors import CheckpointError, Mismatch
from acer_tf.replay import TrajectoryReplay
from acer_tf.runs import checkpoint
from acer_tf.runs.checkpoint import Checkpoints, DamagedError, Snapshot
from tests.replay.checks import check_valid
from tests.replay.twin import World, sample, spec_of

ROOT = Path(__file__).resolve().parents[2]


class Source:
    """A replay that grows, and a snapshot whose arrays hold its step."""

    def __init__(self, stack=2, seed=0, capacity=40):
        self.world = World(spec_of(stack), 2, seed)
        self.replay = self.empty(capacity)
        self.replay.reset(*self.world.first())

    def empty(self, capacity=40):
        return TrajectoryReplay(self.world.spec, 2, capacity, 4, seed=7)

    def grow(self, rows):
        for _ in range(rows):
            self.replay.append(self.world.unroll())
        return self


def snapshot_of(step):
    arrays = {"online/dense/kernel": np.full((2, 3), step, np.float32), "optimizer/iterations": np.array(step)}
    return Snapshot(arrays, {"actor": {"steps": step}, "generator": {"state": 2**100 + step}})


def step_of(snapshot):
    """The step of a snapshot whose parts must all agree."""
    step = snapshot.state["actor"]["steps"]
    expected = snapshot_of(step)
    assert snapshot.state == expected.state
    assert snapshot.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert snapshot.arrays[name].dtype == array.dtype
        assert np.array_equal(snapshot.arrays[name], array)
    return step


def same_replay(a, b):
    a, b = (
        {name: np.array(v) for name, v in r._ring.items()} | {"rows": r.rows, "at": r._segments.starts} for r in (a, b)
    )
    return all(np.array_equal(a[name], b[name]) for name in a)


def save_at(checkpoints, source, *steps):
    for step in steps:
        source.grow(5)
        checkpoints.save(snapshot_of(step), source.replay, step)


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def two(tmp_path):
    """Checkpoints 100 and 200; the second needs a chunk that the first does not."""
    checkpoints, source = Checkpoints(tmp_path / "c"), Source()
    save_at(checkpoints, source, 100)
    replay_at_100 = source.empty()
    checkpoints.restore(replay_at_100)
    save_at(checkpoints, source, 200)
    return checkpoints, source, replay_at_100, tmp_path / "c"


def test_everything_comes_back_bit_for_bit(tmp_path):
    checkpoints, source = Checkpoints(tmp_path / "deep" / "folder"), Source()
    source.grow(33)
    sample(source.replay)
    arrays = {
        "online/a": np.array([np.nan, -0.0, np.inf, 1e-45], np.float32),
        "optimizer/iterations": np.array(7, np.int64),
        "average/π/kernel:0": np.random.default_rng(0).normal(size=(3, 4)),
    }
    state = {"float": 0.1 + 0.2, "big": 2**127 + 1, "text": "π", "none": None, "list": [1, 2.5]}
    checkpoints.save(Snapshot(arrays, state), source.replay, 5)
    replay = source.empty()
    back = Checkpoints(tmp_path / "deep" / "folder").restore(replay)
    assert back.state == state
    assert back.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].tobytes() == array.tobytes()
    assert same_replay(replay, source.replay)
    for a, b in zip(
        optree.tree_leaves(sample(replay)), optree.tree_leaves(sample(source.replay)), strict=True
    ):  # the generator too
        assert np.array_equal(a, b)


def test_without_checkpoints_there_is_nothing_to_restore(tmp_path):
    assert Checkpoints(tmp_path / "absent").restore(Source().replay) is None
    assert not (tmp_path / "absent").exists()


def test_two_checkpoints_are_kept_and_only_the_chunks_that_they_need(tmp_path):
    checkpoints, source = Checkpoints(tmp_path), Source(capacity=10)  # a chunk of 5 rows leaves the ring 10 rows later
    save_at(checkpoints, source, 1, 2, 3, 4, 5)
    assert names(tmp_path) == ["000000000004", "000000000005", "replay"]
    assert [name.split("-")[1:3] for name in names(tmp_path / "replay")] == [["10", "15"], ["15", "20"], ["20", "25"]]
    for kept in ("000000000005", "000000000004"):
        shutil.copytree(tmp_path / "replay", tmp_path / kept / "copy" / "replay")
        shutil.copytree(tmp_path / kept, tmp_path / kept / "copy" / kept, ignore=shutil.ignore_patterns("copy"))
        assert step_of(Checkpoints(tmp_path / kept / "copy").restore(source.empty(10))) == int(kept)


def test_successive_checkpoints_share_chunks_that_are_written_once(tmp_path):
    checkpoints, source = Checkpoints(tmp_path), Source()
    save_at(checkpoints, source, 1)
    (first,) = (tmp_path / "replay").iterdir()
    before = first.stat()
    save_at(checkpoints, source, 2, 3)
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert len(names(tmp_path / "replay")) == 3


def test_a_checkpoint_that_its_run_deletes_meanwhile_is_no_damage(two, monkeypatch, capsys):
    checkpoints, _, _, folder = two
    read = checkpoint._snapshot

    def finishing(path):
        monkeypatch.setattr(checkpoint, "_snapshot", read)
        Checkpoints(folder).save(snapshot_of(300), None, 300)
        assert not path.exists()
        return read(path)

    monkeypatch.setattr(checkpoint, "_snapshot", finishing)
    assert step_of(checkpoints.restore(None)) == 300
    assert capsys.readouterr().err == ""


def test_a_finished_run_keeps_only_weights_and_is_restored_without_replay(tmp_path):
    checkpoints, source = Checkpoints(tmp_path), Source()
    save_at(checkpoints, source, 1, 2)
    checkpoints.save(snapshot_of(2), None, 2)
    assert list(tree(tmp_path)) == ["000000000003/state.npz"]
    untouched = source.empty()
    assert step_of(Checkpoints(tmp_path).restore(untouched)) == 2
    assert untouched.rows == 0


def test_a_step_saved_twice_never_replaces_the_first_in_place(tmp_path):
    """A kill between removing and renaming would leave nothing."""
    checkpoints, source = Checkpoints(tmp_path), Source()
    save_at(checkpoints, source, 7)
    first = (tmp_path / "000000000007" / "state.npz").stat().st_ino
    save_at(checkpoints, source, 7)
    assert (tmp_path / "000000000007" / "state.npz").stat().st_ino == first
    replay = source.empty()
    assert step_of(checkpoints.restore(replay)) == 7
    assert same_replay(replay, source.replay)
    save_at(checkpoints, source, 8)
    assert names(tmp_path) == ["000000000008", "000000000009", "replay"]


def flips(size, count, seed):
    generator = random.Random(seed)
    positions = {*range(0, size, max(1, size // count)), *range(max(0, size - 64), size)}
    return [(position, 1 << generator.randrange(8)) for position in sorted(positions)]


def test_a_part_of_the_state_that_damage_hides_is_missed(two):
    checkpoints, source, _, folder = two
    path = folder / "000000000200" / "state.npz"
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members, entry = archive.infolist(), archive.start_dir
    for number in range(1, len(members) + 1):
        name, extra = (int.from_bytes(whole[entry + place : entry + place + 2], "little") for place in (28, 30))
        path.write_bytes(whole[: entry + 33] + b"\x80" + whole[entry + 34 :])  # a comment that covers what follows
        assert step_of(checkpoints.restore(source.empty())) == (100 if number < len(members) else 200)
        for set_aside in folder.glob("*.damaged*"):
            set_aside.rename(folder / "000000000200")
        entry += 46 + name + extra


def test_a_replay_of_another_size_is_no_damage(tmp_path):
    source, checkpoints = Source(), Checkpoints(tmp_path)
    save_at(checkpoints, source, 100)
    before = tree(tmp_path)
    with pytest.raises(Mismatch, match="capacity is 40 there, 44 here"):
        checkpoints.restore(source.empty(44))
    assert tree(tmp_path) == before


def test_a_flipped_bit_anywhere_in_the_state_falls_back_or_changes_nothing(two, capsys):
    checkpoints, source, replay_at_100, folder = two
    path = folder / "000000000200" / "state.npz"
    whole = path.read_bytes()
    harmless = 0
    for position, bit in flips(len(whole), 400, seed=1):
        damaged = bytearray(whole)
        damaged[position] ^= bit
        path.write_bytes(damaged)
        replay = source.empty()
        step = step_of(checkpoints.restore(replay))
        err = capsys.readouterr().err
        if step == 200:  # a time stamp in the zip file, say
            harmless += 1
            assert same_replay(replay, source.replay)
            assert err == ""
        else:
            assert step == 100
            assert same_replay(replay, replay_at_100)
            assert f"checkpoint {folder}/000000000200 is damaged (" in err
            assert f"falling back to the previous checkpoint, {folder}/000000000100\n" in err
            (set_aside,) = folder.glob("*.damaged*")
            assert (set_aside / "state.npz").read_bytes() == damaged
            set_aside.rename(folder / "000000000200")
    path.write_bytes(whole)
    assert harmless < 150
    assert step_of(checkpoints.restore(source.empty())) == 200


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("file", ["state.npz", "chunk"])
def test_a_truncated_file_falls_back(two, file, share):
    checkpoints, source, replay_at_100, folder = two
    path = folder / "000000000200" / file if file == "state.npz" else max((folder / "replay").glob("rows-5-*"))
    os.truncate(path, int(share * path.stat().st_size))
    replay = source.empty()
    assert step_of(checkpoints.restore(replay)) == 100
    assert same_replay(replay, replay_at_100)


def test_a_flipped_bit_anywhere_in_the_newest_chunk_falls_back_or_changes_nothing(two, capsys):
    checkpoints, source, replay_at_100, folder = two
    (path,) = (folder / "replay").glob("rows-5-*")
    whole = path.read_bytes()
    fell_back = 0
    for position, bit in flips(len(whole), 150, seed=2):
        damaged = bytearray(whole)
        damaged[position] ^= bit
        path.write_bytes(damaged)
        replay = source.empty()
        step = step_of(checkpoints.restore(replay))
        assert same_replay(replay, source.replay if step == 200 else replay_at_100)
        if step == 100:
            fell_back += 1
            assert path.name in capsys.readouterr().err
            (folder / "000000000200.damaged-1").rename(folder / "000000000200")
    assert fell_back > 100


def test_a_missing_state_or_chunk_falls_back(two, capsys):
    checkpoints, source, _, folder = two
    (folder / "000000000200" / "state.npz").unlink()
    assert step_of(checkpoints.restore(None)) == 100
    assert step_of(checkpoints.restore(source.empty())) == 100
    assert capsys.readouterr().err.count("000000000200 is damaged") == 2
    save_at(checkpoints, source, 300)
    max((folder / "replay").glob("rows-10-*")).unlink()
    assert step_of(checkpoints.restore(source.empty())) == 100


def test_a_folder_that_a_deletion_left_is_no_damage_and_the_last_state_that_is_missing_is(two, capsys):
    checkpoints, source, _, folder = two
    (folder / "000000000100" / "state.npz").unlink()
    assert step_of(checkpoints.restore(source.empty())) == 200
    assert capsys.readouterr().err == ""
    (folder / "000000000200" / "state.npz").unlink()
    with pytest.raises(DamagedError, match="all 2 checkpoints .* are damaged: give --repair=restart"):
        checkpoints.restore(source.empty())


def test_a_run_that_fell_back_continues_and_keeps_the_damaged_checkpoint(two):
    checkpoints, source, _, folder = two
    os.truncate(folder / "000000000200" / "state.npz", 10)
    replay = source.empty()
    checkpoints.restore(replay)
    source.replay = replay
    replay.reset(*source.world.first())
    save_at(checkpoints, source, 150, 200)
    assert names(folder) == ["000000000150", "000000000200", "000000000200.damaged-1", "replay"]
    again = source.empty()
    assert step_of(checkpoints.restore(again)) == 200
    assert same_replay(again, replay)
    os.truncate(folder / "000000000200" / "state.npz", 10)
    assert step_of(checkpoints.restore(source.empty())) == 150
    assert "000000000200.damaged-2" in names(folder)


def test_if_all_are_damaged_every_start_is_refused_and_nothing_is_moved(two):
    """The second attempt must not start from step 0 because the first one renamed the checkpoints."""
    checkpoints, source, _, folder = two
    (shared,) = (folder / "replay").glob("rows-0-*")
    os.truncate(shared, 100)
    before = tree(folder)
    for _ in range(2):
        replay = source.empty()
        with pytest.raises(
            CheckpointError,
            match="0200 .*--repair=replay",
        ):
            checkpoints.restore(replay)
        assert replay.rows == 0
        assert tree(folder) == before


def test_on_request_a_damaged_replay_is_used_in_part(two):
    checkpoints, source, _, folder = two
    (shared,) = (folder / "replay").glob("rows-0-*")
    os.truncate(shared, 100)
    replay = source.empty()
    snapshot = checkpoints.restore(replay, salvage=True)
    assert step_of(snapshot) == 200
    assert snapshot.lost == "5 rows per environment are left of a damaged replay"
    assert (replay.rows, replay.stored) == (10, 5)
    checkpoints.save(snapshot_of(200), replay, 200)
    again = source.empty()
    assert step_of(checkpoints.restore(again)) == 200
    assert same_replay(again, replay)
    assert names(folder) == ["000000000200", "000000000201", "replay"]


def test_a_newer_checkpoint_whose_weights_are_damaged_is_set_aside_for_an_older_one_with_part_of_its_replay(two):
    checkpoints, source, _, folder = two
    (shared,) = (folder / "replay").glob("rows-0-*")
    os.truncate(shared, 100)
    os.truncate(folder / "000000000200" / "state.npz", 100)
    replay = source.empty()
    with pytest.raises(CheckpointError, match="0100 .*--repair=replay"):
        checkpoints.restore(replay)
    assert names(folder) == ["000000000100", "000000000200", "replay"]
    snapshot = checkpoints.restore(replay, salvage=True)
    assert step_of(snapshot) == 100
    assert snapshot.lost == "0 rows per environment are left of a damaged replay"
    assert names(folder) == ["000000000100", "000000000200.damaged-1", "replay"]


def test_if_the_states_are_damaged_too_the_message_says_how_to_begin_again(two):
    checkpoints, source, _, folder = two
    for state in folder.glob("*/state.npz"):
        os.truncate(state, 100)
    for salvage in (False, True):
        with pytest.raises(CheckpointError, match="all 2 checkpoints .*--repair=restart"):
            checkpoints.restore(source.empty(), salvage=salvage)


def test_a_reader_of_weights_needs_no_replay_and_moves_nothing(two, capsys):
    checkpoints, _, _, folder = two
    shutil.rmtree(folder / "replay")
    assert step_of(checkpoints.restore(None)) == 200
    os.truncate(folder / "000000000200" / "state.npz", 100)
    before = tree(folder)
    assert step_of(checkpoints.restore(None)) == 100
    assert "000000000200 is damaged" in capsys.readouterr().err
    assert tree(folder) == before


def test_what_is_not_of_the_run_is_left_alone_and_stops_nothing(two):
    checkpoints, source, _, folder = two
    (folder / "x.partial").write_text("mine")
    (folder / "y.partial").mkdir()
    (folder / "replay" / "notes").mkdir()
    (folder / "replay" / "rows.txt").write_text("mine")
    (folder / "replay" / "rows-0-5-00000000.npz").symlink_to("nowhere")
    (folder / "replay" / "rows.tmp").symlink_to(folder / "x.partial")
    (folder / "000000000300").symlink_to("nowhere")
    (folder / "000000000301.partial").write_text("mine")
    (folder / "000000000999").mkdir()
    (folder / "²").mkdir()
    before = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.endswith("00")}
    save_at(checkpoints, source, 300, 400, 500)
    left = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    foreign = {name for name in before if "state.npz" not in name and "rows-" not in name}
    assert foreign - left == {"replay/rows.tmp"}
    assert (folder / "replay" / "rows-0-5-00000000.npz").is_symlink()
    assert (folder / "000000000300").is_symlink()
    assert (folder / "x.partial").read_text() == "mine"
    replay = source.empty()
    assert step_of(checkpoints.restore(replay)) == 500
    assert same_replay(replay, source.replay)


@pytest.mark.parametrize("error", [MemoryError(), PermissionError(13, "Permission denied"), ImportError()])
@pytest.mark.parametrize("where", ["state", "chunk"])
def test_a_checkpoint_that_cannot_be_read_at_present_is_not_set_aside(two, monkeypatch, error, where):
    checkpoints, source, _, folder = two
    read = zipfile.ZipFile.read

    def failing(archive, name, *rest):
        if ("replay" in str(archive.filename)) == (where == "chunk"):
            raise error
        return read(archive, name, *rest)

    before = tree(folder)
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "read", failing)
        with pytest.raises(CheckpointError, match="000000000200"):
            checkpoints.restore(source.empty())
    assert tree(folder) == before
    assert step_of(checkpoints.restore(source.empty())) == 200


def test_a_damaged_older_checkpoint_neither_stops_a_save_nor_costs_chunks(two):
    checkpoints, source, _, folder = two
    os.truncate(folder / "000000000200" / "state.npz", 100)
    save_at(checkpoints, source, 300)
    replay = source.empty()
    assert step_of(checkpoints.restore(replay)) == 300
    assert same_replay(replay, source.replay)
    save_at(checkpoints, source, 400, 500)
    assert names(folder) == ["000000000400", "000000000500", "replay"]


def test_a_leftover_of_an_interrupted_save_is_ignored_and_deleted_by_the_next(two):
    checkpoints, source, _, folder = two
    shutil.copytree(folder / "000000000200", folder / "000000000250.partial")
    (folder / "replay" / "rows.tmp").write_bytes(b"half")
    (folder / "replay" / "rows-10-15-deadbeef.npz").write_bytes(b"of nobody")
    assert step_of(checkpoints.restore(source.empty())) == 200
    save_at(checkpoints, source, 250)
    assert names(folder) == ["000000000200", "000000000250", "replay"]
    assert not {"rows.tmp", "rows-10-15-deadbeef.npz"} & set(names(folder / "replay"))


@contextlib.contextmanager
def files_at_most(size):
    """Writing more than this many bytes to a file fails as on a full disk: a real error from the kernel."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [0, 100, 1500, 20_000])
def test_a_full_disk_leaves_the_earlier_checkpoints_intact_and_the_run_able_to_continue(two, size):
    """At the smaller sizes the chunk does not fit; at the largest only the state does not."""
    checkpoints, source, _, folder = two
    before = tree(folder)
    source.grow(5)
    big = Snapshot({"w": np.random.default_rng(0).integers(0, 256, 30_000, np.uint8)}, {})  # it does not compress
    with files_at_most(size), pytest.raises(CheckpointError) as failed:
        checkpoints.save(big, source.replay, 300)
    reason = f"[Errno {errno.EFBIG}] {os.strerror(errno.EFBIG)}"
    assert str(failed.value) == f"checkpoint at step 300 not written: {reason}; the earlier ones in {folder} are intact"
    assert tree(folder) == before
    assert step_of(Checkpoints(folder).restore(source.empty())) == 200
    checkpoints.save(snapshot_of(300), source.replay, 300)
    replay = source.empty()
    assert step_of(Checkpoints(folder).restore(replay)) == 300
    assert same_replay(replay, source.replay)


@pytest.mark.parametrize("call", range(16))
def test_a_failure_at_any_disk_operation_leaves_intact_checkpoints(two, call, monkeypatch):
    checkpoints, source, _, folder = two
    source.grow(5)
    calls = iter(range(1000))

    def failing(function):
        def wrapper(*args, **kwargs):
            if next(calls) == call:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args, **kwargs)

        return wrapper

    with monkeypatch.context() as patch:
        for where, name in ((os, "fsync"), (Path, "rename"), (Path, "replace"), (Path, "mkdir"), (os, "open")):
            patch.setattr(where, name, failing(getattr(where, name)))
        try:
            checkpoints.save(snapshot_of(300), source.replay, 300)
        except CheckpointError as error:
            assert "No space left on device" in str(error)
        else:
            assert next(calls) <= call  # it makes fewer calls
    assert step_of(Checkpoints(folder).restore(source.empty())) in (200, 300)
    assert not list(folder.glob("*.damaged-*"))
    checkpoints.save(snapshot_of(400), source.replay, 400)
    replay = source.empty()
    assert step_of(Checkpoints(folder).restore(replay)) == 400
    assert same_replay(replay, source.replay)


ENDLESS = """
import sys
from pathlib import Path
import numpy as np
from acer_tf.runs.checkpoint import Checkpoints
from tests.replay.checks import check_valid
from tests.runs.test_checkpoint import Source, snapshot_of, step_of
checkpoints, source = Checkpoints(Path(sys.argv[1])), Source(seed=int(sys.argv[2]), capacity=30)
replay = source.empty(30)
back = checkpoints.restore(replay)
step = 0
if back is not None:
    step, source.replay = step_of(back), replay
    check_valid(replay)
    replay.reset(*source.world.first())
print(step, flush=True)
while True:
    step += 1
    source.grow(3)
    checkpoints.save(snapshot_of(step), source.replay, step)
"""


@pytest.mark.process
def test_a_kill_at_any_moment_leaves_an_intact_checkpoint_no_older_than_the_last(tmp_path):
    generator, least = random.Random(3), 0
    for attempt in range(6):
        command = [sys.executable, "-c", ENDLESS, str(tmp_path / "c"), str(attempt)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        resumed = int(process.stdout.readline())
        assert resumed >= least
        while len(list((tmp_path / "c").glob("*/state.npz"))) < 2:
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.2))
        least = max(int(p.parent.name) for p in (tmp_path / "c").glob("*/state.npz") if p.parent.name.isdigit())
        process.kill()
        assert process.communicate()[1] == ""
    assert resumed > 0
    source = Source(capacity=30)
    replay = source.empty(30)
    assert step_of(Checkpoints(tmp_path / "c").restore(replay)) >= least
    check_valid(replay)
    assert not list((tmp_path / "c").glob("*.damaged-*"))


def test_the_state_of_a_checkpoint_is_strict_and_readable(two):
    *_, folder = two
    with np.load(folder / "000000000200" / "state.npz", allow_pickle=False) as archive:
        assert json.loads(archive["json"].tobytes())["state"]["actor"] == {"steps": 200}
        assert archive["array/online/dense/kernel"].shape == (2, 3)
    assert checkpoint.KEPT == 2
