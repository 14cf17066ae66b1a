"""The learning curves of an experiment as data for the page, whose script draws them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.reproduction.curves import CurveError, RunCurve, read_run
from acer_tf.reproduction.evidence import Evidence
from acer_tf.reproduction.published import PublishedCurve, published_curves

_POINTS = 60  # of a curve: more than its pixels can show would make the page heavy


def page_curves(evidence: Evidence, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """By task, a curve per method, the published ones last: label, method, seeds (0 if published), and its points.

    Ours: mean of the last 100 episodes, and the range over seeds. A run that cannot be read is left out: the cells say
    so.
    """
    runs: dict[str, dict[str, list[RunCurve]]] = {}
    for cell in evidence.cells:
        place = folder / "runs" / cell.name
        # What a link leads to elsewhere is not shown.
        if cell.steps and (place / "progress.csv").resolve().is_relative_to(folder.resolve()):
            try:
                run = read_run(place)
            except CurveError:
                continue
            runs.setdefault(cell.env, {}).setdefault(cell.method, []).append(run)
    found = {}
    for env, by_method in runs.items():
        ours = [_ours(label, of) for label, of in by_method.items()]
        found[env] = [*filter(None, ours), *map(_published, published_curves(env))]
    return found


def _ours(label: str, runs: Sequence[RunCurve]) -> dict[str, Any] | None:
    known = [(run.steps[ended], run.mean_return[ended]) for run in runs if (ended := ~np.isnan(run.mean_return)).any()]
    if not known:
        return None
    steps = np.linspace(max(x[0] for x, _ in known), min(x[-1] for x, _ in known), _POINTS)
    values = np.array([np.interp(steps, x, y) for x, y in known])
    return _curve(label, label, len(known), steps, values.mean(0), values.min(0), values.max(0))


def _published(curve: PublishedCurve) -> dict[str, Any]:
    places = np.unique(np.linspace(0, len(curve.steps) - 1, _POINTS).astype(int))
    columns = (values[places] for values in (curve.steps, curve.mean, curve.low, curve.high))
    return _curve(curve.label, curve.method, 0, *columns)


def _curve(label: str, method: str, seeds: int, *columns: np.ndarray) -> dict[str, Any]:
    known = np.isfinite(columns).all(axis=0)  # JSON has no NaN
    numbers = ([float(f"{value:.4g}") for value in column[known]] for column in columns)
    of_curve = zip(("x", "y", "low", "high"), numbers, strict=True)
    return {"label": label, "method": method, "seeds": seeds, **dict(of_curve)}
