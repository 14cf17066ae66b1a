"""The report of a figure: tables, as CSV for programs and as Markdown for people, and drawings; and their files."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from acer_tf.files import write_whole
from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.report.figures import save


@dataclasses.dataclass(frozen=True)
class Table:
    """Text by cell."""

    caption: str  # with units and protocol
    head: Sequence[str]  # names of the columns
    rows: Sequence[Sequence[str]]  # each as long as the head

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"{len(self.head)} columns, but a row of {len(row)} cells: {list(row)}")


def write_table(table: Table, folder: Path, name: str) -> None:
    """Writes <name>.csv and <name>.md."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([table.head, *table.rows])
    write_whole(folder / f"{name}.csv", lines.getvalue())
    write_whole(folder / f"{name}.md", markdown(table) + "\n")


def markdown(table: Table) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (table.head, *table.rows)]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + " --- |" * len(table.head), *lines[1:]])


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure and the text below it."""

    caption: str
    figure: Figure


@dataclasses.dataclass(frozen=True)
class Report:
    """Tables and figures by file name; the first of each is called "table" and "figure"."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Drawing]


def write_report(evidence: Evidence, report: Report, folder: Path) -> None:
    """Writes tables and figures, then experiment.json, which names them."""
    for name, table in report.tables.items():
        write_table(table, folder, name)
    for name, drawing in report.figures.items():
        save(drawing.figure, folder, name)
    tables = {name: table.caption for name, table in report.tables.items()}
    figures = {name: drawing.caption for name, drawing in report.figures.items()}
    write_evidence(folder, dataclasses.replace(evidence, tables=tables, figures=figures))


def number(value: float | None, digits: int = 2) -> str:
    """Empty for None and NaN."""
    return "" if value is None or np.isnan(value) else f"{value:z,.{digits}f}"


def numbers(values: Sequence[float]) -> str:
    """A list of numbers, with a dash for NaN."""
    return ", ".join(number(value) or "–" for value in values)


def mean_with_error(mean: float, error: float) -> str:
    """ "12.00 ± 0.50"; a NaN is left out, as the error of one seed."""
    return number(mean) + ("" if np.isnan(error) or np.isnan(mean) else f" ± {error:,.2f}")


def difference(ours: float, published: float | None) -> str:
    """Ours less theirs, with its sign."""
    gap = np.nan if published is None else ours - published
    return "" if np.isnan(gap) else f"{gap:+z,.2f}"
