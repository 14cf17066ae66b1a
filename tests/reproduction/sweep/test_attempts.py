"""How attempts at a cell end: locks, stalls, lost nodes, full disks, folders of others."""

import errno
import json
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from acer_tf.reproduction.sweep import CellFolder, LocalLauncher, attempt, cluster, runner
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from acer_tf.runs.folder import Lock
from tests.reproduction.sweep.conftest import attempts, cell


@pytest.mark.process
def test_a_run_that_another_process_holds_for_long_is_named(sweep, monkeypatch):
    monkeypatch.setattr(attempt, "LOCK_SECONDS", 0.5)
    lock = Lock(sweep.folder / "cells" / cell(0).name / "run")
    report = sweep([cell(0)])
    assert "is in use by host" in report.reasons[cell(0).name]
    lock.release()
    assert sweep([cell(0)]).exit_code == 0


@pytest.mark.process
def test_a_run_that_another_process_holds_for_a_while_is_waited_for(sweep):
    lock = Lock(sweep.folder / "cells" / cell(0).name / "run")
    threading.Timer(1.0, lock.release).start()
    assert sweep([cell(0)]).exit_code == 0
    assert len(attempts(sweep, cell(0))) == 1


@pytest.mark.process
def test_new_rows_and_new_checkpoints_are_progress_and_nothing_else_is(monkeypatch, tmp_path):
    """By a clock of its own: of a cell that lasts far longer than it may stall."""
    clock, asked, terminate = [0.0], [], Attempt._terminate
    monkeypatch.setattr(attempt, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(Attempt, "_terminate", lambda self, why: asked.append(clock[0]) or terminate(self, why))
    program = (sys.executable, "-c", "import time; time.sleep(600)")
    run_dir, checkpoints = tmp_path / "run", tmp_path / "run" / "checkpoints"
    checkpoints.mkdir(parents=True)
    watched = Attempt(cell(0), program, tmp_path, run_dir, tmp_path / "log", 0, 10.0)
    try:
        assert watched.poll() is None
        for number in range(6):
            if number % 2:
                (run_dir / "progress.csv").open("a").write(f"{number}\n")
            else:
                os.utime(checkpoints, ns=(number, number))  # as a new folder in it does
            assert watched.poll() is None
            clock[0] += 9.0
            assert watched.poll() is None
        assert asked == []
        (run_dir / "tensorboard").mkdir()
        clock[0] += 2.0
        while (end := watched.poll()) is None:
            time.sleep(0.01)
    finally:
        watched.close()
    assert asked == [56.0]
    assert (end.kind, end.reason, end.status) == ("failed", "no progress for 0.167 minutes", -signal.SIGTERM)


class Loses(LocalLauncher):
    """Its first attempts end as said, without a process."""

    def __init__(self, *kinds):
        super().__init__(1)
        self._kinds, self._ended = list(kinds), []

    def start(self, attempt):
        if not self._kinds:
            return super().start(attempt)
        self._ended.append((attempt.cell.name, AttemptEnd(self._kinds.pop(0), "its node died")))

    def poll(self):
        ended, self._ended = self._ended, []
        return ended + super().poll()


@pytest.mark.process
@pytest.mark.parametrize(("losses", "state"), [(10, "finished"), (11, "failed")])
def test_lost_nodes_are_no_failures_but_a_cell_that_loses_them_all_is_given_up(losses, state, sweep, monkeypatch):
    monkeypatch.setattr(runner, "_POLL_SECONDS", 0.01)
    report = sweep([cell(0)], launcher=Loses(*["lost"] * losses), retries=0)
    assert report.states == {cell(0).name: state}
    assert [end["kind"] for end in attempts(sweep, cell(0))] == ["lost"] * losses + ["ended"] * (losses == 10)
    assert report.reasons == ({} if state == "finished" else {cell(0).name: "its node died"})


@pytest.mark.process
def test_a_cell_that_another_process_stopped_begins_again(sweep):
    report = sweep([cell(0)], launcher=Loses("stopped"), retries=0)
    assert report.exit_code == 0
    first, second = attempts(sweep, cell(0))
    assert (first["kind"], first["reason"], second["kind"]) == ("lost", "stopped by another process", "ended")


def test_a_full_disk_is_reported_without_waiting_for_what_has_ended(sweep, monkeypatch):
    def full_at_the_end(folder, entries):
        if "ended" in entries[-1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(runner, "STOP_SECONDS", 1000.0)  # which nothing here waits for
    monkeypatch.setattr(CellFolder, "write_attempts", full_at_the_end)
    launcher = Loses("lost", "lost")
    monkeypatch.setattr(launcher, "_processes", 2)
    monkeypatch.setattr(LocalLauncher, "room", lambda self, _: 2)
    with pytest.raises(OSError, match="No space left"):
        sweep([cell(0), cell(1)], launcher=launcher)


@pytest.mark.process
@pytest.mark.parametrize("method", ["set_aside_damaged", "write_attempts"])
def test_a_cell_whose_folder_is_another_users_stops_no_other(method, sweep, monkeypatch, capsys):
    usual = getattr(CellFolder, method)

    def refused(self, *arguments):
        if self.cell == cell(0):
            raise PermissionError(errno.EACCES, "Permission denied", "attempts.json")
        return usual(self, *arguments)

    monkeypatch.setattr(CellFolder, method, refused)
    report = sweep([cell(0), cell(1)], processes=1)
    assert report.states == {cell(0).name: "failed", cell(1).name: "finished"}
    assert report.reasons == {cell(0).name: "Permission denied"}
    assert "'ACER, CartPole-v1, seed 0' is left out: Permission denied (" in capsys.readouterr().err


def test_a_run_folder_that_cannot_be_locked_is_not_waited_for(sweep):
    """Its lock is a link; for a lock that is held the wait would be three minutes."""
    run_dir = sweep.folder / "cells" / cell(0).name / "run"
    run_dir.mkdir(parents=True)
    (run_dir / "lock").symlink_to("elsewhere")
    (sweep.folder / "sweep.json").write_text(json.dumps({"format": 1, "experiment": "tiny", "cells": {}}))
    began = time.monotonic()
    report = sweep([cell(0)])
    assert "cannot be used: " in report.reasons[cell(0).name]
    assert time.monotonic() - began < 0.5 * attempt.LOCK_SECONDS


def test_a_task_keeps_an_unusable_node_for_a_while_and_then_is_lost(monkeypatch, tmp_path):
    clock = [0.0]
    monkeypatch.setattr(cluster.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(cluster.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))

    class Attempt:
        close, end = (lambda self: None), None

        def poll(self):
            return self.end or pytest.fail("started on a node that does not see the folder")

    def end_of(asked):
        return cluster.run_task(Attempt(), tmp_path / "probe-1", ("python", str(tmp_path)), asked)

    end = end_of(lambda: False)
    assert (end.kind, clock[0]) == ("lost", 300.0)
    assert end.reason.startswith("the node cannot be used: ") and "the nodes must share it" in end.reason
    assert end_of(lambda: clock[0] >= 310.0).kind == "lost"  # the sweep stops meanwhile
    assert clock[0] == 310.0

    Attempt.end = "done"
    complaints = iter(["a file system is missing", "", "never asked again"])
    monkeypatch.setattr(cluster, "complaint", lambda *_: next(complaints))
    assert end_of(lambda: False) == "done"  # the file system has come
    assert next(complaints) == "never asked again"
