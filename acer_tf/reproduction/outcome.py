"""What has come of an experiment: the curves of its cells, by method and task."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from acer_tf.reproduction.curves import CurveError, RunCurve, read_run
from acer_tf.reproduction.evidence import CellEvidence, EvidenceError


class Outcome:
    """The cells of an experiment and the curves of those that have begun.

    Args:
        cells: all of them.
        folder: the experiment's, with runs/.

    Raises:
        EvidenceError: a curve cannot be read.
    """

    def __init__(self, cells: Iterable[CellEvidence], folder: Path) -> None:
        self.cells = tuple(cells)
        self.methods = tuple(dict.fromkeys(cell.method for cell in self.cells))
        self.envs = tuple(dict.fromkeys(cell.env for cell in self.cells))
        self._runs: dict[tuple[str, str], list[RunCurve]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            if cell.steps:
                try:
                    run = read_run(folder / "runs" / cell.name)
                except CurveError as error:
                    raise EvidenceError(f"{error}: remove that folder, or bring it back") from error
                self._runs.setdefault((cell.method, cell.env), []).append(run)

    def runs(self, method: str, env: str) -> list[RunCurve]:
        """By seed; empty where none has a row yet."""
        return self._runs.get((method, env), [])

    def by_env(self, method: str) -> dict[str, list[RunCurve]]:
        """The tasks in which the method has begun."""
        return {env: runs for env in self.envs if (runs := self.runs(method, env))}

    def by_method(self, env: str) -> dict[str, list[RunCurve]]:
        """The methods that have begun in a task."""
        return {method: runs for method in self.methods if (runs := self.runs(method, env))}

    def finished(self, method: str, env: str | None = None) -> str:
        """Finished cells of a method, in one task or all: "3 of 4"."""
        cells = [cell for cell in self.cells if cell.method == method and env in (None, cell.env)]
        states = [cell.state == "finished" for cell in cells]
        return f"{sum(states)} of {len(states)}"
