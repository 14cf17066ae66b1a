"""An experiment: its methods and tasks, which make its cells, and what is shown of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acer_tf.reproduction.curves import CurveError, RunCurve, read_run
from acer_tf.reproduction.report.evidence import CellEvidence, Evidence, EvidenceError, write_evidence
from acer_tf.reproduction.report.tables import Table, write_table
from acer_tf.reproduction.sweep.cells import Cell
from acer_tf.settings import make_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of progress.csv in a whole run.
_LOG_ROWS = 50
_LONGEST_INTERVAL = 20_000


@dataclasses.dataclass(frozen=True)
class Method:
    """A curve or a column.

    Attributes:
        label: for people: "ACER, replay 4".
        settings: flags of `acer_tf train`, without task, seed and length.
        total_steps: agent steps of a whole run; where they are given by task, there are no runs in others.
        draws: where it is a search over settings, what each of its runs has over `settings`, its seed too.
    """

    label: str
    settings: Mapping[str, Any]
    total_steps: int | Mapping[str, int]
    draws: tuple[Mapping[str, Any], ...] = ()

    def variants(self) -> list[Method]:
        """One for each draw, numbered from 0, or the method itself."""
        if not self.draws:
            return [self]
        return [
            Method(f"{self.label}, draw {number}", {**self.settings, **draw}, self.total_steps)
            for number, draw in enumerate(self.draws)
        ]

    def steps(self, env: str) -> int | None:
        """Of a whole run in `env`; None where there is none."""
        return self.total_steps if isinstance(self.total_steps, int) else self.total_steps.get(env)


def make_cells(
    methods: Iterable[Method],
    envs: Sequence[str],
    seeds: int,
    *,
    total_steps: int | None = None,
    over: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """Every method in every task: all of the first seed, then all of the next, so that a part of them says most.

    Args:
        methods: of the experiment.
        envs: ids of the tasks.
        seeds: 0 to this − 1.
        total_steps: of every run, instead of its method's.
        over: settings of every run, over its method's.

    Raises:
        SettingsError: settings that cannot be.
    """
    cells = []
    methods = [variant for method in methods for variant in method.variants()]
    for seed in range(seeds):
        for env in envs:
            for method in methods:
                if (whole := method.steps(env)) is None:
                    continue
                steps = total_steps or whole
                interval = max(1, min(_LONGEST_INTERVAL, steps // _LOG_ROWS))
                given = {"env": env, "seed": seed, "total_steps": steps, "log_interval": interval}
                cells.append(Cell(method.label, make_settings({**given, **method.settings, **(over or {})})))
    return cells


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


@dataclasses.dataclass(frozen=True)
class Drawing:
    caption: str
    figure: Figure


@dataclasses.dataclass(frozen=True)
class Report:
    """What is shown, by file name; the first of each is called "table" and "figure"."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Drawing]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Attributes:
        name: of its script and its results.
        title: for people.
        sweep: name of the sweep that its cells belong to: experiments of one sweep share the cells that they share.
        text: paragraphs: what it reproduces, by what protocol, how it differs.
        envs: ids of its tasks.
        methods: by the name that --agents takes.
        seeds: of a whole reproduction.
        report: makes tables and figures of what there is.
    """

    name: str
    title: str
    sweep: str
    text: tuple[str, ...]
    envs: tuple[str, ...]
    methods: Mapping[str, Method]
    seeds: int
    report: Callable[[Outcome], Report]


def write_report(evidence: Evidence, report: Report, folder: Path) -> None:
    """Tables and figures, then experiment.json, which names them."""
    from acer_tf.reproduction.report.figures import save

    for name, table in report.tables.items():
        write_table(table, folder, name)
    for name, drawing in report.figures.items():
        save(drawing.figure, folder, name)
    tables = {name: table.caption for name, table in report.tables.items()}
    figures = {name: drawing.caption for name, drawing in report.figures.items()}
    write_evidence(folder, dataclasses.replace(evidence, tables=tables, figures=figures))
