"""Reads this package's data files, and suggests a known name for an unknown one."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Sequence
from importlib import resources

import numpy as np


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of data/`name`, without the "#" lines above the column names, which state protocol and source."""
    text = (resources.files("acer_tf.reproduction") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def numbers(rows: Sequence[dict[str, str]], column: str) -> np.ndarray:
    """A column as [P] float64."""
    return np.array([float(row[column]) for row in rows])


def between(x: float, points: np.ndarray, values: np.ndarray) -> float:
    """Linear interpolation at `x`; NaN outside `points`, but the last value up to 1 % after, where runs end."""
    if points[-1] < x <= 1.01 * points[-1]:
        return float(values[-1])
    return float(np.interp(x, points, values, left=np.nan, right=np.nan))


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: "; did you mean Pong?", or "" if no known name is close."""
    near = difflib.get_close_matches(name, list(known))
    return f"; did you mean {' or '.join(near)}?" if near else ""
