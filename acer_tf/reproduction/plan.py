"""Estimates a sweep's time, disk and memory on this machine by running one cell of each kind for a while.

Each measurement takes half a minute, so a figure has few kinds: what differs between the cells of one is derived. The
time of replayed updates is proportional to the replay ratio, a trust region and priorities are counted for all cells if
the measured one (which replays if any does) has them, and a step of the environment is timed by itself where
environments differ.
"""

import collections
import contextlib
import dataclasses
import functools
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

from acer_tf import envs, resources
from acer_tf.errors import MeasurementFailure
from acer_tf.replay import TrajectoryReplay
from acer_tf.reproduction.cells import Cell, flags_of, require_distinct
from acer_tf.reproduction.sweep.attempt import PROGRAM, Attempt
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.reproduction.sweep.launcher import LocalLauncher, Needs, needs_of
from acer_tf.runs.checkpoint import KEPT, Checkpoints
from acer_tf.runs.records import read_progress
from acer_tf.settings import Settings, setting_types
from acer_tf.settings.declaration import declarations
from acer_tf.training import build
from acer_tf.training.device import find_device

START_SECONDS = 15.0  # a process's imports, compilation and export; roughly, and only matters for short cells
_ROW_BYTES = 1_700  # a row of progress.csv and its TensorBoard event
_OTHER_BYTES = 500_000  # the graphs of a policy, run.json and logs
_ITERATIONS = 3  # before replay begins
_SECONDS = 5.0  # seconds that are timed; an iteration of the largest network takes one or two
_STEPPING_SECONDS = 0.5  # the same for an environment alone
_STALL_SECONDS = 600.0  # more than a measured process takes to start


class Measured(NamedTuple):
    """Measurements of one process."""

    before: float  # seconds per step before replay starts
    after: float  # seconds per step with replay; the same in a run without replay
    checkpoint: int  # bytes, without replay and compression, which gains little once a run has learned
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
        SweepError: a cell cannot be run.
        MeasurementFailure: its speed cannot be measured.
    """
    require_distinct(cells)
    load, cores, threads = os.getloadavg()[0], resources.available_cores(), LocalLauncher(processes, threads).threads
    unfinished = [folder for cell in cells if not (folder := CellFolder(sweep_dir, cell)).finished]
    kinds: dict[Any, list[tuple[CellFolder, Needs]]] = collections.defaultdict(list)
    for folder, needs in zip(unfinished, needs_of(unfinished, find_device()), strict=True):
        kinds[kind_of(needs.settings, continuous=needs.spec.continuous)].append((folder, needs))
    available = resources.available_memory()
    copies = max(1, min(processes, len(unfinished), available // resources.PROCESS_BYTES))
    together = f"in {copies} processes at once" if copies > 1 else "in one process"
    rest, rates = dict[str, Rest](), []
    for number, kind in enumerate(kinds.values(), 1):
        model = max((needs.settings for _, needs in kind), key=_computation)
        what = (
            f"{model.agent} on {model.env}, {_counted(model.num_envs, 'environment')}, network {model.architecture}, "
            f"{model.precision}, replay ratio {model.replay_ratio:g}"
        )
        methods = "; ".join(dict.fromkeys(folder.cell.method for folder, _ in kind))
        print(f"measuring {number} of {len(kinds)}: {methods}: {what} ...", flush=True)
        found = measured(model, threads, copies)
        for folder, needs in kind:
            derived = derived_from(found, model, needs.settings, threads)
            rest[folder.cell.name] = rest_of(folder, needs, derived, checkpoint_minutes)
        others = len({folder.cell.env for folder, _ in kind}) - 1
        alike = len({_computation(needs.settings) for _, needs in kind}) == 1
        differ = f"; {_counted(others, 'other environment')} may differ by some tens of percent" * (others > 0)
        less = "; other ratios in proportion, the trust region and priorities as there" * (not alike)
        rates.append(f"rates: {methods}: measured now {together}: {what}{less}{differ}")
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


def kind_of(settings: Settings, *, continuous: bool) -> tuple[Any, ...]:
    """Cells of one kind, by their resolved settings, share a measurement.

    They differ at most in their seed, length and the name of their preset, in the environment within a family, in the
    numbers of the equations, and in what `derived_from` and the upper bound are for.
    """
    kinds, declared = setting_types(), declarations(Settings)
    values = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        # Not the numbers of equations, nor what DQN alone reads, all of which takes no time.
        if kinds[name] is not float and declared[name].classes != ("Dqn",)
    }
    values |= dict.fromkeys(("seed", "total_steps", "log_interval", "preset", "replay_poisson", "replay_start"))
    values |= dict.fromkeys(("replay_capacity", "replay_priority", "weights_by_batch", "entropy_in_trust_region"))
    values |= {"agent": settings.rule.class_for(continuous), "env": settings.family}
    return tuple(values.values())


def _computation(settings: Settings) -> tuple[bool, bool, bool, float]:
    """What a cell does that others of its kind do not; the measured cell has the largest."""
    ratio = settings.replay_ratio  # without replay there is nothing to take other ratios in proportion to
    return ratio > 0, settings.trust_region, settings.replay_priority != "uniform", ratio


def derived_from(found: Measured, model: Settings, settings: Settings, threads: int) -> Measured:
    """The measurements of cells of the same kind as `model`, which was measured."""
    more = 0.0
    if settings.env != model.env and not settings.family.alike:
        more = stepping(settings.env, settings.num_envs, threads) - stepping(model.env, model.num_envs, threads)
    updates = found.after - found.before
    share = settings.replay_ratio / model.replay_ratio if model.replay_ratio else 1.0
    before = max(found.before + more, found.before / 10)
    return found._replace(before=before, after=max(before + share * updates, before / 10))


@functools.cache
def stepping(env: str, num_envs: int, threads: int) -> float:
    """Seconds per step of the environments alone, with random actions."""
    rng = np.random.default_rng(0)
    made = envs.make(env, num_envs, 0, threads=threads)
    try:
        made.reset()
        begun, steps = time.monotonic(), 0
        while (taken := time.monotonic() - begun) < _STEPPING_SECONDS:
            if made.spec.continuous:
                made.step(rng.uniform(-1, 1, (num_envs, made.spec.action_size)).astype(np.float32))
            else:
                made.step(rng.integers(made.spec.num_actions, size=num_envs).astype(np.int32))
            steps += num_envs
        return taken / steps
    finally:
        made.close()


def measured(settings: Settings, threads: int, copies: int) -> Measured:
    """Runs `acer_tf train` with resolved `settings`, `copies` times at once as in a sweep, until it has seen enough.

    Takes about half a minute, and writes only to the temporary folder. The replay is small and begins early, and no
    checkpoint is written while it is timed: each makes a few percent at most. Returns medians over the copies.

    Raises:
        MeasurementFailure: a process failed; with its last line on standard error.
    """
    short = timed(settings)
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
                raise MeasurementFailure(f"{what} cannot be measured: {ended.reason}")
            if end == math.inf and all(_of_run(run, settings) for run in runs):
                end = time.monotonic() + _SECONDS
            time.sleep(0.2)
        launcher.stop()
        while launcher.room(0) < copies:
            launcher.poll()
            time.sleep(0.2)
        found = [one for run in runs if (one := _of_run(run, settings))]
    return Measured(*map(statistics.median_high, zip(*found, strict=True)))


def timed(settings: Settings) -> Settings:
    """The settings of the run that is timed for runs with resolved `settings`."""
    return dataclasses.replace(
        settings,
        total_steps=10**12,
        log_interval=1,  # a row for each iteration
        replay_start=_ITERATIONS * settings.unroll_length,
        replay_capacity=2 * _ITERATIONS * settings.unroll_length + settings.burn_in,
        # A whole ratio needs no draws to average over; at 0 none are made, and the flag would be refused.
        replay_poisson=settings.replay_poisson and (settings.replay_ratio == 0 or settings.replay_ratio % 1 > 0),
        learning_rate=1e-9,  # nothing may diverge
    )


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
    size = Checkpoints(checkpoints).uncompressed_bytes()
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
