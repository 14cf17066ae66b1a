"""The process between a learner and Ray, with other objects than Ray's: what is left when one of them ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from acer_tf.errors import ClusterLost, SettingsError
from acer_tf.runs.signals import USUAL
from acer_tf.training import ray_process
from acer_tf.training.ray_process import RayProcess

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]


class Takes(Exception):
    """Cannot be unpickled: its argument is not the one that pickle gives."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one + two)


class Cluster:
    """Stands for the driver of a local cluster: it starts processes of several kinds, one of which it leaves."""

    def __init__(self, refused: str = "") -> None:
        if refused:
            raise SettingsError(refused)
        self.notes: list[str] = []
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        subprocess.Popen(["bash", "-c", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000 & wait"])
        subprocess.run(["bash", "-c", "setsid sleep 1000 & disown"])

    def pid(self) -> int:
        return os.getpid()

    def fails(self, kind: type[Exception], *arguments: int) -> None:
        self.notes.append(f"before {kind.__name__}")
        raise kind(*arguments) from ValueError("as Ray shows it")


CLUSTER = f"{__name__}:{Cluster.__name__}"


def below(guardian: psutil.Process) -> list[psutil.Process]:
    """All processes under `guardian`, once each of `Cluster`'s has begun."""
    deadline = time.monotonic() + 60
    while sum(each.name() == "sleep" for each in guardian.children(recursive=True)) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return guardian.children(recursive=True)


def gone(processes: list[psutil.Process], seconds: float = 20.0) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


def test_what_its_methods_return_and_raise_comes_back_with_its_notes():
    process = RayProcess(CLUSTER)
    try:
        assert psutil.Process(process.call("pid")).ppid() == process._process.pid
        with pytest.raises(KeyError) as error:
            process.call("fails", KeyError, 3)
        assert str(error.value.__cause__) == "as Ray shows it"
        with pytest.raises(RuntimeError, match="^Takes: 3$"):
            process.call("fails", Takes, 1, 2)
        assert process.notes == ["before KeyError", "before Takes"]
        assert psutil.Process(process.call("pid")).is_running()
    finally:
        process.close()
    with pytest.raises(SettingsError, match="no room"):
        RayProcess(CLUSTER, "no room")


@pytest.mark.parametrize("which", ["object", "guardian", "closed"])
def test_its_end_is_an_error_here_and_leaves_no_process(which: str):
    process = RayProcess(CLUSTER)
    found = below(psutil.Process(process._process.pid))
    if which == "closed":
        process.close()
        assert gone(found, 0)
        return
    pid = process.call("pid")
    process.send("pid")  # a call that is under way does not matter
    os.kill(pid if which == "object" else process._process.pid, signal.SIGKILL)
    with pytest.raises(ClusterLost, match="status 137" if which == "object" else "status -9"):
        process.receive()
        for _ in range(100):  # the kernel ends it a moment after its guardian
            process.call("pid")
            time.sleep(0.1)
    # A guardian that is killed cannot look after more than the object; Ray's own processes follow that one's end.
    assert gone(found if which == "object" else [psutil.Process(pid)] if psutil.pid_exists(pid) else [])
    process.close()
    for left in found:
        if left.is_running():
            left.kill()


def test_a_stop_that_was_asked_for_comes_before_the_loss():
    """A service manager ends all processes at once."""

    class Stopped(Exception):
        pass

    def stopped():
        raise Stopped

    process = RayProcess(CLUSTER)
    os.kill(process._process.pid, signal.SIGTERM)
    with pytest.raises(Stopped):
        process.receive(stopped)
    process.close()


class Saves:
    """Stands for a sweep's tasks: a run that is asked to stop takes its time."""

    def __init__(self, file: str) -> None:
        program = f"trap 'sleep 1; echo saved > {file}; exit' TERM; echo > {file}; while :; do sleep 0.05; done"
        subprocess.Popen(["bash", "-c", program], start_new_session=True)
        while not os.path.exists(file):
            time.sleep(0.01)


@pytest.mark.parametrize(("grace", "saved"), [(20.0, "saved\n"), (0.0, "\n")])
def test_what_is_left_has_time_to_save_its_work(grace: float, saved: str, tmp_path: Path):
    process = RayProcess(f"{__name__}:{Saves.__name__}", str(tmp_path / "file"), grace=grace)
    found = psutil.Process(process._process.pid).children(recursive=True)
    process.close()
    assert gone(found, 0)
    assert (tmp_path / "file").read_text() == saved


class Slow:
    """Stands for a driver that waits for actors, in signs of life or without them."""

    def __init__(self) -> None:
        self.alive = lambda: None
        subprocess.Popen(["sleep", "1000"], start_new_session=True)

    def pid(self) -> int:
        return os.getpid()

    def wait(self, seconds: float, signs: int) -> str:
        for _ in range(signs):
            time.sleep(seconds / signs)
            self.alive()
        return "done"


@pytest.mark.parametrize("stopped", ["driver", "guardian and driver"])
def test_a_process_that_hangs_is_lost_and_one_that_says_that_it_waits_is_not(stopped, monkeypatch):
    monkeypatch.setattr(ray_process, "SILENCE_SECONDS", 3.0)
    monkeypatch.setattr(ray_process, "_KILL_SECONDS", 1.0)
    process = RayProcess(f"{__name__}:{Slow.__name__}")
    found = [psutil.Process(process.call("pid")), psutil.Process(process._process.pid)]
    below = found[0].children()
    assert process.call("wait", 6.0, 6) == "done"
    for each in found[: 1 + (stopped != "driver")]:
        each.suspend()
    with pytest.raises(ClusterLost, match="has not answered for 3 s"):
        process.call("wait", 0.0, 0)
    process.close()
    assert below and gone([*found, *below])


def test_signals_to_all_processes_of_a_job_do_not_end_it():
    process = RayProcess(CLUSTER)
    pid = process.call("pid")
    for number in USUAL.keys() - {signal.SIGTERM}:
        for each in (pid, process._process.pid):
            os.kill(each, number)
    assert process.call("pid") == pid
    process.close()


def test_it_is_not_left_when_this_process_is_killed():
    code = f"""
import time
from acer_tf.training import ray_process
from acer_tf.training.ray_process import RayProcess
process = RayProcess({CLUSTER!r})
print(process._process.pid, flush=True)
time.sleep(1000)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    guardian = psutil.Process(int(parent.stdout.readline()))
    found = [guardian, *below(guardian)]
    parent.kill()
    parent.wait()
    time.sleep(0.1)
    assert gone(found)
