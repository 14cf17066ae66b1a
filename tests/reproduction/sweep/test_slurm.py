"""Sweeps on a real Slurm cluster of one node with two cores, on this machine."""

import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from acer_tf.commands import sweep_flags
from acer_tf.commands.sweep_flags import PROGRAM
from acer_tf.errors import SweepError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep import SlurmLauncher, run_sweep, slurm_cluster
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from tests.reproduction.sweep import tiny_slurm
from tests.reproduction.sweep.conftest import STAND_IN, cell, rows_of_stand_in
from tests.reproduction.sweep.slow_world import SLOW
from tests.reproduction.sweep.test_interruption import under_way, wait_until
from tests.reproduction.sweep.tiny_sweep import main
from tests.training.scripted import check_progress, small_settings

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory):
    if why := tiny_slurm.missing():
        pytest.skip(why)
    with tiny_slurm.cluster(tmp_path_factory.mktemp("slurm")):
        yield


@pytest.fixture
def cluster(running_cluster):
    """No test leaves a task. A cell is finished when its result lies in the folder, seconds before its task ends."""
    yield
    wait_until(lambda: not queued())


@pytest.fixture
def quick(monkeypatch):
    """Tasks that are gone are seen in seconds."""
    monkeypatch.setattr(slurm_cluster, "_LOOK_SECONDS", 0.5)
    monkeypatch.setattr(slurm_cluster, "_LIST_SECONDS", 2.0)


def test_without_gpus_cells_run_on_the_cpu_though_their_node_may_have_some(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert launcher_of().flags == ("--device=cpu",)
    assert launcher_of(gpus_per_cell=1.0).flags == ()


def launcher_of(**given):
    return SlurmLauncher(**{"threads": 1, "executable": sys.executable, "cwd": ROOT, **given})


def attempts(folder, cell):
    return json.loads((folder / "cells" / cell.name / "attempts.json").read_text())["attempts"]


def queued():
    """Ids of the tasks that Slurm has, and their states."""
    command = ["squeue", "--me", "--noheader", "--array", "--format=%i %t"]
    return dict(line.split() for line in subprocess.check_output(command, text=True).splitlines())


def test_a_cell_at_its_time_limit_is_requeued_from_a_checkpoint_and_all_finish_without_a_gap(cluster, tmp_path, capsys):
    slow = Cell.asked("ACER", small_settings(env=SLOW, total_steps=2000))
    fast = Cell.asked("ACER", small_settings(total_steps=200))
    folder = tmp_path / "sweep"

    def shorten():
        """Lets the time of the slow cell be over soon: Slurm looks twice a minute for tasks to be warned."""
        path = folder / "cells" / slow.name
        wait_until(lambda: under_way(path / "run"), 600)
        (task,) = (name for name in queued() if name.endswith("_0"))
        passed = subprocess.check_output(["squeue", "--noheader", f"--jobs={task}", "--format=%M"], text=True)
        limit(task, int(passed.split(":")[0]) + 3)
        wait_until((path / "logs" / "attempt-1.requeue-1.err").exists, 600)
        limit(task, 25)

    def limit(task, minutes):
        subprocess.run(["scontrol", "update", f"JobId={task}", f"TimeLimit={minutes}"], check=True)

    shortener = threading.Thread(target=shorten)
    shortener.start()
    options = {"checkpoint_minutes": 0.05, "program": PROGRAM, "cwd": ROOT}
    report = run_sweep("tiny", [slow, fast], folder, launcher_of(partition="main", minutes=25), **options)
    shortener.join()
    assert report.exit_code == 0, (report, capsys.readouterr())
    for tried in (slow, fast):
        check_progress(folder / "cells" / tried.name / "run", tried.train_settings)
        assert attempts(folder, tried)[0]["kind"] == "ended"
        assert len(attempts(folder, tried)) == 1  # a requeue is no new attempt
    logs = folder / "cells" / slow.name / "logs"
    assert "SIGTERM: writing a checkpoint, then stopping" in (logs / "attempt-1.requeue-1.err").read_text()
    assert "\ncontinuing " in (logs / "attempt-1.out").read_text()
    assert len({path.name.partition("_")[0] for path in folder.glob("slurm/*/*_submitted.pkl")}) == 1  # one array
    assert not list(folder.glob("probe-*"))


@pytest.mark.parametrize("how", [[], ["--signal=KILL"]])
def test_a_task_that_another_cancels_is_lost_and_its_cell_continues_in_a_new_one(how, cluster, quick, sweep, capsys):
    def cancel():
        wait_until(lambda: list(sweep.folder.glob("cells/*/run/steps")))
        subprocess.run(["scancel", *how, *queued()], check=True)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    report = sweep([cell(0)], "--row_seconds=0.5", launcher=launcher_of())
    canceller.join()
    assert report.exit_code == 0
    first, second = attempts(sweep.folder, cell(0))
    assert (first["kind"], second["kind"]) == ("lost", "ended")
    assert "is gone without a result" in first["reason"]
    rows = (sweep.folder / "cells" / cell(0).name / "run" / "progress.csv").read_text().split()
    assert rows == ["steps,mean_return", *(f"{n},{n / 10}" for n in range(10, 101, 10))]


def test_failures_are_those_of_the_run(cluster, quick, sweep):
    report = sweep([cell(0), cell(1)], "--crash=1", launcher=launcher_of())
    assert report.reasons == {cell(1).name: "exit status 1: the simulator is upside down"}
    (end,) = attempts(sweep.folder, cell(0))
    assert (end["kind"], end["status"]) == ("ended", 0)
    assert end["host"]


def test_ctrl_c_stops_the_tasks_after_a_checkpoint_and_the_same_call_continues(cluster, quick, sweep):
    cells = [cell(0), cell(1)]

    def interrupt():
        wait_until(lambda: list(sweep.folder.glob("cells/*/run/steps")))
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    report = sweep(cells, "--row_seconds=10", launcher=launcher_of(threads=2))
    interrupter.join()
    assert report.exit_code == 130
    assert report.reasons == {}
    ends = [attempts(sweep.folder, c)[0] for c in cells]
    assert [end["kind"] for end in ends] == ["stopped", "stopped"]
    assert sorted(str(end["status"]) for end in ends) == ["143", "None"]  # one was still waiting for cores
    wait_until(lambda: not queued())
    assert sweep(cells, launcher=launcher_of()).exit_code == 0


STAND_INS = """
import sys
from acer_tf.commands import sweep_flags
from tests.reproduction.sweep.tiny_sweep import main

sweep_flags.PROGRAM = (sys.executable, *sys.argv[1:3])
sys.exit(main(["tiny", *sys.argv[3:]]))
"""


def test_the_tasks_of_a_sweep_that_was_killed_make_way_for_those_of_the_next(cluster, quick, tmp_path, monkeypatch):
    folder = tmp_path / "sweep"
    flags = ["--launcher=slurm", "--slurm_partition=main", "--slurm_time=10", f"--sweep_dir={folder}", "--seeds=1"]
    flags += ["--total_steps=100", "--stall_minutes=15"]
    # Slow: it must go on until the next sweep has begun.
    with subprocess.Popen([sys.executable, "-c", STAND_INS, STAND_IN, "--row_seconds=60", *flags], cwd=ROOT) as process:
        wait_until(lambda: process.poll() is not None or list(folder.glob("cells/*/run/steps")), 600)
        process.kill()
    (old,) = queued()  # it goes on
    (saved,) = folder.glob("cells/*/run/steps")
    assert saved.read_text() == "10"
    monkeypatch.setattr(sweep_flags, "PROGRAM", (sys.executable, STAND_IN))
    assert main(["tiny", *flags]) == 0
    assert old not in queued()
    (path,) = (folder / "cells").iterdir()
    assert [a.get("kind") for a in json.loads((path / "attempts.json").read_text())["attempts"]] == [None, "ended"]
    assert rows_of_stand_in(path) == list(range(10, 101, 10))
    assert "stopped at 20" in (path / "logs" / "attempt-1.err").read_text(), "by SIGTERM, not by SIGKILL"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"partition": "nights"},
            r"--partition=nights .*, which a cell needs, is refused: invalid partition specified",
        ),
        ({"threads": 3}, r"--cpus-per-task=3 --mem=\d+M, which a cell needs, is refused: .*is not available"),
    ],
)
def test_what_the_cluster_cannot_run_is_refused_before_anything_is_written(given, complaint, cluster, tmp_path):
    with pytest.raises(SweepError, match=rf"^--launcher=slurm: sbatch {complaint}"):
        run_sweep("tiny", [cell(0)], tmp_path / "sweep", launcher_of(**given), program=PROGRAM, cwd=ROOT)
    assert not (tmp_path / "sweep").exists()


def test_without_submitit_or_slurm_a_sweep_is_refused_in_a_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SweepError, match=r"^--launcher=slurm"):
        launcher_of()
    (tmp_path / "sbatch").touch(mode=0o755)
    with pytest.raises(SweepError, match=r"^--launcher=slurm"):
        launcher_of()
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(SweepError, match=r"^--launcher=slurm needs submitit: pip install 'acer_tf\[slurm\]'"):
        launcher_of()


def waiting_launcher(monkeypatch, folder, map_array, cells):
    """A launcher with `cells` that wait, whose executor submits by `map_array`."""
    monkeypatch.setattr(shutil, "which", lambda name: name)
    launcher = launcher_of()
    launcher._executor = SimpleNamespace(map_array=map_array, update_parameters=lambda **given: None)
    for n in range(cells):
        launcher.start(dataclasses.replace(attempt_in(folder), cell=SimpleNamespace(name=str(n))))
    return launcher


def attempt_in(folder):
    return Attempt(cell(0), ("train",), folder, folder / "run", folder / "log", 2**30, 1.0)


def test_more_cells_than_an_array_may_have_are_submitted_in_several(monkeypatch, tmp_path):
    """Slurm's default MaxArraySize admits 1,000 tasks."""
    arrays = []

    def map_array(function, attempts, *others):
        arrays.append(len(attempts))
        return [SimpleNamespace(job_id=f"{len(arrays)}_{n}") for n in range(len(attempts))]

    launcher = waiting_launcher(monkeypatch, tmp_path, map_array, 1026)
    while launcher._waiting:
        assert launcher._submit() == []
    assert arrays == [500, 500, 26] and len(launcher._tasks) == 1026


def test_what_a_limit_on_submitted_tasks_refuses_waits(monkeypatch, tmp_path, capsys):
    """With a limit of 20 tasks, as many as fit are submitted, the others as tasks end; none is lost."""
    numbers = itertools.count()

    def map_array(function, attempts, *others):
        if len(launcher._tasks) + len(attempts) > 20:
            raise RuntimeError("QOSMaxSubmitJobPerUserLimit")
        return [SimpleNamespace(job_id=str(next(numbers))) for _ in attempts]

    launcher = waiting_launcher(monkeypatch, tmp_path, map_array, 100)
    for ended in range(80):
        for _ in range(10):
            assert launcher._submit() == []
        names = {name for name, _ in launcher._tasks.values()} | {each.cell.name for each in launcher._waiting}
        assert len(launcher._tasks) == 20 and len(names) == 100 - ended
        launcher._tasks.pop(next(iter(launcher._tasks)))
    assert launcher._submit() == [] and not launcher._waiting
    assert (
        capsys.readouterr().err == "sbatch refuses 100 tasks, which wait: RuntimeError: QOSMaxSubmitJobPerUserLimit\n"
    )


def test_no_task_is_lost_because_squeue_does_not_answer(monkeypatch):
    """Two answers in a row must lack a task; failures count for neither side."""
    monkeypatch.setattr(shutil, "which", lambda name: name)
    launcher = launcher_of()
    launcher._tasks = {"7_0": ("0", None)}
    answers = iter([(1, ""), (1, ""), (0, ""), (1, ""), (0, "")])
    monkeypatch.setattr(
        slurm_cluster, "_slurm", lambda *command: subprocess.CompletedProcess(command, *next(answers), "")
    )
    assert [launcher._gone(float(t)) for t in range(0, 155, 31)] == [set()] * 4 + [{"7_0"}]


@pytest.mark.parametrize("error", [RuntimeError("it died"), OSError("stale"), EOFError()])
def test_a_task_whose_result_is_an_error_is_lost(error, monkeypatch, tmp_path):
    def result():
        raise error

    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm_cluster, "_slurm", lambda *command: subprocess.CompletedProcess(command, 1, "", ""))
    launcher = launcher_of()
    launcher._executor = SimpleNamespace(folder=tmp_path)
    paths = SimpleNamespace(result_pickle=tmp_path / "7_0_result.pkl", stderr=tmp_path / "7_0.err")
    launcher._tasks = {"7_0": ("0", SimpleNamespace(paths=paths, result=result))}
    assert launcher.poll() == []
    paths.result_pickle.touch()
    launcher._looked -= slurm_cluster._LOOK_SECONDS
    assert launcher.poll() == [("0", AttemptEnd("lost", f"Slurm's task 7_0 failed: see {paths.stderr}"))]
    assert not launcher._tasks


@pytest.fixture
def run_as_task(monkeypatch, tmp_path):
    """Runs an attempt as a task of Slurm does, with the test's `run_task`."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    probe = tmp_path / "probe-1"
    probe.touch()
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGUSR2, signal.SIGTERM)]

    def run(run_task):
        monkeypatch.setattr(slurm_cluster, "run_task", run_task)
        return slurm_cluster._run(attempt_in(tmp_path), probe, ("", ""))

    yield run
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.mark.parametrize(("saves", "status"), [(True, 0), (True, 1), (False, 0)])
def test_a_task_is_requeued_only_with_a_new_checkpoint(saves, status, run_as_task, monkeypatch, tmp_path):
    """A run that has only begun ends with SIGTERM's status too, and would begin again in each requeue."""
    called = []

    def run_task(attempt, probe, needs, asked):
        signal.raise_signal(signal.SIGUSR2)
        assert asked()
        if saves:
            leave_checkpoint("000000000200")
        return AttemptEnd("stopped", status=143)

    def leave_checkpoint(name):
        (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "run" / "checkpoints" / name / "state.npz").touch()

    def slurm(*command):
        called.append(command)
        return subprocess.CompletedProcess(command, status, "", "Invalid job\n" if status else "")

    leave_checkpoint("000000000100")  # of an earlier start
    monkeypatch.setattr(slurm_cluster, "_slurm", slurm)
    if saves and not status:
        with pytest.raises(SystemExit, match="^requeued$"):
            run_as_task(run_task)
    else:
        lost = ("lost", "its time was over; not requeued: Invalid job")
        failed = ("failed", "its time was over before it could write a checkpoint")
        end = run_as_task(run_task)
        assert (end.kind, end.reason) == (lost if saves else failed)
    assert called == [("scontrol", "requeue", "7")] * saves


@pytest.mark.parametrize("kind", ["stopped", "ended"])
def test_a_task_that_slurm_stops_leaves_no_result_unless_its_run_has_ended(kind, run_as_task):
    def run_task(attempt, probe, needs, asked):
        signal.raise_signal(signal.SIGTERM)
        return AttemptEnd(kind)

    if kind == "stopped":
        with pytest.raises(SystemExit, match="^stopped by Slurm$"):
            run_as_task(run_task)
    else:
        assert run_as_task(run_task) == AttemptEnd("ended")


def test_a_cell_that_is_refused_by_itself_is_lost(monkeypatch, tmp_path):
    def map_array(function, attempts, *others):
        raise RuntimeError("invalid account")

    launcher = waiting_launcher(monkeypatch, tmp_path, map_array, 2)
    assert launcher._submit() == []
    reason = "not submitted: RuntimeError: invalid account"
    assert [(name, e.kind, e.reason) for _ in "01" for name, e in launcher._submit()] == [
        (n, "lost", reason) for n in "01"
    ]


def test_while_sbatch_does_not_answer_a_cell_is_not_given_up_at_once(monkeypatch, tmp_path):
    def map_array(function, attempts, *others):
        raise RuntimeError("Unable to contact slurm controller")

    launcher = waiting_launcher(monkeypatch, tmp_path, map_array, 1)
    (attempt,) = launcher._waiting
    assert [end.kind for _, end in launcher.poll()] == ["lost"]
    launcher.start(attempt)
    assert launcher.poll() == []
    launcher._refused -= slurm_cluster._LIST_SECONDS
    assert [end.kind for _, end in launcher.poll()] == ["lost"]
