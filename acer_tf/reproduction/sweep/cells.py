"""Cells: the independent runs that an experiment consists of."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from acer_tf.settings import Settings, changed, make_settings

# What a run decides for itself where it begins, by environment and machine.
DECIDED_BY_RUN = ("network", "precision")


class SweepError(RuntimeError):
    """A sweep that cannot be run as asked: the message names the flag or file, its value, and what would be right."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of an experiment.

    Attributes:
        method: the curve or column that it belongs to, for people: "ACER, replay 4".
        settings: everything that decides what it computes, and with that its folder.
    """

    method: str
    settings: Settings

    @property
    def label(self) -> str:
        return f"{self.method}, {self.settings.env}, seed {self.settings.seed}"

    @property
    def name(self) -> str:
        """Of its folder. The same settings have the same name, whatever script asks for them under whatever label."""
        settings = self.settings
        text = json.dumps(changed(settings), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{settings.env}-{settings.agent}").strip("-")
        return f"{slug}-seed{settings.seed}-{digest}"


def require_distinct(cells: Sequence[Cell]) -> None:
    """Refuses an empty list, and one with the same run twice.

    Raises:
        SweepError: names the cells.
    """
    if not cells:
        raise SweepError("no cells: the experiment's flags leave nothing to run")
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.name in seen:
            raise SweepError(f"'{seen[cell.name].label}' and '{cell.label}' have the same settings: name each run once")
        seen[cell.name] = cell


def flags_of(settings: Settings) -> list[str]:
    """The shortest flags of `acer_tf train` that give `settings`."""
    given: dict[str, Any] = {name: getattr(settings, name) for name in ("env", "agent", "preset", "seed")}
    given["total_steps"] = settings.total_steps
    base = make_settings(given)
    for field in dataclasses.fields(Settings):
        value = getattr(settings, field.name)
        if value != getattr(base, field.name):
            given[field.name] = value
    return [
        f"--{'' if value else 'no'}{name}" if isinstance(value, bool) else f"--{name}={value}"
        for name, value in given.items()
    ]
