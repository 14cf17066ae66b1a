"""How much of a figure or table the recorded runs are."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from acer_tf.reproduction.catalogue import EXPERIMENTS
from acer_tf.reproduction.evidence import CellEvidence
from acer_tf.reproduction.methods import make_cells


class Scope(NamedTuple):
    """Runs of an experiment's whole that have begun, and the shares of their steps."""

    runs: int
    whole_runs: int
    least: float  # of the shortest, 1 is all; 0 if none has begun
    most: float

    @property
    def is_whole(self) -> bool:
        return self.runs == self.whole_runs and self.least >= 0.99

    def __str__(self) -> str:
        if not self.runs:
            return f"none of {self.whole_runs} runs"
        low, high = (f"{min(100.0, 100 * share):.{0 if share > 0.1 else 1}f} %" for share in (self.least, self.most))
        steps = low if low == high else f"{low} to {high}"
        return f"{self.runs} of {self.whole_runs} runs, {steps} of their steps"


def scope(name: str, cells: Iterable[CellEvidence]) -> Scope | None:
    """That of the cells of an experiment; None if `name` is not in the catalogue, or they are those of a search."""
    if name not in EXPERIMENTS:
        return None
    cells, whole = list(cells), _whole(name)
    if not {cell.method for cell in cells} <= {method for method, _, _ in whole}:
        return None
    shares = [cell.steps / of for cell in cells if cell.steps and (of := whole.get(cell.place))]
    return Scope(len(shares), len(whole), min(shares, default=0.0), max(shares, default=0.0))


@functools.cache
def _whole(name: str) -> Mapping[tuple[str, str, int], int]:
    """Steps by method, task and seed."""
    experiment = EXPERIMENTS[name]
    cells = make_cells(experiment.methods, experiment.envs, experiment.seeds)
    return {(cell.method, cell.settings.env, cell.settings.seed): cell.settings.total_steps for cell in cells}
