"""The learning curves that a figure has so far, by method and task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from acer_tf.errors import CurveError, EvidenceError
from acer_tf.reproduction.aggregation import final_return, reached
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RunCurve, read_run
from acer_tf.reproduction.figure import Method


class RecordedRuns:
    """The cells of a figure, and the curves of those that have begun.

    Args:
        methods: of the figure, by key; every cell is of one of them. As an attribute, those that have cells.
        cells: all of them; the attribute `envs` has the ids of their tasks.
        folder: of the figure's results, with runs/.

    Raises:
        EvidenceError: a curve cannot be read.
    """

    def __init__(self, methods: Mapping[str, Method], cells: Iterable[Cell], folder: Path) -> None:
        self.cells = tuple(cells)
        self.methods = {key: m for key, m in methods.items() if any(cell.method == key for cell in self.cells)}
        self.envs = tuple(dict.fromkeys(cell.env for cell in self.cells))
        self._runs: dict[tuple[str, str], list[RunCurve]] = {}
        self._draws: dict[tuple[str, str], list[int | None]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            if cell.steps:
                try:
                    run = read_run(folder / "runs" / cell.name)
                except CurveError as error:
                    raise EvidenceError(f"{error}: remove that folder, or bring it back") from error
                self._runs.setdefault((cell.method, cell.env), []).append(run)
                self._draws.setdefault((cell.method, cell.env), []).append(cell.draw)

    def runs(self, method: str, env: str) -> list[RunCurve]:
        """The runs of a method in a task that have a row, by seed."""
        return self._runs.get((method, env), [])

    def draws(self, method: str, env: str) -> list[int | None]:
        """The number of the draw of each of these runs."""
        return self._draws.get((method, env), [])

    def by_env(self, method: str) -> dict[str, list[RunCurve]]:
        """The runs of a method, by the tasks in which it has begun."""
        return {env: runs for env in self.envs if (runs := self.runs(method, env))}

    def by_method(self, env: str) -> dict[str, list[RunCurve]]:
        """The runs in a task, by the methods that have begun there."""
        return {key: runs for key in self.methods if (runs := self.runs(key, env))}

    def by_label(self) -> dict[str, dict[str, list[RunCurve]]]:
        """The runs of every task, by the label of their method."""
        return {env: {self.methods[key].label: r for key, r in self.by_method(env).items()} for env in self.envs}

    def finished(self, method: str, env: str | None = None) -> str:
        """The count of finished cells of a method, in one task or all: "3 of 4"."""
        cells = [cell for cell in self.cells if cell.method == method and env in (None, cell.env)]
        return f"{sum(cell.state == 'finished' for cell in cells)} of {len(cells)}"

    def compared(
        self, env: str, methods: Sequence[str], score: Callable[[RunCurve], float] = final_return
    ) -> list[float]:
        """Each method's mean score over seeds where the shortest run of all ends; [] if one has no score yet."""
        runs = [self.runs(method, env) for method in methods]
        if not all(runs):
            return []
        steps = min(map(reached, runs), default=0.0)
        scores = [float(np.mean([score(run.until(steps)) for run in seeds])) for seeds in runs]
        return scores if np.isfinite(scores).all() else []
