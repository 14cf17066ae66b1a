import csv

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acer_tf.training.lock import RunFolderError
from acer_tf.training.progress import Progress, progress_line


def row_of(steps, **more):
    return {"steps": steps, "value": steps / 8, "mean_return": None} | more


def rows_of(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def events_of(folder):
    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


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
    assert progress.position() == (tmp_path / "progress.csv").stat().st_size
    progress.close()


def test_a_continued_run_cuts_both_records_back_to_its_checkpoint(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(10))
    position = progress.position()
    for steps in (20, 30, 40):
        progress.write(row_of(steps, value=-1.0))
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("50,half a li")
    progress.close()
    progress = Progress(tmp_path, 15, position)
    assert [row["steps"] for row in rows_of(tmp_path)] == ["10"]
    for steps in (25, 35):
        progress.write(row_of(steps))
    progress.close()
    assert [row["steps"] for row in rows_of(tmp_path)] == ["10", "25", "35"]
    assert events_of(tmp_path)["value"] == [(10, 1.25), (25, 3.125), (35, 4.375)]


def test_a_row_logged_at_the_checkpoint_stays(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(10))
    position = progress.position()
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
    with pytest.raises(
        RunFolderError, match=rf"progress.csv has {size or 0} bytes, but had 10 at the checkpoint of step"
    ):
        Progress(tmp_path, 1000, 10)


def test_a_row_of_other_columns_is_refused(tmp_path):
    progress = Progress(tmp_path, 0, 0)
    progress.write(row_of(1))
    before = (tmp_path / "progress.csv").read_bytes()
    for other in ({"steps": 2}, row_of(2, extra=1), {"value": 1, "steps": 2, "mean_return": 0}):
        with pytest.raises(RunFolderError, match="has the columns"):
            progress.write(other)
    assert (tmp_path / "progress.csv").read_bytes() == before
    position = progress.position()
    progress.close()
    progress = Progress(tmp_path, 1, position)
    with pytest.raises(RunFolderError, match="has the columns"):
        progress.write({"steps": 2})
    progress.close()


def test_the_progress_line_says_how_far_how_fast_and_how_good():
    row = {"steps": 25_000, "frames": 100_000, "steps_per_second": 50.0, "mean_return": -20.456}
    assert progress_line(row, 100_000) == (
        " 25.0 %  25,000 steps (100,000 frames)  50 steps/s  0:25:00 left  mean return -20.46"
    )
    unknown = progress_line(row | {"mean_return": None, "steps_per_second": 0.0}, 100_000)
    assert unknown.endswith("0 steps/s  ? left  no episode finished yet")
    assert "0:00:00 left" in progress_line(row | {"steps": 100_200}, 100_000)
