"""Reads this package's data files, and suggests the known name for one that is not in them."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Sequence
from importlib import resources

import numpy as np


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of data/`name`; the lines before its column names start with "#" and say protocol and source."""
    text = (resources.files("acer_tf.reproduction") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def numbers(rows: Sequence[dict[str, str]], column: str) -> np.ndarray:
    """One column as [P] float64."""
    return np.array([float(row[column]) for row in rows])


def between(x: float, points: np.ndarray, values: np.ndarray) -> float:
    """The value at `x`, linear between `points`; the last one up to 1 % behind them, for runs end a little late."""
    if points[-1] < x <= 1.01 * points[-1]:
        return float(values[-1])
    return float(np.interp(x, points, values, left=np.nan, right=np.nan))


def suggestion(name: str, known: Iterable[str]) -> str:
    """How an error message goes on: "; did you mean Pong?", or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known))
    return f"; did you mean {' or '.join(near)}?" if near else ""
