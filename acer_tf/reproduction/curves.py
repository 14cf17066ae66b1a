"""Learning curves of finished and unfinished runs, read from their folders."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from acer_tf.errors import CurveError, RecordError
from acer_tf.runs.records import read_progress, read_record


class NoRowsYet(CurveError):
    """A run that is still in its first log interval."""


class RunCurve(NamedTuple):
    """One run's training score, by log interval."""

    env: str
    seed: int
    total_steps: int  # of the whole run
    steps: np.ndarray  # [P] agent steps at the end of each interval
    seconds: np.ndarray  # [P] of work until then
    episodes: np.ndarray  # [P] episodes that had ended by then
    mean_return: np.ndarray  # [P] raw, mean of the last 100 episodes; NaN before the first
    interval_return: np.ndarray  # [P] raw, mean of the episodes that ended in the interval; NaN without any

    def until(self, steps: float) -> RunCurve:
        """The curve up to its first row at or after `steps`."""
        rows = slice(int(np.searchsorted(self.steps, steps)) + 1)
        return self._replace(**{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS = RunCurve._fields[3:]  # of progress.csv


def read_run(folder: str | Path) -> RunCurve:
    """The learning curve in a run's folder, also during the run.

    >>> curve = acer_tf.read_run("runs/cartpole")
    >>> best = np.nanmax(curve.mean_return)

    Raises:
        NoRowsYet: progress.csv is missing or empty.
        CurveError: run.json is missing, or one of the two cannot be read.
    """
    folder = Path(folder)
    try:
        settings, columns = read_record(folder).settings, read_progress(folder)
        if len(columns.get("steps", ())):
            curve = RunCurve(
                settings["env"], settings["seed"], settings["total_steps"], *(columns[name] for name in _COLUMNS)
            )
            if (np.diff(curve.episodes) < 0).any():
                raise ValueError("its number of episodes decreases")
            return curve
    except RecordError as error:
        raise CurveError(f"{folder} is not a readable run: {error}") from error
    except (OSError, ValueError, KeyError) as error:
        raise CurveError(f"{folder} is not a readable run: {type(error).__name__} {error}") from error
    raise NoRowsYet(f"{folder / 'progress.csv'} has no rows yet")


def return_at(run: RunCurve, steps: float) -> float:
    """The mean return of the last 100 episodes at the first row at or after `steps`; NaN if there is no such row."""
    reached = np.flatnonzero(run.steps >= steps)
    return float(run.mean_return[reached[0]]) if len(reached) else float("nan")
