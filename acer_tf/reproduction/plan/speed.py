"""Which cells are alike in speed, and how fast they are: as cells of the sweep recorded it, or as measured now."""

from __future__ import annotations

import csv
import json
import math
import os
import socket
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from acer_tf import envs
from acer_tf.reproduction.plan.cells import PlannedCell
from acer_tf.reproduction.plan.measure import Speed
from acer_tf.reproduction.plan.work import Work, replays_per_step, work_left
from acer_tf.settings import Settings

# Resolved settings, threads, and processes at once, to what one of these takes.
Measure = Callable[[Settings, int, int], Speed]

_DECIDES_SPEED = (
    "atari_preset", "trajectory_weights", "network", "precision", "num_envs", "unroll_length",
    "trajectories_per_update", "on_policy_updates", "replay_priority", "replay_batch", "burn_in", "advantage_samples",
    "dueling", "retrace", "double_q",
)  # fmt: skip
# A shorter one of a run that goes on is mostly of starting and compiling.
_RECORD_SECONDS = 60.0
_NAMED = 4


class Pace(NamedTuple):
    """Seconds per step of one process."""

    before: float  # while nothing is replayed
    after: float  # from where replay has begun

    def seconds(self, work: Work) -> float:
        return self.before * work.before + self.after * work.after


class Paces(NamedTuple):
    """The pace of each cell, and where these come from, in sentences."""

    of: list[Pace]
    sources: list[str]


def paces(
    cells: Sequence[PlannedCell], *, threads: int, copies: int, measure: Measure, say: Callable[[str], None]
) -> Paces:
    """The pace of each cell that is not finished.

    Args:
        cells: of the sweep; those that are not finished may go by the records of others.
        threads: of each process.
        copies: processes at once.
        measure: called once for each group of cells that are alike and have no record.
        say: takes a line before each of these calls.

    Raises:
        SweepError: something could not be measured.
    """
    records: dict[Any, list[tuple[str, Pace]]] = {}
    for cell in cells:
        if pace := recorded(cell, threads):
            records.setdefault(_kind(cell.settings), []).append((cell.settings.env, pace))
    wanted = [cell for cell in cells if not cell.finished]
    by_record: dict[Any, list[PlannedCell]] = {}
    by_measurement: dict[Any, list[PlannedCell]] = {}
    for cell in wanted:
        if (kind := _kind(cell.settings)) in records:
            by_record.setdefault(kind, []).append(cell)
        else:
            by_measurement.setdefault(_group(cell.settings), []).append(cell)
    sources = []
    speeds: dict[Any, Speed] = {}
    for number, (group, members) in enumerate(by_measurement.items(), 1):
        # One measurement serves all replay ratios; the highest tells an update's time best.
        model = max((cell.settings for cell in members), key=lambda settings: settings.replay_ratio)
        what = (
            f"{model.agent} on {model.env}, {model.num_envs} environment{'s' * (model.num_envs > 1)}, "
            f"network {model.network}, {model.precision}"
        )
        say(f"measuring {number} of {len(by_measurement)}: {what} ...")
        speeds[group] = measure(model, threads, copies)
        together = f"in {copies} processes at once" if copies > 1 else "in one process"
        sources.append(f"{_methods(members)}: measured now {together}: {what}{_others(members, {model.env})}")
    for kind, members in by_record.items():
        games = {env for env, _ in records[kind]}
        count = len(records[kind])
        on = ", ".join(sorted(games))
        sources.append(
            f"{_methods(members)}: recorded by {count} cell{'s' * (count > 1)} of this sweep on {on}"
            f"{_others(members, games)}"
        )
    found = []
    for cell in wanted:
        if known := records.get(_kind(cell.settings)):
            own = [pace for env, pace in known if env == cell.settings.env] or [pace for _, pace in known]
            found.append(Pace(*(statistics.median(values) for values in zip(*own, strict=True))))
        else:
            speed = speeds[_group(cell.settings)]
            found.append(Pace(speed.step, speed.step + replays_per_step(cell.settings) * speed.replay))
    return Paces(found, sources)


def recorded(cell: PlannedCell, threads: int) -> Pace | None:
    """The pace that a cell's progress.csv shows; None where there is none, or another machine's, or too little."""
    try:
        document = json.loads((cell.folder.run_dir / "run.json").read_text())
        then = *(document["machine"][name] for name in ("host", "cores")), document["threads"]["emulators"]
        with (cell.folder.run_dir / "progress.csv").open(newline="") as file:
            rows = [(int(r["steps"]), float(r["seconds"]), int(r["replay_updates"])) for r in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    here = socket.gethostname(), len(os.sched_getaffinity(0)), threads
    if then != here or not rows or (rows[-1][1] < _RECORD_SECONDS and not cell.finished):
        return None
    replays = work_left(cell.settings).after > 0
    steps, seconds, _ = rows[-1]
    first_steps, first_seconds, _ = max((row for row in rows if row[2] == 0), default=(0, 0.0, 0))
    if not replays:
        return Pace(seconds / steps, seconds / steps)
    if steps == first_steps:
        return None
    after = (seconds - first_seconds) / (steps - first_steps)
    return Pace(first_seconds / first_steps if first_steps else after, after)


def _kind(settings: Settings) -> tuple[Any, ...]:
    """Cells of equal kinds have equal paces."""
    return (*_group(settings), settings.replay_ratio, work_left(settings).after > 0)


def _group(settings: Settings) -> tuple[Any, ...]:
    """Cells of equal groups have equal speed, but for their replay ratio. One Atari game stands for all."""
    family = envs.split_id(settings.env)[0]
    return (
        family if family == "atari" else settings.env,
        # The others have one update rule, with or without these two parts: the average network and the weights.
        settings.agent if settings.agent in ("dqn", "acer_continuous") else None,
        math.isfinite(settings.trust_region_delta),
        *(getattr(settings, name) for name in _DECIDES_SPEED),
    )


def _methods(cells: Sequence[PlannedCell]) -> str:
    methods = list(dict.fromkeys(cell.folder.cell.method for cell in cells))
    more = f" and {len(methods) - _NAMED} more" if len(methods) > _NAMED else ""
    return "; ".join(methods[:_NAMED]) + more


def _others(cells: Sequence[PlannedCell], games: set[str]) -> str:
    """A warning where cells of other games go by what was found on `games`."""
    others = len({cell.settings.env for cell in cells} - games)
    return f"; {others} other game{'s' * (others > 1)} may differ by some tens of percent" if others else ""
