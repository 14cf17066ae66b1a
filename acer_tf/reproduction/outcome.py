"""The results of an experiment so far: the curves of its cells, by method and task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from acer_tf.errors import CurveError, EvidenceError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RunCurve, read_run
from acer_tf.reproduction.methods import Method, names_by_label, variants


class Outcome:
    """The cells of an experiment, and the curves of those that have begun.

    Args:
        methods: of the experiment, by name; every cell is of one of them, or of a draw of one. As an attribute: those
            with cells, in the experiment's order; of a search, its draws.
        cells: all of them; `envs` are the ids of their tasks.
        folder: the experiment's, with runs/.

    Raises:
        EvidenceError: a curve cannot be read.
    """

    def __init__(self, methods: Mapping[str, Method], cells: Iterable[Cell], folder: Path) -> None:
        self.cells = tuple(cells)
        self._names = names_by_label(methods)
        shown = {self._names[cell.method] for cell in self.cells}
        self.methods = {name: method for name, method in variants(methods).items() if name in shown}
        self.envs = tuple(dict.fromkeys(cell.env for cell in self.cells))
        self._runs: dict[tuple[str, str], list[RunCurve]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            if cell.steps:
                try:
                    run = read_run(folder / "runs" / cell.name)
                except CurveError as error:
                    raise EvidenceError(f"{error}: remove that folder, or bring it back") from error
                self._runs.setdefault((self._names[cell.method], cell.env), []).append(run)

    def runs(self, name: str, env: str) -> list[RunCurve]:
        """Those of a method in a task that have a row, by seed."""
        return self._runs.get((name, env), [])

    def by_env(self, name: str) -> dict[str, list[RunCurve]]:
        """The tasks in which a method has begun."""
        return {env: runs for env in self.envs if (runs := self.runs(name, env))}

    def by_method(self, env: str) -> dict[str, list[RunCurve]]:
        """The methods that have begun in a task."""
        return {name: runs for name in self.methods if (runs := self.runs(name, env))}

    def by_label(self) -> dict[str, dict[str, list[RunCurve]]]:
        """The runs of every task, by the label of their method."""
        return {
            env: {self.methods[name].label: runs for name, runs in self.by_method(env).items()} for env in self.envs
        }

    def finished(self, name: str, env: str | None = None) -> str:
        """Finished cells of a method, in one task or all: "3 of 4"."""
        cells = [cell for cell in self.cells if self._names[cell.method] == name and env in (None, cell.env)]
        return f"{sum(cell.state == 'finished' for cell in cells)} of {len(cells)}"
