"""Sweeps on a Ray cluster of two nodes, both on this machine."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from acer_tf.commands.sweep_flags import PROGRAM
from acer_tf.errors import SettingsError, SweepError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep import RayLauncher, run_sweep
from acer_tf.reproduction.sweep.cluster import complaint
from acer_tf.training.ray_connection import connect
from tests.reproduction.sweep.conftest import attempts, cell, rows_of_stand_in
from tests.reproduction.sweep.test_interruption import wait_until
from tests.training.scripted import check_progress, small_settings

pytestmark = pytest.mark.cluster
MEMORY = 4_000_000_000
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def head():
    handler = signal.getsignal(signal.SIGTERM)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield cluster
    cluster.shutdown()
    signal.signal(signal.SIGTERM, handler)  # every node puts its own there


@pytest.fixture
def cluster(head):
    """The head, which has no cores for cells, and its address."""
    yield head
    for node in list(head.worker_nodes):
        head.remove_node(node)
    head.wait_for_nodes()


def launcher_of(cluster):
    return RayLauncher(cluster.address, threads=1, executable=sys.executable, cwd=ROOT)


def test_a_node_dies_mid_run_and_all_cells_finish_none_twice(cluster, sweep):
    nodes = [cluster.add_node(num_cpus=1, memory=MEMORY) for _ in range(2)]
    cells = [cell(seed) for seed in range(3)]

    def kill_a_node_when_both_work():
        wait_until(lambda: len(list(sweep.folder.glob("cells/*/run/steps"))) == 2)
        cluster.remove_node(nodes[0], allow_graceful=False)

    killer = threading.Thread(target=kill_a_node_when_both_work)
    killer.start()
    # Slow, so that none ends between the kill of a node and that of its run.
    report = sweep(cells, "--row_seconds=1", launcher=launcher_of(cluster))
    killer.join()
    assert report.exit_code == 0, report
    kinds = [[end["kind"] for end in attempts(sweep, each)] for each in cells]
    assert sorted(kinds) == [["ended"], ["ended"], ["lost", "ended"]]
    for each in cells:
        assert rows_of_stand_in(sweep.folder / "cells" / each.name) == list(range(10, 101, 10))
    assert not list(sweep.folder.glob("probe-*"))


def test_ctrl_c_stops_the_tasks_after_a_checkpoint_and_the_same_call_continues(cluster, sweep):
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for what it starts in the background
    cluster.add_node(num_cpus=1, memory=MEMORY)
    signal.signal(signal.SIGINT, handler)
    cells = [cell(0), cell(1)]

    def interrupt():
        while not list(sweep.folder.glob("cells/*/run/steps")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    report = sweep(cells, "--row_seconds=10", launcher=launcher_of(cluster))
    interrupter.join()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert report.exit_code == 130
    assert report.reasons == {}
    records = [sweep.folder / "cells" / c.name / "attempts.json" for c in cells]
    ends = [json.loads(record.read_text())["attempts"][0] for record in records]
    assert [end["kind"] for end in ends] == ["stopped", "stopped"]
    assert sorted([str(end["status"]) for end in ends]) == ["143", "None"]  # one was still waiting for a core
    assert sweep(cells, launcher=launcher_of(cluster)).exit_code == 0


def test_a_cluster_that_cannot_hold_a_cell_or_see_the_folder_is_refused(cluster, tmp_path):
    cells = [Cell.asked("ACER", small_settings())]
    options = {"program": PROGRAM, "cwd": ROOT}
    with pytest.raises(SweepError, match="1.5 GB"):
        run_sweep("tiny", cells, tmp_path / "sweep", launcher_of(cluster), **options)
    assert not (tmp_path / "sweep").exists()
    cluster.add_node(num_cpus=1, memory=MEMORY)
    launcher = RayLauncher(cluster.address, threads=1, executable=str(tmp_path / "python"), cwd=ROOT)
    with pytest.raises(SweepError, match=r"^node \S+ .*/python "):
        run_sweep("tiny", cells, tmp_path / "sweep", launcher, **options)
    assert not (tmp_path / "sweep" / "cells").exists()


def test_a_node_is_checked_by_what_it_sees_of_the_folder_and_its_lock(tmp_path):
    probe = tmp_path / "probe-1"
    assert "is not the same folder there" in complaint(probe, ())
    probe.write_text("probe-1")
    (tmp_path / "lock").touch()
    assert "locks in" in complaint(probe, ())  # it seems to be free
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert complaint(probe, (sys.executable,)) == ""
        assert "/nowhere does not exist there" in complaint(probe, ("/nowhere",))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "cluster", "auto"])
def test_no_cluster_at_the_address_is_reported_at_once(address, monkeypatch, tmp_path):
    # "auto" looks there for a cluster of this machine, and among its processes, where other tests have theirs.
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr("psutil.process_iter", lambda *_: iter(()))
    monkeypatch.setattr("psutil.pids", lambda: [os.getpid()])  # older versions of Ray
    with pytest.raises(SettingsError, match=rf"^--ray_address={address}"):
        connect(address)


def test_a_cluster_that_does_not_start_in_time_is_reported(monkeypatch):
    def init(**_):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(SettingsError, match="^--ray_address=local: .*The current node timed out"):
        connect("local")


LISTENERS = """
import sys
from pathlib import Path
import psutil
from acer_tf.reproduction.sweep import RayLauncher

launcher = RayLauncher("local", executable=sys.executable, cwd=Path())
launcher.open(Path(sys.argv[1]))  # runs a task
own = {process.pid for process in (psutil.Process(), *psutil.Process().children(recursive=True))}
print(*{c.laddr.ip for c in psutil.net_connections("inet") if c.status == psutil.CONN_LISTEN and c.pid in own})
launcher.close()
"""


def test_a_local_cluster_cannot_be_reached_from_other_machines(tmp_path):
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A process of its own: Ray reads its configuration when it is imported.
        command = [sys.executable, "-c", LISTENERS, str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {address.removeprefix("::ffff:") for address in done.stdout.split()} == {"127.0.0.1"}, done.stdout


def test_cells_have_actors_of_their_own_as_far_as_there_are_cores(cluster, sweep, tmp_path):
    cluster.add_node(num_cpus=2, memory=MEMORY)
    settings = small_settings(actors=1, total_steps=300)
    options = {"program": PROGRAM, "cwd": ROOT, "retries": 0}
    report = run_sweep("tiny", [Cell.asked("ACER", settings)], tmp_path / "real", launcher_of(cluster), **options)
    assert report.exit_code == 0, report
    (path,) = tmp_path.glob("real/cells/*")
    (attempt,) = json.loads((path / "attempts.json").read_text())["attempts"]
    assert attempt["command"][-1] == f"--ray_address={cluster.address}"
    check_progress(path / "run", settings)
    cells = [cell(seed, actors=1) for seed in range(2)]
    assert sweep(cells, "--row_seconds=0.2", launcher=launcher_of(cluster)).exit_code == 0
    runs = [sweep.folder / "cells" / each.name / "run" for each in cells]
    (_, ended), (begun, _) = sorted([(run / file).stat().st_mtime for file in ("lock", "run.json")] for run in runs)
    assert begun >= ended, "there are cores for one and its actor"
    for cores, lacking in ((0, "5 cores.* 2$"), (9, r"5\.\d GB of memory.* 4\.0 GB")):
        cluster.add_node(num_cpus=cores, memory=1)
        with pytest.raises(SweepError, match=f"4 actors.* {lacking}"):
            cells = [Cell.asked("ACER", small_settings(actors=4, num_envs=4))]
            run_sweep("tiny", cells, tmp_path / "other", launcher_of(cluster), program=PROGRAM, cwd=ROOT)
