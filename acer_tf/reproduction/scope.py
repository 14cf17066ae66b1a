"""How much of a figure or table the recorded runs are, and with which other settings."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from acer_tf.reproduction.catalogue import EXPERIMENTS
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.methods import make_cells
from acer_tf.settings.presets import PRESETS
from acer_tf.settings.record import DEFAULTS, jsonable

Place = tuple[str, int | None, str, int]  # method, draw, task, seed
_OF_LENGTH = ("total_steps", "log_interval")


class Scope(NamedTuple):
    """Runs of an experiment's whole that have begun, and the shares of their steps."""

    runs: int
    whole_runs: int
    least: float  # of the shortest, 1 is all; 0 if none has begun
    most: float
    altered: tuple[str, ...] = ()  # settings that are not the experiment's: "with gamma=0.5", "2 of them with ..."

    @property
    def is_whole(self) -> bool:
        return self.runs == self.whole_runs and self.least >= 0.99 and not self.altered

    def __str__(self) -> str:
        if not self.runs:
            return f"none of {self.whole_runs} runs"
        low, high = (f"{min(100.0, 100 * share):.{0 if share > 0.1 else 1}f} %" for share in (self.least, self.most))
        steps = low if low == high else f"{low} to {high}"
        return "; ".join([f"{self.runs} of {self.whole_runs} runs, {steps} of their steps", *self.altered])


def scope(name: str, cells: Iterable[Cell]) -> Scope | None:
    """That of the cells of an experiment; None if `name` is not in the catalogue, or they are those of a search."""
    if name not in EXPERIMENTS:
        return None
    cells, whole = list(cells), _whole(name)
    if not {cell.method for cell in cells} <= {method for method, *_ in whole}:
        return None
    begun = [cell for cell in cells if cell.steps and cell.place in whole]
    shares = [cell.steps / whole[cell.place]["total_steps"] for cell in begun]
    least, most = min(shares, default=0.0), max(shares, default=0.0)
    return Scope(len(shares), len(whole), least, most, altered(begun, whole))


def altered(cells: Collection[Cell], whole: Mapping[Place, Mapping[str, Any]]) -> tuple[str, ...]:
    """The settings of cells that are not those of their places in `whole`, length aside."""
    found: Counter[str] = Counter()
    for cell in cells:
        known, here = whole.get(cell.place, {}), {**DEFAULTS, **cell.settings}
        differing = {
            name: here.get(name)
            for name, value in known.items()
            if name not in _OF_LENGTH and value not in ("auto", here.get(name))
        }
        if "preset" in differing:  # its name says what it changes
            given = DEFAULTS | jsonable(PRESETS.get(here["preset"], {})) | {"preset": None}
            differing = {name: value for name, value in differing.items() if given.get(name) != value}
        found.update(f"{name}={value}" for name, value in differing.items())
    groups: dict[int, list[str]] = {}
    for setting, count in sorted(found.items()):
        groups.setdefault(count, []).append(setting)
    runs = {count: "" if count == len(cells) else f"{count} of them " for count in groups}
    return tuple(f"{runs[count]}with {', '.join(group)}" for count, group in groups.items())


def by_place(cells: Iterable[Cell]) -> dict[Place, dict[str, Any]]:
    """The settings of an experiment's cells, by method, task and seed."""
    return {cell.place: cell.settings for cell in cells}


@functools.cache
def _whole(name: str) -> Mapping[Place, Mapping[str, Any]]:
    experiment = EXPERIMENTS[name]
    return by_place(make_cells(experiment.methods, experiment.envs, experiment.seeds))
