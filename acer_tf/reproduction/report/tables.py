"""Tables as CSV for programs and as Markdown for people."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from acer_tf.files import write_whole


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
