"""Learning curves of finished and unfinished runs: read from their folders and summarised."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np


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


def read_run(folder: Path) -> RunCurve:
    """The curve in `folder`.

    Raises:
        NoRowsYet: progress.csv is missing or empty.
        CurveError: run.json is missing, or one of them cannot be read.
    """
    try:
        if not (folder / "progress.csv").exists() and (folder / "run.json").exists():
            raise NoRowsYet(f"{folder / 'progress.csv'} is not there yet")
        settings = json.loads((folder / "run.json").read_text())["settings"]
        with (folder / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {
            name: np.array([float(row[name] or "nan") for row in rows])
            for name in ("steps", "seconds", "games", "mean_return", "interval_return")
        }
    except NoRowsYet:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CurveError(f"{folder} is not a readable run: {type(error).__name__} {error}") from error
    if not rows:
        raise NoRowsYet(f"{folder / 'progress.csv'} has no rows yet")
    return RunCurve(settings["env"], settings["seed"], settings["total_steps"], **columns)


def final_return(run: RunCurve, share: float = 0.1) -> float:
    """Mean raw return of all games that ended in the last `share` of the steps done; NaN where none did."""
    games = np.diff(run.games, prepend=0.0)
    counts = np.where(np.isnan(run.interval_return), 0.0, games) * (run.steps > (1.0 - share) * run.steps[-1])
    total = np.sum(np.nan_to_num(run.interval_return) * counts)
    return float(total / counts.sum()) if counts.sum() else float("nan")


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
