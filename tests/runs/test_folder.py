import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from acer_tf.errors import RunFolderError
from acer_tf.files import write_whole
from acer_tf.runs.folder import Lock, known_run

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from acer_tf.runs.folder import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_folder_is_used_by_one_at_a_time(tmp_path):
    lock = Lock(tmp_path / "new" / "run")
    here = f"host {socket.gethostname()}, pid {os.getpid()}"
    for _ in range(2):  # a refusal leaves the holder's name
        with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path}/new/run .*{here}$"):
            Lock(tmp_path / "new" / "run")
    lock.release()
    Lock(tmp_path / "new" / "run").release()


@pytest.mark.process
def test_the_holder_in_another_process_is_named_and_its_death_frees_the_folder(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunFolderError, match=rf"{socket.gethostname()}, pid {holder.pid}$"):
            Lock(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    assert holder.returncode == -signal.SIGKILL
    assert f"pid {holder.pid}" in (tmp_path / "lock").read_text()  # stale
    lock = Lock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"host {socket.gethostname()}, pid {os.getpid()}\n"
    lock.release()


@pytest.mark.process
def test_a_child_that_outlives_the_holder_does_not_keep_the_folder(tmp_path):
    # The child says it, because it lets go of the lock some time after the fork.
    forked = HOLDER.replace("print", "import os\nif os.fork() > 0:\n    time.sleep(600)\nprint")
    holder = subprocess.Popen(
        [sys.executable, "-c", forked, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunFolderError, match=rf"pid {holder.pid}$"):  # closing it in the child changes nothing
            Lock(tmp_path)
        holder.kill()
        holder.wait()
        Lock(tmp_path).release()
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.communicate()


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path} .*No locks available"):
        Lock(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path}/file/run .*Not a directory"):
        Lock(tmp_path / "file" / "run")


@pytest.mark.parametrize("run", ["run", "new/run", "new/" + "x" * 300])
def test_a_folder_that_stays_empty_is_deleted_again(tmp_path, run):
    if len(run) < 300:
        Lock(tmp_path / run).release()
    else:
        with pytest.raises(RunFolderError, match="cannot be used: .*File name too long"):
            Lock(tmp_path / run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [[], ["notes"], ["lock", "notes"]])
def test_a_folder_to_which_nothing_is_written_is_as_before(tmp_path, there):
    for name in there:
        (tmp_path / name).touch()
    Lock(tmp_path).release()
    assert sorted(path.name for path in tmp_path.iterdir()) == there


def test_the_lock_stays_in_a_folder_that_was_written_to(tmp_path):
    lock = Lock(tmp_path / "run")
    (tmp_path / "run" / "run.json").touch()
    lock.release()
    assert (tmp_path / "run" / "lock").exists()


def test_what_a_killed_process_left_half_written_is_deleted(tmp_path):
    unable = mock.patch.multiple(Path, replace=mock.Mock(side_effect=OSError), unlink=mock.DEFAULT)
    with unable, pytest.raises(OSError):
        write_whole(tmp_path / "run.json", "{")  # as if killed: nothing is tidied up
    assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
    (tmp_path / "notes.partial").touch()
    Lock(tmp_path).release()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.partial"]


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path} .*symbolic link"):
        Lock(tmp_path)
    (tmp_path / "lock").unlink()
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(RunFolderError, match=rf"^--run_dir={tmp_path} cannot be used: "):
        Lock(tmp_path)
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("name", ["progress.csv", "checkpoints"])
def test_what_a_lost_run_left_is_not_taken_for_that_of_a_new_one(name, tmp_path):
    (tmp_path / name).mkdir()
    with pytest.raises(RunFolderError, match=f"has a {name} but no run.json: choose another folder"):
        known_run(tmp_path)


@pytest.mark.parametrize("name", ["a [1]", "a\\\\b"])
def test_a_folder_whose_policy_tensorflow_could_not_read_is_refused(name, tmp_path):
    with pytest.raises(RunFolderError, match="which TensorFlow takes for a pattern"):
        known_run(tmp_path / name)
    assert not list(tmp_path.iterdir())
