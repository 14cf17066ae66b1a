"""Learning curves of finished and unfinished runs: read from their folders and summarised."""

from __future__ import annotations

import csv
import io
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
    curve = folder / "progress.csv"
    try:
        settings = json.loads((folder / "run.json").read_text())["settings"]
        rows = read_progress(curve.read_bytes()) if curve.exists() else []
        names = ("steps", "seconds", "games", "mean_return", "interval_return")
        columns = {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}
        if (np.diff(columns["games"]) < 0).any():
            raise ValueError("games become fewer")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CurveError(f"{folder} is not a readable run: {type(error).__name__} {error}") from error
    if not rows:
        raise NoRowsYet(f"{curve} has no rows yet")
    return RunCurve(settings["env"], settings["seed"], settings["total_steps"], **columns)


def read_progress(content: bytes) -> list[dict[str, str]]:
    """The rows of a progress.csv; a last line that is not whole yet is left out.

    Raises:
        ValueError: names the first line that cannot be of one.
    """
    whole = content[: content.rfind(b"\n") + 1].decode()
    head, *lines = list(csv.reader(io.StringIO(whole, newline=""))) or [[]]
    rows, last = [], 0
    for number, line in enumerate(lines, 2):
        row = dict(zip(head, line, strict=False))
        _ = [float(value) for value in line if value]
        if len(line) != len(head) or int(row["steps"]) <= last:
            raise ValueError(f"line {number}")
        last = int(row["steps"])
        rows.append(row)
    return rows


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
