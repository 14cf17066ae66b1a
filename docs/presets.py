"""Writes the table of docs/presets.md anew from the code: `python docs/presets.py` (`make docs`)."""

from __future__ import annotations

import math
from pathlib import Path

from acer_tf.settings import Settings, make_settings
from acer_tf.settings.declaration import declarations
from acer_tf.settings.presets import PRESETS, fitting_presets
from acer_tf.settings.rules import RULES

PAGE = Path(__file__).with_name("presets.md")
HEADING = "## Values\n"
_NOT_OF_PRESETS = ("env", "agent", "preset", "seed", "total_steps")


def table() -> str:
    """A row per setting, a column per preset; cells that are as in `baselines` stay empty."""
    agents = {preset: agent for agent in reversed(RULES) for preset in fitting_presets(agent)}
    columns = [
        make_settings(env="atari/Pong", agent=agents[preset], preset=preset, network="auto") for preset in PRESETS
    ]
    lines = [["setting", *PRESETS], ["---"] * (len(PRESETS) + 1)]
    for name in declarations(Settings):
        if name not in _NOT_OF_PRESETS:
            first, *others = (getattr(column, name) for column in columns)
            lines.append([f"`{name}`", _cell(first), *("" if value == first else _cell(value) for value in others)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page() -> str:
    """docs/presets.md as it should be."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEADING)
    note, _, _ = after.partition("| setting |")
    return before + HEADING + note + table()


def _cell(value: object) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:g}"
    return str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
