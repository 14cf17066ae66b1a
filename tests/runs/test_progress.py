import hashlib
import os
from types import SimpleNamespace

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import metadata

from acer_tf.errors import RunFolderError
from acer_tf.runs.checkpoint import Snapshot
from acer_tf.runs.folder import resume
from acer_tf.runs.progress import Progress, progress_line, require_diagnostics
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document
from tests.training.scripted import rows_of


def row_of(steps, **more):
    return {"steps": steps, "value": steps / 8, "mean_return": None} | more


def events_of(folder):
    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def require_progress(folder, state):
    """Continues from a checkpoint with this state of its progress."""
    checkpoints = SimpleNamespace(restore=lambda replay, salvage: Snapshot({}, dict(state)))
    snapshot, repair = resume(folder, checkpoints, None, ())
    assert snapshot.state == state and repair() == []


def test_a_row_is_on_disk_as_soon_as_it_is_written(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(10))
    progress.write(row_of(20, mean_return=2.5))
    assert (tmp_path / "progress.csv").read_bytes() == b"steps,value,mean_return\n10,1.25,\n20,2.5,2.5\n"
    assert events_of(tmp_path) == {
        "steps": [(10, 10.0), (20, 20.0)],
        "value": [(10, 1.25), (20, 2.5)],
        "mean_return": [(20, 2.5)],  # nothing where the cell is empty
    }
    content = (tmp_path / "progress.csv").read_bytes()
    assert progress.state() == {"position": len(content), "progress_sha256": hashlib.sha256(content).hexdigest()}
    progress.close()


def test_the_rows_that_a_checkpoint_names_are_on_the_disk(tmp_path, monkeypatch):
    progress, synced = Progress(tmp_path, 0, 0), []
    progress.write(row_of(10))
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    progress.state()
    assert synced == [str(tmp_path / "progress.csv")]
    progress.close()


def test_a_continued_run_cuts_both_records_back_to_its_checkpoint(tmp_path, capsys):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(10))
    position = progress.state()["position"]
    for steps in (20, 30, 40):
        progress.write(row_of(steps, value=-1.0))
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("50,half a li")
    progress.close()
    progress = Progress(tmp_path, 15, position)
    assert capsys.readouterr().err == f"{tmp_path}/progress.csv: 3 rows after step 15 are cut and made again\n"
    assert [row["steps"] for row in rows_of(tmp_path)] == ["10"]
    for steps in (25, 35):
        progress.write(row_of(steps))
    progress.close()
    assert [row["steps"] for row in rows_of(tmp_path)] == ["10", "25", "35"]
    assert events_of(tmp_path)["value"] == [(10, 1.25), (25, 3.125), (35, 4.375)]


def test_a_row_logged_at_the_checkpoint_stays(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(10))
    position = progress.state()["position"]
    progress.close()
    progress = Progress(tmp_path, 10, position)
    progress.write(row_of(11))
    progress.close()
    assert events_of(tmp_path)["value"] == [(10, 1.25), (11, 1.375)]


def test_a_run_that_starts_over_leaves_no_points_of_the_first_attempt(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    for steps in (10, 20, 30):
        progress.write(row_of(steps, value=-1.0))
    progress.close()
    progress = Progress(tmp_path, 0, 0)
    assert rows_of(tmp_path) == []
    progress.write(row_of(12))
    progress.close()
    assert [row["steps"] for row in rows_of(tmp_path)] == ["12"]
    assert events_of(tmp_path)["value"] == [(12, 1.5)]


@pytest.mark.parametrize("size", [None, 0, 9])
def test_a_record_shorter_than_at_the_checkpoint_is_refused(tmp_path, size):
    if size is not None:
        (tmp_path / "progress.csv").write_bytes(b"x" * size)
    with pytest.raises(RunFolderError, match=rf"progress.csv .*{size or 0} bytes.* 10 "):
        require_progress(tmp_path, {"position": 10, "progress_sha256": ""})


def test_every_flipped_bit_before_the_checkpoint_is_refused(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    for steps in (10, 20):
        progress.write(row_of(steps))
    state = progress.state()
    progress.write(row_of(30))
    progress.close()
    whole = (tmp_path / "progress.csv").read_bytes()
    require_progress(tmp_path, state)
    for position in range(state["position"]):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        (tmp_path / "progress.csv").write_bytes(damaged)
        with pytest.raises(RunFolderError, match="progress.csv"):
            require_progress(tmp_path, state)
    (tmp_path / "progress.csv").write_bytes(whole)
    resumed = Progress(tmp_path, 20, state["position"])
    assert resumed.state() == state
    resumed.write(row_of(30))
    resumed.close()
    assert (tmp_path / "progress.csv").read_bytes() == whole


def test_a_row_of_other_columns_is_refused(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(1))
    before = (tmp_path / "progress.csv").read_bytes()
    for other in ({"steps": 2}, row_of(2, extra=1), {"value": 1, "steps": 2, "mean_return": 0}):
        with pytest.raises(RunFolderError, match="has the columns"):
            progress.write(other)
    assert (tmp_path / "progress.csv").read_bytes() == before
    position = progress.state()["position"]
    progress.close()
    progress = Progress(tmp_path, 1, position)
    with pytest.raises(RunFolderError, match="has the columns"):
        progress.write({"steps": 2})
    progress.close()


def test_a_run_whose_agent_has_other_diagnostics_is_refused_before_it_begins(tmp_path):
    names = ["replay/value", "replay/error"]
    progress = Progress(tmp_path, 0, 0)
    require_diagnostics(tmp_path, names)  # no row yet
    progress.write(row_of(1) | dict.fromkeys(names, 0.5))
    progress.close()
    require_diagnostics(tmp_path, names)
    for others, named in ((names[:1], r"\(replay/error\)"), (names[::-1], r"\(their order\)")):
        with pytest.raises(RunFolderError, match=f"progress.csv .*{named}.*--repair=progress"):
            require_diagnostics(tmp_path, others)


def test_the_progress_line_says_how_far_how_fast_and_how_good():
    row = {"steps": 25_000, "frames": 100_000, "steps_per_second": 50.0, "mean_return": -20.456}
    assert progress_line(row, 100_000) == (
        " 25.0 %  25,000 steps (100,000 frames)  50 steps/s  0:25:00 left  mean return -20.46"
    )
    unknown = progress_line(row | {"mean_return": None, "steps_per_second": 0.0}, 100_000)
    assert unknown.endswith("0 steps/s  ? left  no episode finished yet")
    over = progress_line(row | {"steps": 104_800}, 100_000)
    assert "0:00:00 left" in over and over.startswith("100.0 %")


def test_the_time_left_is_a_bound_until_an_interval_had_replay():
    row = {"steps": 25_000, "frames": 25_000, "steps_per_second": 50.0, "mean_return": 1.0}
    assert "  more than 0:25:00 left  " in progress_line(row, 100_000, slower_at=25_001)
    assert "steps/s  0:25:00 left" in progress_line(row, 100_000, slower_at=25_000)
    assert "steps/s  0:00:00 left" in progress_line(row | {"steps": 100_000}, 100_000, slower_at=200_000)


def test_what_tensorflow_cannot_write_is_an_os_error(tmp_path, monkeypatch):
    progress = Progress(tmp_path, 0, 0)

    def full():
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(progress._events, "flush", full)
        with pytest.raises(OSError, match="^No space left on device$"):
            progress.write(row_of(10))
    progress.close()


def test_tensorboard_has_the_settings_as_hparams_once(tmp_path):
    settings = settings_document(make_settings(env="minatar/breakout", learning_rate=0.25, replay_ratio=2.0))
    progress = Progress(tmp_path, 0, 0, settings)
    progress.write(row_of(10))
    position = progress.state()["position"]
    progress.close()
    Progress(tmp_path, 10, position, settings).close()
    found = []
    for file in sorted((tmp_path / "tensorboard").iterdir()):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if value.tag == metadata.SESSION_START_INFO_TAG:
                    found.append(metadata.parse_session_start_info_plugin_data(value.metadata.plugin_data.content))
    (start,) = found
    assert start.hparams["learning_rate"].number_value == 0.25
    assert start.hparams["env"].string_value == "minatar/breakout"
    assert start.hparams["on_policy_updates"].bool_value is True
    assert "learning_rate_final" not in start.hparams, "it is None"
