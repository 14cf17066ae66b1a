import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from acer_tf.training.lock import Lock, RunFolderError

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from acer_tf.training.lock import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


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
