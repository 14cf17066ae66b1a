"""Reads this package's data files, and suggests a known name for an unknown one."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Sequence
from importlib import resources

import numpy as np

Rows = list[dict[str, str]]


def read_table(name: str, **wanted: str) -> Rows:
    """Reads the rows of data/`name` that have the `wanted` cells, by column.

    "#" lines above the names of the columns state protocol and source.
    """
    text = (resources.files("acer_tf.reproduction") / "data" / name).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return [row for row in rows if all(row[column] == cell for column, cell in wanted.items())]


def grouped(rows: Rows, *columns: str) -> dict[tuple[str, ...], Rows]:
    """Groups rows by their cells in `columns`, in the order of the file."""
    found: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in columns), []).append(row)
    return found


def numbers(rows: Rows, columns: Sequence[str]) -> list[np.ndarray]:
    """Converts each of `columns` to [P] float64."""
    return [np.array([float(row[column]) for row in rows]) for column in columns]


def between(x: float, points: np.ndarray, values: np.ndarray) -> float:
    """Interpolates linearly at `x`; NaN outside `points`, but the last value up to 1 % after them, where runs end."""
    if points[-1] < x <= 1.01 * points[-1]:
        return float(values[-1])
    return float(np.interp(x, points, values, left=np.nan, right=np.nan))


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: "; did you mean Pong?", or "" if no known name is close."""
    near = difflib.get_close_matches(name, list(known))
    return f"; did you mean {' or '.join(near)}?" if near else ""
