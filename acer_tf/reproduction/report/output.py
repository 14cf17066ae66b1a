"""The report of an experiment, and the files that it is written to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.report.figures import save
from acer_tf.reproduction.report.tables import Table, write_table


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
