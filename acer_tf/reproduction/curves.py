"""Learning curves of finished and unfinished runs: read from their folders, summarised, drawn."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np

from acer_tf.reproduction.published import PublishedCurve, published_curves

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


class CurveError(ValueError):
    """A run folder cannot be read: the message names the file and what is wrong."""


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
        CurveError: run.json or progress.csv is missing or cannot be read.
    """
    try:
        settings = json.loads((folder / "run.json").read_text())["settings"]
        with (folder / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {
            name: np.array([float(row[name] or "nan") for row in rows])
            for name in ("steps", "seconds", "games", "mean_return", "interval_return")
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CurveError(f"{folder} is not a readable run: {type(error).__name__} {error}") from error
    if not rows:
        raise CurveError(f"{folder / 'progress.csv'} has no rows yet")
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


def draw(groups: Mapping[str, Sequence[RunCurve]], path: Path, *, title: str) -> None:
    """Draws each group's mean over its runs, the runs themselves thin, and what was published of their task behind.

    Args:
        groups: label to runs of one environment, each a curve of the same colour. A published curve of the method that
            a label names has that colour too, and is dashed.
        path: .png or .svg.
        title: above the axes.

    Raises:
        CurveError: the runs are not of one environment.
    """
    published = published_curves(environment_of(groups))
    figure, axes = plt.subplots(figsize=(7.5, 4.5), constrained_layout=True)
    longest = max(run.steps[-1] for runs in groups.values() for run in runs)
    colours = {label: f"C{number}" for number, label in enumerate(groups)}
    others = iter(f"C{number}" for number in range(len(groups), len(groups) + len(published)))
    for curve in published:
        plain = "0.45" if len(published) == 1 else None
        _draw_published(axes, curve, longest, colours.get(curve.method) or plain or next(others))
    for label, runs in groups.items():
        colour = colours[label]
        for run in runs:
            axes.plot(run.steps, run.mean_return, color=colour, alpha=0.3 if len(runs) > 1 else 1.0, linewidth=1)
        shared = min(run.steps[-1] for run in runs)
        grid = np.linspace(0.0, shared, 200)
        mean = np.mean([_interpolate(run, grid) for run in runs], axis=0)
        name = f"{label} (mean of {len(runs)} seeds)" if len(runs) > 1 else label
        axes.plot(grid, mean, color=colour, linewidth=2, label=name)
    axes.set(xlabel="environment steps (agent decisions)", ylabel="mean return of the last 100 games", title=title)
    axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
    axes.grid(alpha=0.25)
    axes.legend(loc="best", fontsize="small" if len(groups) + len(published) > 5 else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def environment_of(groups: Mapping[str, Sequence[RunCurve]]) -> str:
    """The one environment of all runs.

    Raises:
        CurveError: there are several.
    """
    environments = {run.env for runs in groups.values() for run in runs}
    if len(environments) != 1:
        raise CurveError(f"one figure shows one environment, not {sorted(environments)}")
    return environments.pop()


def _interpolate(run: RunCurve, grid: np.ndarray) -> np.ndarray:
    known = ~np.isnan(run.mean_return)
    return np.interp(grid, run.steps[known], run.mean_return[known], left=np.nan) if known.any() else grid * np.nan


def _draw_published(axes: plt.Axes, curve: PublishedCurve, longest: float, colour: str) -> None:
    limit = 1.5 * longest
    # One point more than lies within: the line then leaves the figure at its edge.
    shown = slice(0, np.searchsorted(curve.steps, limit) + 1)
    axes.set_xlim(-0.02 * limit, limit)
    axes.fill_between(curve.steps[shown], curve.low[shown], curve.high[shown], color=colour, alpha=0.12, linewidth=0)
    axes.plot(curve.steps[shown], curve.mean[shown], "--", color=colour, linewidth=1.5, label=curve.label)
