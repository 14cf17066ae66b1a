"""What is left of a cell to compute, in steps and updates, as `training.loop` counts them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import NamedTuple

from acer_tf.settings import Settings


class Work(NamedTuple):
    """Steps that are left of a run."""

    before: int  # while nothing is replayed yet
    after: int  # from there to the end

    @property
    def steps(self) -> int:
        return self.before + self.after


def work_left(settings: Settings, done: int = 0) -> Work:
    """What is left of a run with `done` steps behind it.

    Masked rows, which take time but are no steps, are not counted: one for each game that ends.
    """
    left = max(0, settings.total_steps - done)
    if settings.replay_ratio == 0:
        return Work(left, 0)
    # An iteration replays when its own rows make up the fill, so the first one may.
    without = max(0, math.ceil(settings.replay_start / settings.unroll_length) - 1)
    before = min(left, max(0, without * _rows(settings) - done))
    return Work(before, left - before)


def replays_per_step(settings: Settings) -> float:
    """Mean number of replayed updates per step, once replay has begun."""
    groups = settings.num_envs // (settings.trajectories_per_update or settings.num_envs)
    return settings.replay_ratio * groups / _rows(settings)


def makespan(seconds: Iterable[float], processes: int) -> float:
    """Seconds until all are done, each in its turn begun by the first of `processes` that is free: as a sweep does."""
    busy = [0.0] * processes
    for duration in seconds:
        heapq.heapreplace(busy, busy[0] + duration)
    return max(busy)


def _rows(settings: Settings) -> int:
    """Of one iteration, over all environments."""
    return settings.num_envs * settings.unroll_length
