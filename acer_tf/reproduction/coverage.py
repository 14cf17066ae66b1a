"""How much of a figure or table the recorded runs are, and which of their settings are not the figure's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.figure import Figure
from acer_tf.settings.presets import PRESETS
from acer_tf.settings.record import DEFAULTS, jsonable

_OF_LENGTH = ("total_steps", "log_interval")


class Coverage(NamedTuple):
    """The share of a whole reproduction that has begun."""

    runs: int
    whole_runs: int
    least: float  # share of its steps that the shortest run has done, 1 is all; 0 if none has begun
    most: float  # the same of the longest run
    altered: tuple[str, ...] = ()  # settings that are not the figure's: "with gamma=0.5", "2 of them with ..."

    @property
    def is_whole(self) -> bool:
        return self.runs == self.whole_runs and self.least >= 0.99 and not self.altered

    def __str__(self) -> str:
        if not self.runs:
            return f"none of {self.whole_runs} runs"
        low, high = (f"{min(100.0, 100 * share):.{0 if share > 0.1 else 1}f} %" for share in (self.least, self.most))
        steps = low if low == high else f"{low} to {high}"
        return "; ".join([f"{self.runs} of {self.whole_runs} runs, {steps} of their steps", *self.altered])


def coverage(figure: Figure, cells: Collection[Cell]) -> Coverage | None:
    """How much of a figure its cells are; None if some are of a search, or of methods that the figure does not have."""
    whole = figure.whole
    if not {(cell.method, cell.draw) for cell in cells} <= {(method, draw) for method, draw, *_ in whole}:
        return None
    begun = [cell for cell in cells if cell.steps and cell.place in whole]
    shares = [cell.steps / whole[cell.place].total_steps for cell in begun]
    return Coverage(len(shares), len(whole), min(shares, default=0.0), max(shares, default=0.0), altered(begun, whole))


def altered(cells: Collection[Cell], whole: Mapping[tuple[str, int | None, str, int], Cell]) -> tuple[str, ...]:
    """The settings of cells that are not those of the cell in the same place of `whole`, length aside."""
    found: Counter[str] = Counter()
    for cell in cells:
        known = whole[cell.place].settings if cell.place in whole else {}
        here = {**DEFAULTS, **cell.settings}
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
