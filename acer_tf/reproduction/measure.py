"""Measures how fast runs step on this machine, and how large their checkpoints are, by running them for a while."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acer_tf.errors import SweepError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep.attempt import PROGRAM, Attempt
from acer_tf.reproduction.sweep.cells import flags_of
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.records import read_progress
from acer_tf.settings import Settings

_ITERATIONS = 5  # before replay begins
_SECONDS = 8.0  # that are timed; an iteration of the largest network takes one
_ENOUGH = 600.0  # seconds to start, and to stop


class Measured(NamedTuple):
    """Measurements of one process."""

    before: float  # seconds per step before replay starts
    after: float  # seconds per step with replay; the same in a run without replay
    checkpoint: int  # bytes, without replay


def measured(settings: Settings, threads: int, copies: int) -> Measured:
    """Runs `acer_tf train` with resolved `settings`, `copies` times at once as in a sweep, until it has seen enough.

    Takes about half a minute, and writes only to the temporary folder. The replay is small and begins early, and no
    checkpoint is written while it is timed: each makes a few percent at most. Returns medians over the copies.

    Raises:
        SweepError: a process failed; with its last line on standard error.
    """
    short = dataclasses.replace(
        settings,
        total_steps=10**12,
        log_interval=1,  # a row for each iteration
        replay_start=_ITERATIONS * settings.unroll_length,
        replay_capacity=2 * _ITERATIONS * settings.unroll_length + settings.burn_in,
        replay_poisson=settings.replay_ratio % 1 > 0,  # a whole ratio needs no draws to average over
        learning_rate=1e-9,  # nothing may diverge
    )
    cell = Cell.asked("", short)
    command = (*PROGRAM, *flags_of(short), f"--threads={threads}", "--checkpoint_minutes=1e6")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as opened:
        attempts = []
        for place in (Path(name, str(copy)) for copy in range(copies)):
            in_place = (*command, f"--run_dir={place}/run")
            attempt = Attempt(cell, in_place, Path.cwd(), place / "run", place / "log", 0, *[_ENOUGH] * 3)
            attempts.append(opened.enter_context(contextlib.closing(attempt)))
        # All compile first, so that they are timed together.
        end, rows = math.inf, [0] * copies
        while time.monotonic() < end:
            for attempt in attempts:
                if ended := attempt.poll():
                    what = f"the speed of {settings.agent} on {settings.env}"
                    raise SweepError(f"{what} cannot be measured: {ended.reason}")
            if end == math.inf and all(_of_run(attempt.run_dir, settings) for attempt in attempts):
                end = time.monotonic() + _SECONDS
                rows = [len(read_progress(attempt.run_dir)["steps"]) for attempt in attempts]
            time.sleep(0.2)
        for attempt in attempts:
            attempt.stop()
        while not all(attempt.poll() for attempt in attempts):
            time.sleep(0.2)
        runs = zip(attempts, rows, strict=True)
        found = [run for attempt, row in runs if (run := _of_run(attempt.run_dir, settings, row - 1))]
    return Measured(*map(statistics.median_high, zip(*found, strict=True)))


def bytes_in(folder: Path) -> int:
    """The total size of the files under a folder; 0 if it does not exist."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # an active run deletes checkpoints
                total += Path(place, name).stat().st_size
    return total


def _of_run(run_dir: Path, settings: Settings, since: int = 0) -> Measured | None:
    """What a run's rows and its newest checkpoint say so far, the pace with replay by rows from `since` on.

    None if these are too few.
    """
    rows, replays = read_progress(run_dir), settings.replay_ratio > 0
    # The first row of each part has what happens once.
    first = int(np.searchsorted(rows["replay_updates"], 1)) if rows and replays else 1
    if not rows or len(rows["steps"]) < max(first, since) + 2:
        return None

    def pace(*part: int) -> float:
        return float(np.diff(rows["seconds"][[*part]])[0] / np.diff(rows["steps"][[*part]])[0])

    after = pace(max(first, since), -1)
    checkpoints = run_dir / "checkpoints"
    size = bytes_in(checkpoints / max(Checkpoints(checkpoints).saved()))
    return Measured(pace(0, first - 1) if replays else after, after, size)
