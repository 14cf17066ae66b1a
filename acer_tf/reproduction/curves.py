"""Learning curves of finished and unfinished runs: read from their folders and summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acer_tf.training.records import read_progress, read_record


class CurveError(ValueError):
    """A run folder cannot be read: the message names the file and what is wrong."""


class NoRowsYet(CurveError):
    """A run that has not come to the end of its first log interval."""


class RunCurve(NamedTuple):
    """One run's training score, by log interval."""

    env: str
    seed: int
    total_steps: int  # that the run was asked for
    steps: np.ndarray  # [P] agent decisions at the end of each interval
    seconds: np.ndarray  # [P] that the run had worked by then
    games: np.ndarray  # [P] games that had ended by then
    mean_return: np.ndarray  # [P] raw, mean of the last 100 games; NaN before the first
    interval_return: np.ndarray  # [P] raw, mean of the games that ended in the interval; NaN where none did

    def until(self, steps: float) -> RunCurve:
        """The curve up to its first row at or behind `steps`."""
        rows = slice(int(np.searchsorted(self.steps, steps)) + 1)
        columns = (self.steps, self.seconds, self.games, self.mean_return, self.interval_return)
        return RunCurve(self.env, self.seed, self.total_steps, *(column[rows] for column in columns))


def read_run(folder: str | Path) -> RunCurve:
    """The learning curve in a run's folder, also while the run goes on.

    >>> curve = acer_tf.read_run("runs/cartpole")
    >>> best = curve.mean_return.max()

    Raises:
        NoRowsYet: progress.csv is missing or empty.
        CurveError: run.json is missing, or one of them cannot be read.
    """
    folder = Path(folder)
    try:
        settings, columns = read_record(folder).settings, read_progress(folder)
        if not len(columns.get("steps", ())):
            raise NoRowsYet(f"{folder / 'progress.csv'} has no rows yet")
        curve = RunCurve(
            settings["env"],
            settings["seed"],
            settings["total_steps"],
            **{name: columns[name] for name in ("steps", "seconds", "games", "mean_return", "interval_return")},
        )
        if (np.diff(curve.games) < 0).any():
            raise ValueError("games become fewer")
    except NoRowsYet:
        raise
    except (ValueError, KeyError) as error:
        raise CurveError(f"{folder} is not a readable run: {type(error).__name__} {error}") from error
    return curve


def return_at(run: RunCurve, steps: float) -> float:
    """Mean return of the last 100 games at the first log row at or behind `steps`; NaN where there is none."""
    reached = np.flatnonzero(run.steps >= steps)
    return float(run.mean_return[reached[0]]) if len(reached) else float("nan")


def environment_of(groups: Mapping[str, Sequence[RunCurve]]) -> str:
    """The one environment of all runs.

    Raises:
        CurveError: there are several.
    """
    environments = {run.env for runs in groups.values() for run in runs}
    if len(environments) != 1:
        raise CurveError(f"one figure shows one environment, not {sorted(environments)}")
    return environments.pop()
