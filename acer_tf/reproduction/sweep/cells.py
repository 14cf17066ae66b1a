"""What a sweep asks of cells, and the flags of `acer_tf train` that run one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from acer_tf.errors import SweepError
from acer_tf.reproduction.cells import Cell
from acer_tf.settings import Settings, make_settings


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
