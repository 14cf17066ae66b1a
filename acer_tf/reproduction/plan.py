"""Estimates a sweep's time, disk and memory on this machine by running one cell of each kind for a while."""

import collections
import contextlib
import dataclasses
import heapq
import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from acer_tf import resources
from acer_tf.errors import SweepError
from acer_tf.replay import TrajectoryReplay
from acer_tf.reproduction.cells import Cell, flags_of, require_distinct
from acer_tf.reproduction.sweep.attempt import PROGRAM, Attempt
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.reproduction.sweep.launcher import LocalLauncher, Needs, needs_of
from acer_tf.runs.checkpoint import KEPT, Checkpoints
from acer_tf.runs.records import read_progress
from acer_tf.settings import Settings, setting_types
from acer_tf.training import build
from acer_tf.training.device import find_device

START_SECONDS = 15.0  # a process's imports, compilation and export; roughly, and only matters for short cells
_ROW_BYTES = 1_700  # a row of progress.csv and its TensorBoard event
_OTHER_BYTES = 500_000  # the graphs of a policy, run.json and logs
_ITERATIONS = 5  # before replay begins
_SECONDS = 8.0  # seconds that are timed; an iteration of the largest network takes one
_STALL_SECONDS = 600.0  # more than a measured process takes to start


class Measured(NamedTuple):
    """Measurements of one process."""

    before: float  # seconds per step before replay starts
    after: float  # seconds per step with replay; the same in a run without replay
    checkpoint: int  # bytes, without replay
    row: float  # bytes of a row of all environments in a checkpoint's replay, which is compressed


class Rest(NamedTuple):
    """The needs of a cell from now on; all are 0 if it is finished."""

    steps: int = 0
    seconds: float = 0.0  # the start of its process included
    kept: int = 0  # disk: bytes from now until the run is finished; negative if an earlier attempt left more
    passing: int = 0  # disk: the most bytes that are used in addition while it runs
    memory: int = 0  # bytes


def plan(
    cells: Sequence[Cell], sweep_dir: Path, *, processes: int = 1, threads: int = 0, checkpoint_minutes: float = 10.0
) -> list[str]:
    """Estimates `run_sweep` of `cells` with a `LocalLauncher`; starts no cell, and writes nothing to `sweep_dir`.

    An interrupted cell counts from its last row of progress.csv, though its last checkpoint may be an interval earlier.
    Times exclude what `measured` ignores, and failures. Prints a line before each measurement. Arguments as in
    `run_sweep` and `LocalLauncher`; `sweep_dir` need not exist.

    Returns:
        Lines: an aligned table by method, totals, their basis, and warnings for resources that do not suffice.

    Raises:
        SweepError: a cell cannot be run, or its speed not measured.
    """
    require_distinct(cells)
    load, cores, threads = os.getloadavg()[0], resources.available_cores(), LocalLauncher(processes, threads).threads
    unfinished = [folder for cell in cells if not (folder := CellFolder(sweep_dir, cell)).finished]
    kinds: dict[Any, list[tuple[CellFolder, Needs]]] = collections.defaultdict(list)
    for folder, needs in zip(unfinished, needs_of(unfinished, find_device()), strict=True):
        kinds[kind_of(needs.settings)].append((folder, needs))
    available = resources.available_memory()
    copies = max(1, min(processes, len(unfinished), available // resources.PROCESS_BYTES))
    together = f"in {copies} processes at once" if copies > 1 else "in one process"
    rest, rates = dict[str, Rest](), []
    for number, kind in enumerate(kinds.values(), 1):
        model = kind[0][1].settings
        what = (
            f"{model.agent} on {model.env}, {_counted(model.num_envs, 'environment')}, network {model.network}, "
            f"{model.precision}, replay ratio {model.replay_ratio:g}"
        )
        methods = "; ".join(dict.fromkeys(folder.cell.method for folder, _ in kind))
        print(f"measuring {number} of {len(kinds)}: {methods}: {what} ...", flush=True)
        found = measured(model, threads, copies)
        rest |= {folder.cell.name: rest_of(folder, needs, found, checkpoint_minutes) for folder, needs in kind}
        others = len({folder.cell.env for folder, _ in kind}) - 1
        differ = f"; {_counted(others, 'other game')} may differ by some tens of percent" * (others > 0)
        rates.append(f"rates: {methods}: measured now {together}: {what}{differ}")
    left = pd.DataFrame(
        {"method": cell.method, "env": cell.env, "total": cell.total_steps, **rest.get(cell.name, Rest())._asdict()}
        for cell in cells
    )
    count = f"{len(cells)} cells in {sweep_dir}, {len(cells) - len(rest)} finished"
    table = [f"{count}; {left.total.sum():,} steps, {left.steps.sum():,} left", *_table(left)]
    if not rest:
        return [*table, "all cells are finished: nothing would be run"]
    span, each = makespan(left.seconds, processes), _counted(threads, "thread")
    days = f" ({span / 86400:,.0f} days)" if span >= 48 * 3600 else ""
    how = f"{processes} processes of {each} each" if processes > 1 else "one process"
    # Any cells may run together, so the largest ones must fit.
    peak = max(0, left.kept.sum() + left.passing.nlargest(processes).sum())
    memory = left.memory.nlargest(processes).sum()
    place = next(path for path in (sweep_dir.absolute(), *sweep_dir.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    warnings = {
        f"memory does not suffice for --processes={processes}: the sweep would refuse to start; use fewer processes or "
        "a smaller replay": memory > available,
        "disk may not suffice: cells would fail at a checkpoint": peak > free,
        f"{processes} × {threads} threads share {cores} cores": processes * threads > cores,
        f"this machine is busy (load {load:.1f} on {cores} cores): the measured rates are too low if that ends": load
        > cores / 2,
    }
    return [
        *table,
        f"time: {_hours(span)} hours{days} with {how}; the longest cell takes {_hours(left.seconds.max())}",
        f"steps/s and hours left of a method are for one process of {each}: {_hours(left.seconds.sum())} hours in "
        "total; without checkpoints (about 2 %) and failures",
        *rates,
        f"disk: at most about {resources.in_bytes(peak)} more while cells run, of which "
        f"{resources.in_bytes(max(0, left.kept.sum()))} stay; {resources.in_bytes(free)} are free at {place}",
        f"memory: up to {resources.in_bytes(memory)}; {resources.in_bytes(available)} are available",
        *(f"warning: {text}" for text, holds in warnings.items() if holds),
    ]


def kind_of(settings: Settings) -> tuple[Any, ...]:
    """Cells of one kind, by their resolved settings, are taken to run equally fast.

    They differ at most in their seed, length and the name of their preset, in environments of a family whose members
    take the same time, and in the numbers of the equations, as long as none is 0 or infinite, which leaves a part out.
    """
    values = dataclasses.asdict(settings)
    for name, kind in setting_types().items():
        if kind is float and name != "replay_ratio":
            values[name] = values[name] if values[name] in (None, 0, math.inf) else "a number"
    values["env"] = settings.family if settings.family.alike else settings.env
    return tuple((values | dict.fromkeys(("seed", "total_steps", "log_interval", "preset"))).values())


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
    command = (*PROGRAM, *flags_of(short), f"--threads={threads}", "--checkpoint_minutes=1e6")
    launcher = LocalLauncher(copies, threads)
    with tempfile.TemporaryDirectory() as name, contextlib.closing(launcher):
        runs = [Path(name, f"run-{copy}") for copy in range(copies)]
        for run in runs:
            cell = dataclasses.replace(Cell.asked("", short), name=run.name)
            in_place = (*command, f"--run_dir={run}")
            launcher.start(Attempt(cell, in_place, Path.cwd(), run, run.with_suffix(".log"), 0, _STALL_SECONDS))
        # All compile first, so that they are timed together.
        end = math.inf
        while time.monotonic() < end:
            for _, ended in launcher.poll():
                what = f"the speed of {settings.agent} on {settings.env}"
                raise SweepError(f"{what} cannot be measured: {ended.reason}")
            if end == math.inf and all(_of_run(run, settings) for run in runs):
                end = time.monotonic() + _SECONDS
            time.sleep(0.2)
        launcher.stop()
        while launcher.room(0) < copies:
            launcher.poll()
            time.sleep(0.2)
        found = [one for run in runs if (one := _of_run(run, settings))]
    return Measured(*map(statistics.median_high, zip(*found, strict=True)))


def bytes_in(folder: Path) -> int:
    """The total size of the files under a folder; 0 if it does not exist."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # an active run deletes checkpoints
                total += Path(place, name).stat().st_size
    return total


def _of_run(run_dir: Path, settings: Settings) -> Measured | None:
    """The measurements from a run's rows and its newest checkpoint; None if there are too few rows.

    The pace with replay is that of the last `_SECONDS`. The first row of each part is left out: it includes what
    happens only once.
    """
    if not (rows := read_progress(run_dir)):
        return None
    steps, seconds = rows["steps"], rows["seconds"]
    first = int(np.searchsorted(rows["replay_updates"], 1)) if settings.replay_ratio else 1
    if len(steps) < first + 2:
        return None

    def pace(start: int, end: int) -> float:
        return float((seconds[end] - seconds[start]) / (steps[end] - steps[start]))

    since = int(np.searchsorted(seconds, seconds[-1] - _SECONDS))
    after = pace(max(first, min(since, len(steps) - 2)), -1)
    checkpoints = run_dir / "checkpoints"
    size = bytes_in(checkpoints / max(Checkpoints(checkpoints).saved()))
    row = bytes_in(checkpoints / "replay") / max(1.0, float(rows["stored_rows"][-1]))
    return Measured(pace(0, first - 1) if settings.replay_ratio else after, after, size, row)


def rest_of(folder: CellFolder, needs: Needs, found: Measured, checkpoint_minutes: float) -> Rest:
    """The needs of an unfinished cell from now on, by the measurements of its kind."""
    settings, spec, memory, _ = needs
    total, num_envs, done = settings.total_steps, settings.num_envs, folder.latest()[0]
    steps = max(0, total - done)
    replay_start = settings.replay_start * num_envs if settings.replay_ratio else total
    before = min(steps, max(0, replay_start - done))
    curve = _ROW_BYTES * math.ceil(total / max(settings.log_interval, num_envs * settings.unroll_length))
    # A finished run keeps a checkpoint, and its policy, which has the weights alone: at most half of a checkpoint.
    kept = found.checkpoint * 3 // 2 + curve + _OTHER_BYTES
    # A row stays on disk while a checkpoint needs it or another row of its file. Before the oldest checkpoint is
    # deleted there is one more than are kept, each with all stored recurrent states.
    capacity = build.replay_rows(settings, spec)
    interval = min(capacity, 60.0 * checkpoint_minutes / min(found.before, found.after) / num_envs)
    rows = math.ceil(min(total / num_envs, capacity + (KEPT + 1) * interval))
    states, more = (
        build.replay_bytes(settings, spec, stored) - TrajectoryReplay.required_bytes(spec, num_envs, stored)
        for stored in (capacity, rows)
    )
    passing = KEPT * (found.checkpoint + states) + more + math.ceil(rows * found.row)
    kept -= min(bytes_in(folder.run_dir), kept + passing)
    seconds = START_SECONDS + before * found.before + (steps - before) * found.after
    return Rest(steps, seconds, kept, passing, memory)


def makespan(seconds: Iterable[float], processes: int) -> float:
    """Seconds until all are done, if the first free one of `processes` begins the next, as in a sweep."""
    busy = [0.0] * processes
    for duration in seconds:
        heapq.heapreplace(busy, busy[0] + duration)
    return max(busy)


def _table(left: pd.DataFrame) -> list[str]:
    rows = {}
    for method, own in left.groupby("method", sort=False):
        count = (own.seconds > 0).sum()
        stepping = own.seconds.sum() - START_SECONDS * count
        rows[method] = {
            "cells": len(own),
            "finished": len(own) - count,
            "tasks": own.env.nunique(),
            "steps per cell": " to ".join(f"{length:,}" for length in sorted({own.total.min(), own.total.max()})),
            "steps/s": f"{own.steps.sum() / stepping:,.0f}" if own.steps.any() else "-",
            "hours left": _hours(own.seconds.sum()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(columns="method").to_string().splitlines()


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count > 1)}"


def _hours(seconds: float) -> str:
    hours = seconds / 3600.0
    return f"{hours:,.1f}" if hours >= 10 or hours == 0 else f"{hours:.2g}"
