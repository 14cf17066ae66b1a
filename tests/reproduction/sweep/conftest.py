import json
import sys
from pathlib import Path

import pytest

from acer_tf import resources
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep import LocalLauncher, attempt, run_sweep, runner
from tests.training.scripted import small_settings

STAND_IN = str(Path(__file__).with_name("stand_in.py"))


def cell(seed=0, **given):
    return Cell.asked("ACER", small_settings(seed=seed, total_steps=100, log_interval=10, **given))


def attempts(sweep, cell):
    return json.loads((sweep.folder / "cells" / cell.name / "attempts.json").read_text())["attempts"]


def rows_of_stand_in(path):
    """The steps of its rows, in the folder of its cell."""
    _, *rows = (path / "run/progress.csv").read_text().split()
    return [int(row.partition(",")[0]) for row in rows]


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep of stand-ins, with enough memory, and a short time before cells that do not stop are killed."""
    monkeypatch.setattr(attempt, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(resources, "available_memory", lambda: 10**12)
    monkeypatch.setattr(runner, "_POLL_SECONDS", 0.05)
    lines = []

    def run(cells, *behaviour, experiment="tiny", processes=4, launcher=None, **options):
        launcher = launcher or LocalLauncher(processes)
        options = {"cwd": tmp_path, "retries": 0, "stall_minutes": 1.0, "say": lines.append} | options
        options = {"program": [sys.executable, STAND_IN, *behaviour]} | options
        return run_sweep(experiment, cells, tmp_path / "sweep", launcher, **options)

    run.lines, run.folder = lines, tmp_path / "sweep"
    return run
