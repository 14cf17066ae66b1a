"""The sweep's process is stopped or killed, with real runs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from acer_tf.commands import sweep_flags
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep import LocalLauncher, run_sweep
from tests.reproduction.sweep.tiny_sweep import main
from tests.training.scripted import check_progress, rows_of, small_settings

ROOT = Path(__file__).resolve().parents[3]
FLAGS = ["--total_steps=3000", "--checkpoint_minutes=0.002", "--progress_seconds=1", "--processes=2", "--threads=1"]


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def under_way(run_dir):
    """Whether it has a checkpoint and a row; without a row a cell counts as not begun."""
    saved = any(run_dir.glob("checkpoints/*[0-9]/state.npz"))
    return saved and (run_dir / "progress.csv").exists() and len(rows_of(run_dir)) > 0


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_sweep_that_is_stopped_leaves_no_process_and_the_same_command_continues(number, code, tmp_path):
    folder = tmp_path / "sweep"
    flags = [f"--sweep_dir={folder}", "--seeds=1", *FLAGS]
    command = [sys.executable, "-m", "tests.reproduction.sweep.tiny_sweep", *flags]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: process.poll() is not None or any(map(under_way, folder.glob("cells/*/run"))))
    runs = [child.pid for child in psutil.Process(process.pid).children()]
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert len(runs) == 1
    if number == signal.SIGINT:
        assert "SIGINT: asking the cells for a checkpoint, then stopping\n" in err
        assert "1 of 1 cells are missing:" in out
        assert "  interrupted  " in out
        assert not any(psutil.pid_exists(pid) for pid in runs)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in runs))

    assert main(["tiny", *flags]) == 0
    for cell in (folder / "cells").iterdir():
        attempts = json.loads((cell / "attempts.json").read_text())["attempts"]
        # A cell may come to its end before it notices that its sweep was stopped or killed.
        by_itself = len(attempts) == 1
        kinds = ["stopped" if number == signal.SIGINT else None] + ["ended"] * (not by_itself)
        assert [a.get("kind") for a in attempts] == kinds
        check_progress(cell / "run", small_settings(total_steps=3000))
        assert int(rows_of(cell / "run")[-1]["steps"]) >= 3000
    told = [path.read_text() for path in folder.glob("cells/*/logs/attempt-2.out")]
    assert any("\ncontinuing " in text for text in told)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--launcher=ray", "--processes=2"], "--processes=2: it goes with --launcher=local"),
        (["--ray_address=auto"], "--ray_address=auto: it goes with --launcher=ray"),
        (["--slurm_partition=gpu"], "--slurm_partition=gpu: it goes with --launcher=slurm"),
        (["--launcher=slurm", "--gpus_per_cell=0.5"], "--gpus_per_cell=0.5: must be 0 or 1 with --launcher=slurm"),
        (["--gpus_per_cell=0.5"], "--gpus_per_cell=0.5"),
        (["--launcher=ray", "--slurm_time=60"], "--slurm_time=60: it goes with --launcher=slurm"),
        (["--stall_minutes=5"], "--stall_minutes=5.0: must be above --checkpoint_minutes=10.0"),
        (["--processes=1000"], "--processes=1000"),
    ],
)
def test_invalid_flags_are_refused_in_a_line(flags, complaint, tmp_path, capsys):
    assert main(["tiny", f"--sweep_dir={tmp_path / 'sweep'}", "--seeds=20", *flags]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {complaint}")
    assert err.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


@pytest.mark.process
def test_a_real_run_that_diverges_has_failed(tmp_path):
    cell = Cell.asked("ACER", small_settings(preset="baselines", learning_rate=1e30))
    options = {"program": sweep_flags.PROGRAM, "cwd": ROOT, "retries": 0}
    report = run_sweep("tiny", [cell], tmp_path / "sweep", LocalLauncher(1, threads=1), **options)
    assert report.states == {cell.name: "failed"}
    assert report.reasons[cell.name].startswith("exit status 1: stopped in CartPole-v1: critic_loss is inf ")


@pytest.mark.process
def test_a_sweep_whose_output_nobody_reads_asks_its_cell_for_a_checkpoint(tmp_path):
    cell = Cell.asked("ACER", small_settings(total_steps=50_000))
    folder = tmp_path / "sweep"

    def say(line):
        if under_way(folder / "cells" / cell.name / "run"):
            raise BrokenPipeError(32, "Broken pipe")

    launcher = LocalLauncher(1, threads=1)
    options = {"program": sweep_flags.PROGRAM, "cwd": ROOT, "checkpoint_minutes": 10.0, "progress_seconds": 0.2}
    with pytest.raises(BrokenPipeError):
        run_sweep("tiny", [cell], folder, launcher, say=say, **options)
    (err,) = folder.glob("cells/*/logs/*.err")
    assert "stopped by SIGTERM; the same command continues from here" in err.read_text()
