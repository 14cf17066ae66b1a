"""Cells: the independent runs of an experiment."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from acer_tf.errors import SweepError
from acer_tf.settings import Settings, make_settings
from acer_tf.settings.record import changed


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    method: str  # label of its curve or column: "ACER, replay 4"
    settings: Settings  # which also determine its folder

    @property
    def label(self) -> str:
        return f"{self.method}, {self.settings.env}, seed {self.settings.seed}"

    @property
    def name(self) -> str:
        """Of its folder: the same for the same settings, whatever the command and label."""
        settings = self.settings
        text = json.dumps(changed(settings), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{settings.env}-{settings.agent}").strip("-")
        return f"{slug}-seed{settings.seed}-{digest}"


def require_distinct(cells: Sequence[Cell]) -> None:
    """Raises SweepError without cells, or if two have the same settings."""
    if not cells:
        raise SweepError("no cells: the experiment's flags leave nothing to run")
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.name in seen:
            raise SweepError(f"'{seen[cell.name].label}' and '{cell.label}' have the same settings: give each run once")
        seen[cell.name] = cell


def flags_of(settings: Settings) -> list[str]:
    """The shortest flags of `acer_tf train` that give `settings`."""
    given: dict[str, Any] = {
        name: getattr(settings, name) for name in ("env", "agent", "preset", "seed", "total_steps")
    }
    base = make_settings(given)
    for field in dataclasses.fields(Settings):
        value = getattr(settings, field.name)
        if value != getattr(base, field.name):
            given[field.name] = value
    return [
        f"--{'' if value else 'no'}{name}" if isinstance(value, bool) else f"--{name}={value}"
        for name, value in given.items()
    ]
