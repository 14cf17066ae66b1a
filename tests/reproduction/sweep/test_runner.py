"""Sweeps of stand-ins: cells that fail, hang, die, are already finished, or are damaged."""

import dataclasses
import errno
import json
import shutil
import sys

import pytest

from acer_tf import resources
from acer_tf.errors import RecordError, RunFolderError, SweepError
from acer_tf.reproduction.sweep import CellFolder, LocalLauncher
from acer_tf.reproduction.sweep.attempt import Attempt
from acer_tf.reproduction.sweep.runner import Place, SweepProgress
from acer_tf.runs.folder import Lock
from acer_tf.settings import make_settings
from acer_tf.training import active_run
from acer_tf.training.train import train
from tests.reproduction.sweep.conftest import attempts, cell
from tests.training.scripted import tree, use_light_agents

CELLS = [cell(seed) for seed in range(4)]


def recorded(sweep):
    return list(json.loads((sweep.folder / "sweep.json").read_text())["cells"].values())


@pytest.mark.process
def test_a_crash_a_hang_and_a_kill_stop_no_other_cell_and_the_same_command_completes_them(sweep, capsys, monkeypatch):
    fine, crashes, hangs, killed = CELLS
    report = sweep(CELLS, "--crash=1", "--hang=2", "--die=3", retries=1, stall_minutes=0.04)
    assert list(report.states.values()) == ["finished", "failed", "failed", "finished"]
    assert report.exit_code == 1
    assert [len(attempts(sweep, c)) for c in CELLS] == [1, 2, 2, 2]
    assert report.reasons == {
        crashes.name: "exit status 1: the simulator is upside down",
        hangs.name: "no progress for 0.04 minutes",
    }
    assert [a["status"] for a in attempts(sweep, hangs)] == [-9, -9]  # deaf to SIGTERM
    assert attempts(sweep, crashes)[1]["stderr"] == ["Traceback and so on", "error: the simulator is upside down"]
    first, second = attempts(sweep, killed)
    assert (first["kind"], first["reason"], second["kind"]) == ("failed", "killed by SIGKILL", "ended")
    rows = (sweep.folder / "cells" / killed.name / "run" / "progress.csv").read_text().split()
    assert rows == ["steps,mean_return", *(f"{n},{n / 10}" for n in range(10, 101, 10))]  # continued at 50
    assert "'ACER, CartPole-v1, seed 3' failed on " in capsys.readouterr().err
    table = sweep.lines[-4:]
    assert sweep.lines[-5] == "2 of 4 cells are missing:"
    because = "exit status 1: the simulator is upside down"
    assert table[1].split() == f"ACER, CartPole-v1, seed 1 failed 0/100 {because}".split()
    assert table[2].endswith("20/100  no progress for 0.04 minutes")
    assert "2/4 done, 0 running, 2 failed, 0 waiting" in sweep.lines[-6]

    def finished():
        return [tree(sweep.folder / "cells" / c.name) | {"run/lock": None} for c in (fine, killed)]

    before = finished()
    assert sweep(CELLS).exit_code == 0
    assert finished() == before  # not run again
    monkeypatch.setattr(resources, "available_memory", lambda: 0)
    assert sweep(CELLS, launcher=LocalLauncher(1)).exit_code == 0  # nothing left that needs memory
    assert sweep.lines[-1] == "all 4 cells are finished"
    assert sweep.lines[-2].startswith("4/4 done, 0 running, 0 failed, 0 waiting  100.0 %  400/400 steps  ")


@pytest.mark.process
def test_a_program_that_ends_without_an_error_and_without_the_run_has_failed(sweep):
    report = sweep([cell(0)], program=[sys.executable, "-c", "pass"])
    assert report.states == {cell(0).name: "failed"}
    assert report.reasons == {cell(0).name: "ended without an error, but not finished"}
    (end,) = attempts(sweep, cell(0))
    assert (end["kind"], end["status"]) == ("failed", 0)


@pytest.mark.process
def test_what_was_run_can_be_run_by_hand(sweep):
    c = cell(7, max_gradient_norm=float("inf"), entropy_in_trust_region=False, reward_clip=2.0)
    sweep([c])
    (attempt,) = attempts(sweep, c)
    flags = [word for word in attempt["command"] if word.startswith("--")]
    assert "--noentropy_in_trust_region" in flags and "--max_gradient_norm=inf" in flags
    assert f"--run_dir=sweep/cells/{c.name}/run" in flags  # from where it is run
    given = {}
    for word in flags:
        name, _, text = word.removeprefix("--").partition("=")
        if name not in ("threads", "checkpoint_minutes", "repair", "run_dir"):
            kind = type(getattr(c.train_settings, name.removeprefix("no") if not text else name))
            given[name.removeprefix("no") if not text else name] = kind(text) if text else not name.startswith("no")
    assert make_settings(given) == c.train_settings


@pytest.mark.process
def test_a_sweep_outside_of_the_working_directory_names_absolute_run_folders(sweep, tmp_path):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    c = cell(8)
    assert sweep([c], cwd=elsewhere).exit_code == 0
    assert f"--run_dir={sweep.folder}/cells/{c.name}/run" in attempts(sweep, c)[0]["command"]


@pytest.mark.process
def test_the_folder_depends_on_the_settings_and_not_on_the_label(sweep):
    assert sweep([cell(0)]).exit_code == 0
    renamed = dataclasses.replace(cell(0), method="another label")
    assert sweep([renamed, cell(1)]).exit_code == 0
    assert len(attempts(sweep, renamed)) == 1
    assert [(c["method"], c["settings"]["seed"]) for c in recorded(sweep)] == [("another label", 0), ("ACER", 1)]
    assert sweep([cell(1)]).exit_code == 0  # a shorter list forgets nothing
    assert len(recorded(sweep)) == 2
    assert cell(0).name != cell(0, gamma=0.9).name


@pytest.mark.process
def test_another_folder_is_refused_untouched(sweep, tmp_path):
    sweep([cell(0)])
    before = tree(sweep.folder)
    with pytest.raises(SweepError, match=rf"--sweep_dir={sweep.folder} .*tiny.*other"):
        sweep([cell(1)], experiment="other")
    assert tree(sweep.folder) == before
    lock = Lock(sweep.folder)
    with pytest.raises(RunFolderError, match=rf"^--sweep_dir={sweep.folder} .* pid \d+$"):
        sweep([cell(1)])
    lock.release()
    shutil.rmtree(sweep.folder)
    sweep.folder.mkdir()
    (sweep.folder / "thesis.tex").write_text("")
    with pytest.raises(SweepError, match="thesis.tex"):
        sweep([cell(1)])
    assert [path.name for path in sweep.folder.iterdir()] == ["thesis.tex"]


def test_what_cannot_run_is_refused_before_anything_is_written(sweep, monkeypatch):
    with pytest.raises(SweepError, match="no cells"):
        sweep([])
    with pytest.raises(SweepError, match="have the same settings"):
        sweep([cell(0), cell(0)])
    with pytest.raises(SweepError, match=r"'ACER, Pendulum-v1, seed 0' cannot be run: .*Pendulum-v1"):
        sweep([cell(0, env="Pendulum-v1")])
    monkeypatch.setattr(resources, "available_memory", lambda: 3_100_000_000)
    with pytest.raises(SweepError, match=r"--processes=3"):
        sweep(CELLS, launcher=LocalLauncher(3))
    monkeypatch.setattr(resources, "available_memory", lambda: 10**9)
    with pytest.raises(SweepError, match=r"one alone needs 1.5 GB"):
        sweep(CELLS, launcher=LocalLauncher(1))
    monkeypatch.setattr(resources, "available_memory", lambda: 9 * 10**9)
    with pytest.raises(SweepError, match="--processes=2: .*--processes=1"):
        LocalLauncher(2).check([10**9, 10**9, 9 * 10**9])
    assert not sweep.folder.exists()


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("run.json", "{", "run.json cannot be read as a run's record"),
        ("run.json", None, "run.json is missing"),
        ("progress.csv", "steps,mean_return\n10,1\nten,2\n", "progress.csv cannot be read as a learning curve"),
        ("progress.csv", "\0\0\0\0", "progress.csv cannot be read as a learning curve"),
        ("progress.csv", "steps,mean_return\n10,1\n20", "progress.csv cannot be read as a learning curve (its last"),
    ],
)
def test_a_damaged_run_is_named_and_set_aside_and_its_cell_starts_again(name, content, complaint, sweep, capsys):
    sweep([cell(0)])
    run_dir = sweep.folder / "cells" / cell(0).name / "run"
    if content is None:
        (run_dir / name).unlink()
    else:
        (run_dir / name).write_text(content)
    damaged = tree(run_dir)
    assert sweep([cell(0)]).exit_code == 0
    err = capsys.readouterr().err
    assert f"{run_dir}/{complaint}" in err
    assert f"is kept as {run_dir}.damaged-1, and the cell starts again" in err
    assert {**tree(run_dir.with_name("run.damaged-1")), "lock": b""} == {**damaged, "lock": b""}
    assert len(attempts(sweep, cell(0))) == 2


@pytest.mark.process
@pytest.mark.parametrize(
    ("reader", "name"), [("read_record", "run.json"), ("read_progress", "progress.csv"), ("read_json", "attempts.json")]
)
def test_what_cannot_be_read_at_present_is_left_alone(reader, name, sweep, monkeypatch):
    """A run that may be whole is not begun again because the process has too many open files."""
    sweep([cell(0)])
    (sweep.folder / "cells" / cell(0).name / "run" / "lock").write_text("")  # as after any use
    before = tree(sweep.folder / "cells")
    raised = OSError(errno.EMFILE, "Too many open files")

    def read(path, *arguments):
        if reader == "read_json":
            raise raised
        raise RecordError(f"{path} cannot be read") from raised

    folder = CellFolder(sweep.folder, cell(0))
    with monkeypatch.context() as patch:
        patch.setattr(f"acer_tf.reproduction.sweep.folder.{reader}", read)
        with pytest.raises(OSError, match="Too many open files"):
            folder.attempts() if reader == "read_json" else folder.set_aside_damaged()
    assert tree(sweep.folder / "cells") == before


@pytest.mark.process
def test_a_damaged_sweep_json_is_named_and_set_aside_and_no_cell_runs_again(sweep, capsys):
    sweep([cell(0)])
    (sweep.folder / "sweep.json").write_text('{"format": 1, "exp')
    assert sweep([cell(0)]).exit_code == 0
    assert f"sweep.json cannot be read: it is kept as {sweep.folder}/sweep.json.damaged-1" in capsys.readouterr().err
    assert len(attempts(sweep, cell(0))) == 1
    (sweep.folder / "sweep.json").write_text(json.dumps({"format": 2, "experiment": "tiny", "cells": {}}))
    with pytest.raises(SweepError, match="format 2"):
        sweep([cell(0)])


@pytest.mark.process
def test_a_finished_run_without_its_whole_policy_runs_again_to_export_it(sweep):
    sweep([cell(0)])
    saved = sweep.folder / "cells" / cell(0).name / "run" / "policy" / "saved_model.pb"
    saved.unlink()
    assert sweep([cell(0)]).exit_code == 0
    assert len(attempts(sweep, cell(0))) == 2
    assert saved.exists()


@pytest.mark.process
def test_a_run_with_the_settings_of_another_cell_is_set_aside(sweep, capsys):
    sweep([cell(0)])
    record = sweep.folder / "cells" / cell(0).name / "run" / "run.json"
    document = json.loads(record.read_text())
    document["settings"]["gamma"] = 0.5
    record.write_text(json.dumps(document))
    assert sweep([cell(0)]).exit_code == 0
    assert f"{record} belongs to another run (gamma: 0.5 there, 0.99 here)" in capsys.readouterr().err
    assert json.loads((record.parent.with_name("run.damaged-1") / "run.json").read_text()) == document
    assert json.loads(record.read_text())["settings"]["gamma"] == 0.99


def test_an_interrupted_run_with_a_curve_shorter_than_at_its_checkpoint_is_set_aside(sweep, monkeypatch, capsys):
    use_light_agents(monkeypatch)
    c = cell(0)
    run_dir = sweep.folder / "cells" / c.name / "run"
    with monkeypatch.context() as patch:
        patch.setattr(active_run.ActiveRun, "finish", lambda self: self.save())  # interrupted before its end
        train(c.train_settings, run_dir, quiet=True)
    (run_dir / "progress.csv").open("a").write("10")  # part of a row after the checkpoint, as kill -9 leaves
    folder = CellFolder(sweep.folder, c)
    assert folder.set_aside_damaged() is None
    curve = (run_dir / "progress.csv").read_bytes()
    (run_dir / "progress.csv").write_bytes(curve.replace(b"\n1", b"\n2", 1))
    assert "are not those of the last checkpoint" in folder.set_aside_damaged()
    run_dir.with_name("run.damaged-1").rename(run_dir)
    (run_dir / "progress.csv").write_text("steps\n")
    assert "progress.csv cannot be read as a learning curve (it has 6 bytes, but had " in folder.set_aside_damaged()
    assert not run_dir.exists()


def test_progress_is_that_of_all_cells_and_the_returns_those_of_running_ones(sweep):
    run_dir = CellFolder(sweep.folder, CELLS[1]).run_dir
    run_dir.mkdir(parents=True)
    (run_dir / "progress.csv").write_text("steps,mean_return\n10,7.5\n20,8.25\n30,9")  # an incomplete row
    places = [Place(CellFolder(sweep.folder, c), 0, None, (), sweep.folder, {}, 1.0) for c in CELLS]
    for place, over in zip(places, ["finished", "running", "failed", None], strict=True):
        place.over = over
    line = SweepProgress().line(places)
    assert line == (
        "1/4 done, 1 running, 1 failed, 1 waiting  30.0 %  120/400 steps  0 steps/s  ? left  "
        "ACER, CartPole-v1, seed 1: 8.25"
    )


def test_cells_share_the_gpus_of_this_machine_evenly(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "available_memory", lambda: 10**12)
    monkeypatch.setattr("acer_tf.reproduction.sweep.launcher.gpu_count", lambda: 2)
    launcher = LocalLauncher(4, gpus_per_cell=0.5)
    launcher.check([10**9] * 9)
    attempts = [Attempt(c, ("train",), tmp_path, tmp_path, tmp_path, 0, 1.0) for c in CELLS]
    for each in attempts:
        launcher.start(each)
    assert [each.command[-1] for each in attempts] == ["--device=gpu:0", "--device=gpu:1"] * 2
    place = Place(CellFolder(tmp_path, CELLS[0]), 0, LocalLauncher(1, gpus_per_cell=0.5), (), tmp_path, {}, 1.0)
    place.start()
    assert place.entries[-1]["command"][-1] == "--device=gpu:0", "attempts.json has what is run"
    with pytest.raises(SweepError, match="--gpus_per_cell=0.5"):
        LocalLauncher(5, gpus_per_cell=0.5).check([10**9] * 9)
