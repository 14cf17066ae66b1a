"""Saving and restoring trajectory replay: shared files, equality to an uninterrupted replay, damaged files."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

from acer_tf.errors import Mismatch
from acer_tf.replay import PrioritizedReplay, ReplayCorrupt, TrajectoryReplay, ring
from acer_tf.replay.chunks import read_chunk, write_chunk
from acer_tf.types import EnvironmentSpec
from tests.replay.checks import check_valid
from tests.replay.twin import World, latest, sample, spec_of

State = dict[str, np.ndarray]
Operation = tuple[str, tuple[Any, ...]]

SPEC = spec_of(4)
SIZES: dict[str, Any] = dict(num_envs=3, capacity=30, unroll_length=4)


def new_replay(seed: int = 99, spec: EnvironmentSpec = SPEC, **changed: Any) -> TrajectoryReplay:
    return TrajectoryReplay(spec, **{**SIZES, **changed}, seed=seed)


def tape_of(world: World, steps: int) -> list[Operation]:
    """The operations of an actor and a learner on a replay: unrolls of one row and of T = 4 rows."""
    tape: list[Operation] = [("reset", world.first())]
    rows = 0
    while rows < steps:
        length = 4 if len(tape) % 3 == 0 and rows + 4 <= steps else 1
        tape.append(("append", (world.unroll(length),)))
        rows += length
        if rows >= 5:
            tape.append(("sample", ()))
    return tape


def unrolls(world: World, rows: int) -> list[Operation]:
    return [("append", (world.unroll(),)) for _ in range(rows)]


def play(replay: TrajectoryReplay, tape: list[Operation]) -> list[list[bytes]]:
    """Runs the operations and returns the bytes of everything that was drawn."""
    draws = {"latest": latest, "sample": sample}
    answers = [
        draws[operation](replay) if operation in draws else getattr(replay, operation)(*arguments)
        for operation, arguments in tape
    ]
    check_valid(replay)
    return [[array.tobytes() for array in optree.tree_leaves(answer)] for answer in answers if answer is not None]


def content(replay: TrajectoryReplay, folder: Path) -> Any:
    """Everything that a replay holds, apart from its file names; written to a new folder, so completely."""
    state = replay.save(folder)
    files = replay.chunk_files(state)
    arrays = [dict(np.load(folder / name)) for name in files]
    shutil.rmtree(folder)
    return {name: value.tolist() for name, value in state.items()}, [
        {name: value.tolist() for name, value in chunk.items()} for chunk in arrays
    ]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of at most 7 rows."""
    monkeypatch.setattr(ring, "CHUNK_BYTES", 7 * 3 * ring.row_bytes(SPEC) + 5)
    return 7


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("segments_only", [False, True])
def test_restored_at_random_moments_equals_never_interrupted(
    tmp_path: Path, small_chunks: int, seed: int, segments_only: bool
) -> None:
    def replay_of(seed: int) -> TrajectoryReplay:
        return TrajectoryReplay(SPEC, **SIZES, seed=seed, segments_only=segments_only)

    tape = tape_of(World(SPEC, SIZES["num_envs"], seed), steps=140)
    tape = [operation for step, operation in enumerate(tape) if operation[0] != "sample" or step > 20]
    uninterrupted = play(replay_of(seed), tape)
    moments = np.sort(np.random.default_rng(seed).choice(np.arange(len(tape)), 7, replace=False)).tolist()

    replay, answers, saved = replay_of(seed), [], []
    for begin, end in zip([0, *moments], [*moments, len(tape)], strict=True):
        answers += play(replay, tape[begin:end])
        if end < len(tape):
            state = replay.save(tmp_path / "live")
            shutil.copytree(tmp_path / "live", tmp_path / f"copy-{end}")
            saved.append((end, state, len(answers)))
            replay = replay_of(seed=1000 + end)  # another seed: the generator must come from the state
            replay.restore(tmp_path / "live", state)
            check_valid(replay)
    assert answers == uninterrupted

    for end, state, drawn in saved:  # earlier states too, from the folder with later ones
        for folder in ("live", f"copy-{end}"):
            replay = replay_of(seed=5)
            replay.restore(tmp_path / folder, state)
            assert play(replay, tape[end:]) == uninterrupted[drawn:]


def test_successive_states_share_files_that_are_written_once(tmp_path: Path, small_chunks: int) -> None:
    replay, world = new_replay(), World(SPEC, SIZES["num_envs"], 0)
    play(replay, tape_of(world, 10))
    written: dict[str, tuple[int, int]] = {}
    previous: list[str] = []
    for _ in range(8):
        play(replay, unrolls(world, 9))
        files = replay.chunk_files(replay.save(tmp_path))
        for name in files:
            about = (tmp_path / name).stat()
            identity = about.st_ino, about.st_mtime_ns
            assert written.setdefault(name, identity) == identity
        ranges = [tuple(map(int, name.split("-")[1:3])) for name in files]
        assert all(last - first <= small_chunks for first, last in ranges)
        assert [last for _, last in ranges[:-1]] == [first for first, _ in ranges[1:]]
        first_stored = replay.rows - replay.stored
        assert ranges[0][0] <= first_stored < ranges[0][1] and ranges[-1][1] == replay.rows
        new = 2 if previous else 3  # 9 rows, or at first 19, in chunks of 7
        assert [name for name in files if name not in previous] == files[-new:]
        previous = files
    assert replay.chunk_files(replay.save(tmp_path)) == previous, "without new rows nothing is written"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(written), "no temporary file remains"


def test_a_restored_replay_writes_only_newer_rows(tmp_path: Path) -> None:
    replay, world = new_replay(), World(SPEC, SIZES["num_envs"], 0)
    play(replay, tape_of(world, 20))
    old = replay.chunk_files(replay.save(tmp_path))
    state = replay.save(tmp_path)
    restored = new_replay()
    restored.restore(tmp_path, state)
    play(restored, unrolls(world, 3))
    files = restored.chunk_files(restored.save(tmp_path))
    assert len(files) == 2 and files[:1] == old and files[1].startswith("rows-20-23-")


def test_files_that_no_state_refers_to_may_be_deleted(tmp_path: Path, small_chunks: int) -> None:
    replay, world = new_replay(), World(SPEC, SIZES["num_envs"], 0)
    play(replay, tape_of(world, 60))
    replay.save(tmp_path)
    play(replay, unrolls(world, 20))
    state = replay.save(tmp_path)
    for path in tmp_path.iterdir():
        if path.name not in replay.chunk_files(state):
            path.unlink()
    restored = new_replay()
    restored.restore(tmp_path, state)
    assert content(restored, tmp_path / "a") == content(replay, tmp_path / "b")


def test_rows_whose_files_are_missing_are_written_again(tmp_path: Path, small_chunks: int) -> None:
    replay = new_replay()
    play(replay, tape_of(World(SPEC, SIZES["num_envs"], 0), 25))
    files = replay.chunk_files(replay.save(tmp_path))
    for gone in (files[0], files[1], files[-1]):
        (tmp_path / gone).unlink()
        restored = new_replay()
        restored.restore(tmp_path, replay.save(tmp_path))
        assert content(restored, tmp_path / "a") == content(replay, tmp_path / "b")


def test_the_state_is_plain_arrays(tmp_path: Path) -> None:
    replay = new_replay()
    play(replay, tape_of(World(SPEC, SIZES["num_envs"], 0), 15))
    np.savez(tmp_path / "state.npz", **replay.save(tmp_path))  # type: ignore[arg-type]
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        state = dict(file)
    restored = new_replay()
    restored.restore(tmp_path, state)
    more: list[Operation] = [("sample", ())] * 50
    assert play(restored, more) == play(replay, more)


@pytest.mark.parametrize("rows", [None, 0])
def test_a_replay_without_rows_is_saved_too(tmp_path: Path, rows: int | None) -> None:
    world, replay = World(SPEC, SIZES["num_envs"], 0), new_replay(seed=3)
    tape = tape_of(world, 12)
    play(replay, [] if rows is None else tape[:1])
    restored = new_replay()
    restored.restore(tmp_path, replay.save(tmp_path))
    rest = tape if rows is None else tape[1:]
    assert play(restored, rest) == play(replay, rest)
    restored.save(tmp_path)


@pytest.mark.parametrize("game_over", [0.0, 1.0])
def test_after_a_restore_a_seam_joins_fresh_environments(tmp_path: Path, game_over: float) -> None:
    world, replay = World(SPEC, SIZES["num_envs"], 0, game_over=0.0), new_replay()
    play(replay, tape_of(world, 10))
    world.game_over = game_over
    play(replay, unrolls(world, 1))
    assert world.last.all() == bool(game_over)
    restored = new_replay()
    restored.restore(tmp_path, replay.save(tmp_path))
    fresh = World(SPEC, SIZES["num_envs"], 1, game_over=0.0)
    rest: list[Operation] = [("reset", fresh.first()), *unrolls(fresh, 5), ("latest", ()), ("sample", ())]
    assert play(restored, rest) == play(replay, rest)
    assert restored.rows == 10 + 1 + 1 + 5
    play(restored, unrolls(fresh, 40))


@pytest.mark.parametrize("noise", [False, True])
def test_frames_are_compressed_and_noise_is_not(tmp_path: Path, noise: bool) -> None:
    frames = np.zeros((3, 50, 84, 84), np.uint8)
    frames[:, :, 40:44, 20:30] = np.arange(50)[:, None, None]  # something that moves
    if noise:
        frames = np.random.default_rng(0).integers(0, 256, frames.shape, np.uint8)
    arrays = {"observation": frames, "reward": np.random.default_rng(1).normal(size=(3, 50)).astype(np.float32)}
    wholes = []
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        chunk = write_chunk(tmp_path / place, 0, 50, arrays)
        found = read_chunk(tmp_path / place, chunk)
        assert {name: found[name].tobytes() for name in found} == {name: arrays[name].tobytes() for name in arrays}
        wholes.append((tmp_path / place / chunk.name).read_bytes())
    assert wholes[0] == wholes[1], "the same rows give the same bytes"
    assert (len(wholes[0]) < frames.nbytes / 20) != noise
    assert len(wholes[0]) < frames.nbytes * 1.01


# Damage


def saved_replay(folder: Path, rows: int = 12) -> tuple[TrajectoryReplay, State, list[Path]]:
    replay = new_replay(seed=7)
    play(replay, tape_of(World(SPEC, SIZES["num_envs"], 0), rows))
    state = replay.save(folder)
    return replay, state, [folder / name for name in replay.chunk_files(state)]


def assert_refused_untouched(folder: Path, state: State, named: Path) -> None:
    """Restoring fails with the file's name, and the replay is as if nothing had happened."""
    tape = tape_of(World(SPEC, SIZES["num_envs"], 8), 9)
    tried, other = new_replay(seed=1), new_replay(seed=1)
    with pytest.raises(ReplayCorrupt, match=named.name):
        tried.restore(folder, state)
    assert play(tried, tape) == play(other, tape)
    scratch = folder.parent / "scratch"
    assert content(tried, scratch) == content(other, scratch)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1]), id="one byte short"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), id="half"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[100:]), id="headless"),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), id="a folder"),
        pytest.param(lambda path: np.savez(path, observation=np.zeros(3)), id="another archive"),
    ],
)
@pytest.mark.parametrize("which", [0, -1])
def test_a_damaged_chunk_is_refused(
    tmp_path: Path, small_chunks: int, damage: Callable[[Path], object], which: int
) -> None:
    _, state, files = saved_replay(tmp_path / "saved")
    damage(files[which])
    assert_refused_untouched(tmp_path / "saved", state, files[which])


def test_every_flipped_bit_is_detected_or_harmless(tmp_path: Path) -> None:
    replay, state, (path,) = saved_replay(tmp_path / "saved", rows=6)
    draws: list[Operation] = [("sample", ())] * 20  # of 3 starts
    whole, wanted = path.read_bytes(), play(replay, draws)
    choose = np.random.default_rng(0)
    refused = harmless = 0
    for position in choose.permutation(len(whole))[:500]:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << choose.integers(8)
        path.write_bytes(flipped)
        restored = new_replay()
        try:
            restored.restore(tmp_path / "saved", state)
        except ReplayCorrupt:
            refused += 1
        else:  # a time stamp or the like in the archive's table of contents
            harmless += 1
            assert play(restored, draws) == wanted
    assert refused > harmless > 0


def test_an_array_that_claims_to_be_shorter_is_refused(tmp_path: Path) -> None:
    spec = spec_of(4, frame=(50, 50))  # larger than what zipfile reads ahead, and would check by chance
    replay = new_replay(spec=spec)
    play(replay, tape_of(World(spec, SIZES["num_envs"], 0), 6))
    state = replay.save(tmp_path)
    (path,) = tmp_path.iterdir()
    whole, shape = path.read_bytes(), b"'shape': (3, 7, 50, 50)"
    assert whole.count(shape) == 1
    path.write_bytes(whole.replace(shape, shape.replace(b"7", b"1")))
    with pytest.raises(ReplayCorrupt, match=path.name):
        new_replay(spec=spec).restore(tmp_path, state)


def test_a_chunk_of_the_same_rows_from_elsewhere_is_refused(tmp_path: Path) -> None:
    _, state, (path,) = saved_replay(tmp_path / "saved")
    other = new_replay()
    play(other, tape_of(World(SPEC, SIZES["num_envs"], 1), 12))
    (name,) = other.chunk_files(other.save(tmp_path / "other"))
    shutil.copy(tmp_path / "other" / name, path)
    assert_refused_untouched(tmp_path / "saved", state, path)


def test_a_state_without_all_its_rows_is_refused(tmp_path: Path, small_chunks: int) -> None:
    _, state, files = saved_replay(tmp_path, rows=20)
    assert len(files) == 3
    for lost in range(3):
        with pytest.raises(ReplayCorrupt, match="row 20"):
            new_replay().restore(tmp_path, state | {"chunks": np.delete(state["chunks"], lost, axis=0)})


@pytest.mark.parametrize("damaged", range(3))
@pytest.mark.parametrize("priority", [None, "proportional", "rank"])
def test_what_follows_a_damaged_chunk_can_be_salvaged(
    tmp_path: Path, small_chunks: int, damaged: int, priority: Any
) -> None:
    """And the run goes on with it: the rows before are gone as if they had been overwritten."""
    prioritized = dict(batch_size=2, priority=priority, priority_exponent=(0.6, 0.6), importance_exponent=(0.4, 1.0))

    def empty(seed: int) -> TrajectoryReplay:
        return PrioritizedReplay(SPEC, **SIZES, seed=seed, **prioritized) if priority else new_replay(seed)

    world = World(SPEC, SIZES["num_envs"], 0)
    replay = empty(7)
    play(replay, tape_of(world, 20))
    state = replay.save(tmp_path / "saved")
    files = replay.chunk_files(state)
    last = int(files[damaged].split("-")[2])
    (tmp_path / "saved" / files[damaged]).write_bytes(b"damaged")
    with pytest.raises(ReplayCorrupt, match=files[damaged]):
        empty(1).restore(tmp_path / "saved", state)
    salvaged = empty(1)
    salvaged.restore(tmp_path / "saved", state, salvage=True)
    again = empty(2)
    again.restore(tmp_path / "saved", salvaged.save(tmp_path / "saved"))
    fresh = World(SPEC, SIZES["num_envs"], 1)
    rest: list[Operation] = [("reset", fresh.first()), *unrolls(fresh, 9)]
    for each in (salvaged, again):
        check_valid(each)
        assert (each.rows, each.stored, each.started) == (20, 20 - last, last < 20)
        play(each, rest)
        assert each.stored == (30 - last if last < 20 else 9)
    for name in ("observation", "reward", "mask"):
        since = np.arange(last, 20)
        assert np.array_equal(salvaged._gather(name, since), replay._gather(name, since))
    assert salvaged.can_sample
    draws: list[Operation] = [("sample", ())] * 200
    assert play(salvaged, draws) == play(again, draws)
    assert not np.array_equal(salvaged._valid_starts()[0][:1], [0])
    assert salvaged._valid_starts()[0][salvaged._valid_starts()[1]].min() >= last


def test_runs_that_continue_from_the_same_state_do_not_mix_their_chunks(tmp_path: Path) -> None:
    world = World(SPEC, SIZES["num_envs"], 0)
    replay = new_replay()
    play(replay, tape_of(world, 10))
    first_state = replay.save(tmp_path)
    play(replay, unrolls(world, 10))
    lost_state = replay.save(tmp_path)  # rows 10-20, then the process dies before the checkpoint is complete

    other = World(SPEC, SIZES["num_envs"], 1)
    resumed = new_replay()
    resumed.restore(tmp_path, first_state)
    play(resumed, [("reset", other.first()), *unrolls(other, 9)])
    (tmp_path / "rows.tmp").write_bytes(b"half a chunk")  # killed while it wrote
    second_state = resumed.save(tmp_path)  # rows 10-20 again

    for state, wanted in ((second_state, resumed), (lost_state, replay)):
        restored = new_replay()
        restored.restore(tmp_path, state)
        assert restored.rows == 20
        assert content(restored, tmp_path / "a") == content(wanted, tmp_path / "b")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The operating system refuses larger files, as with a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_earlier_states_valid_and_no_partial_files(tmp_path: Path) -> None:
    world = World(SPEC, SIZES["num_envs"], 0)
    replay = new_replay()
    play(replay, tape_of(world, 10))
    state = replay.save(tmp_path / "saved")
    wanted = content(replay, tmp_path / "scratch")
    files = sorted(path.name for path in (tmp_path / "saved").iterdir())
    play(replay, unrolls(world, 10))
    with files_of_at_most(1000), pytest.raises(OSError):
        replay.save(tmp_path / "saved")
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == files
    restored = new_replay()
    restored.restore(tmp_path / "saved", state)
    assert content(restored, tmp_path / "scratch") == wanted

    again = new_replay()  # with space again, the same replay saves everything
    again.restore(tmp_path / "saved", replay.save(tmp_path / "saved"))
    assert content(again, tmp_path / "scratch") == content(replay, tmp_path / "scratch")


@pytest.mark.parametrize(
    "spec, sizes, message",
    [
        (SPEC, dict(capacity=31), "capacity is 30 there, 31 here"),
        (SPEC, dict(num_envs=4), "num_envs is 3 there, 4 here"),
        (spec_of(4, num_actions=5), {}, r"behaviour is \[\[3\], 'float32'\] there, \[\[5\], 'float32'\] here"),
        (spec_of(4, frame=(3, 2)), {}, r"observation is \[\[2, 3\], 'uint8'\] there, \[\[3, 2\], 'uint8'\] here"),
        (spec_of(4, dtype="float32"), {}, r"'uint8'\] there, \[\[2, 3\], 'float32'\] here"),
    ],
)
def test_a_state_of_other_sizes_is_refused(
    tmp_path: Path, spec: EnvironmentSpec, sizes: dict[str, int], message: str
) -> None:
    _, state, _ = saved_replay(tmp_path)
    with pytest.raises(Mismatch, match=message):
        new_replay(spec=spec, **sizes).restore(tmp_path, state)
