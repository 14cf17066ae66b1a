"""The sweep's own process is stopped or killed; real runs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.reproduction.sweep.tiny_sweep import main
from tests.training.scripted import check_progress, rows_of, small_settings

ROOT = Path(__file__).resolve().parents[3]
FLAGS = ["--total_steps=4000", "--checkpoint_minutes=0.002", "--progress_seconds=1", "--processes=2", "--threads=1"]


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_sweep_that_is_stopped_leaves_no_process_and_the_same_command_continues(number, code, tmp_path):
    folder = tmp_path / "sweep"
    command = [sys.executable, "-m", "tests.reproduction.sweep.tiny_sweep", f"--sweep_dir={folder}", *FLAGS]
    # A shell that starts the tests in the background has them ignore SIGINT, which processes inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    wait_until(lambda: process.poll() is not None or len(list(folder.glob("cells/*/run/checkpoints/*/COMPLETE"))) >= 2)
    runs = [child.pid for child in psutil.Process(process.pid).children()]
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert len(runs) == 2
    if number == signal.SIGINT:
        assert "SIGINT: asking the cells for a checkpoint, then stopping\n" in err
        assert "2 of 2 cells are missing:" in out
        assert "  interrupted  " in out
        assert not any(psutil.pid_exists(pid) for pid in runs)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in runs))

    assert main(["tiny", f"--sweep_dir={folder}", *FLAGS]) == 0
    for cell in (folder / "cells").iterdir():
        attempts = json.loads((cell / "attempts.json").read_text())["attempts"]
        assert [a.get("kind") for a in attempts] == (
            ["stopped", "ended"] if number == signal.SIGINT else [None, "ended"]
        )
        settings = small_settings(seed=json.loads((cell / "run" / "run.json").read_text())["settings"]["seed"])
        check_progress(cell / "run", settings.__class__(**{**settings.__dict__, "total_steps": 4000}))
        assert int(rows_of(cell / "run")[-1]["steps"]) >= 4000
    told = [(cell / "logs" / "attempt-2.out").read_text() for cell in (folder / "cells").iterdir()]
    assert any(text.startswith("continuing ") for text in told)
