"""What a run takes on disk."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acer_tf.replay import TrajectoryReplay
from acer_tf.replay.trajectories import CHUNK_BYTES
from acer_tf.reproduction.plan.cells import PlannedCell
from acer_tf.reproduction.plan.speed import Pace
from acer_tf.settings import Settings
from acer_tf.training.build import make_agent, replay_bytes, replay_rows
from acer_tf.training.checkpoint import KEPT
from acer_tf.types import EnvironmentSpec

# A row of progress.csv, and the same as TensorBoard events.
_ROW_BYTES = 1_700
# The program in a SavedModel, its metadata, run.json and logs.
_FIXED_BYTES = 60_000


class Footprint(NamedTuple):
    """Bytes of one cell."""

    kept: int  # that the finished run leaves
    passing: int  # that it has beyond these while it runs, where that is the most


class Footprints:
    """The footprint of runs; each kind of agent is made once, to weigh it."""

    def __init__(self, checkpoint_minutes: float) -> None:
        self._checkpoint_seconds = 60.0 * checkpoint_minutes
        self._weights: dict[Any, tuple[int, int]] = {}

    def of(self, cell: PlannedCell, pace: Pace) -> Footprint:
        """The footprint of a cell, whose pace decides how much comes between two checkpoints."""
        settings, spec = cell.settings, cell.spec
        seconds_per_step = pace.after if cell.work.after else pace.before
        state, policy = self._weigh(settings, spec)
        iteration = settings.num_envs * settings.unroll_length
        curve = _ROW_BYTES * math.ceil(settings.total_steps / max(settings.log_interval, iteration))
        row = TrajectoryReplay.required_bytes(spec, settings.num_envs, 0)
        run = settings.total_steps / settings.num_envs
        capacity = replay_rows(settings, spec)
        interval = min(run, capacity, self._checkpoint_seconds / seconds_per_step / settings.num_envs)
        # Just before the oldest checkpoint goes there is one more than are kept, with all rows that any of them needs,
        # and a file stays whole while one of its rows is needed.
        rows = min(run, capacity + KEPT * interval + min(interval, CHUNK_BYTES / row))
        # Each checkpoint has all stored states of a recurrent network.
        stored = math.ceil(min(run, capacity))
        states = replay_bytes(settings, spec, stored) - (stored + 1) * row
        passing = math.ceil(rows * row) + KEPT * state + (KEPT + 1) * states
        return Footprint(state + policy + curve + _FIXED_BYTES, passing)

    def _weigh(self, settings: Settings, spec: EnvironmentSpec) -> tuple[int, int]:
        """Bytes of all that a checkpoint holds besides replay, and of the policy's weights."""
        key = (
            *(spec, settings.agent, settings.network, settings.dueling),
            *(settings.rmsprop_centered, settings.shared_bias, settings.normalize_observations),
        )
        if key not in self._weights:
            agent = make_agent(settings, spec)
            sizes = [_bytes_of(variables) for variables in (agent.variables().values(), agent.network.model.weights)]
            self._weights[key] = sizes[0], sizes[1]
        return self._weights[key]


def bytes_in(folder: Path) -> int:
    """That the files under a folder take; 0 where there is none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:  # a run at work drops checkpoints
                continue
    return total


def existing(path: Path) -> Path:
    """`path`, or the nearest folder above that exists."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _bytes_of(variables: Any) -> int:
    return sum(int(np.prod(v.shape)) * np.dtype(v.dtype).itemsize for v in variables)
