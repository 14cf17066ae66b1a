import csv
import json
import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acer_tf.training import records
from acer_tf.training.records import Lock, Progress, RunFolderError, progress_line, run_document, write_json

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from acer_tf.training.records import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def row_of(steps, **more):
    return {"steps": steps, "value": steps / 8, "mean_return": None} | more


def rows_of(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def events_of(folder):
    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def test_a_folder_is_used_by_one_at_a_time(tmp_path):
    lock = Lock(tmp_path / "new" / "run")
    here = f"host {socket.gethostname()}, pid {os.getpid()}"
    for _ in range(2):  # a refusal leaves the holder's name
        with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path}/new/run is in use by {here}$"):
            Lock(tmp_path / "new" / "run")
    lock.release()
    Lock(tmp_path / "new" / "run").release()


def test_the_holder_in_another_process_is_named_and_its_death_frees_the_folder(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunFolderError, match=rf"is in use by host {socket.gethostname()}, pid {holder.pid}$"):
            Lock(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    assert holder.returncode == -signal.SIGKILL
    assert f"pid {holder.pid}" in (tmp_path / "lock").read_text()  # stale
    lock = Lock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"host {socket.gethostname()}, pid {os.getpid()}\n"
    lock.release()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path}/file/run cannot be used: .*Not a directory"):
        Lock(tmp_path / "file" / "run")


def test_the_document_says_what_where_and_by_which_code():
    document = json.loads(json.dumps(run_document({"gamma": 0.9, "delta": math.inf, "x": None}, {"more": 1})))
    assert document["settings"] == {"gamma": 0.9, "delta": "inf", "x": None}
    assert document["more"] == 1
    assert document["command"][0] == "python"
    assert document["command"][1:] == sys.orig_argv[1:]
    assert document["versions"]["python"] == sys.version.split()[0]
    assert {"tensorflow", "keras", "gymnasium", "ale-py", "numpy"} <= set(document["versions"])
    assert document["machine"]["host"] == socket.gethostname()
    assert document["machine"]["cores"] >= 1
    assert document["started"].endswith("+00:00")


def test_a_document_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})

    def full(self, text):
        with self.open("w") as file:
            file.write(text[:3])
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space"):
            write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    write_json(path, {"a": 3})
    assert json.loads(path.read_text()) == {"a": 3}


def test_the_commit_is_that_of_the_checkout_and_says_where_the_package_differs(tmp_path, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(records, "__file__", str(package / "records.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert records.git_commit() is None

    def git(*arguments):
        options = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *options, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    assert records.git_commit() is None  # no commit yet
    (package / "records.py").write_text("1")
    git("add", ".")
    git("commit", "-qm", "one")
    head = git("rev-parse", "HEAD")
    assert records.git_commit() == head
    (tmp_path / "notes.txt").write_text("beside the package")
    assert records.git_commit() == head
    (package / "records.py").write_text("2")
    assert records.git_commit() == head + "+changes"
    monkeypatch.setenv("PATH", "")
    assert records.git_commit() is None


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
    assert unknown.endswith("0 steps/s  ? left  no game finished yet")
    assert "0:00:00 left" in progress_line(row | {"steps": 100_200}, 100_000)
