"""The lines that a sweep prints: its progress now and then, and at the end which cells are missing."""

from __future__ import annotations

import collections
import datetime
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from acer_tf.reproduction.sweep.folder import CellFolder

State = Literal["waiting", "running", "finished", "failed"]
_WINDOW_SECONDS = 600.0  # over which the rate is measured; cells write rows at irregular intervals
_NAMED = 4  # cells in a line of progress


class SweepProgress:
    """Follows steps, rate and time left of all cells."""

    def __init__(self, cells: Sequence[CellFolder]) -> None:
        self._cells = cells
        self._steps: dict[str, int] = {}
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def line(self, states: Mapping[str, State]) -> str:
        """One line: cells by state, steps, rate, time left, and the mean returns of running cells; `states` by name."""
        returns, left, total = [], 0, 0
        for folder in self._cells:
            name, whole, state = folder.cell.name, folder.cell.total_steps, states[folder.cell.name]
            if state == "finished":
                self._steps[name] = whole
            elif state == "running" or name not in self._steps:
                steps, mean_return = folder.latest()
                self._steps[name] = min(steps, whole)
                if state == "running" and mean_return is not None:
                    returns.append(f"{folder.cell.label}: {mean_return:.2f}")
            total += whole
            left += whole - self._steps[name] if state in ("running", "waiting") else 0
        now, done = time.monotonic(), sum(self._steps.values())
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        # A run that resumes from its checkpoint loses steps.
        rate = max(0, done - before) / (now - then) if now > then else 0.0
        count = collections.Counter(states.values())
        return "  ".join(
            [
                f"{count['finished']}/{len(self._cells)} done, {count['running']} running, {count['failed']} failed, "
                f"{count['waiting']} waiting",
                f"{100 * done / total:.1f} %",
                f"{done:,}/{total:,} steps",
                f"{rate:,.0f} steps/s",
                f"{datetime.timedelta(seconds=round(left / rate)) if rate else '?'} left",
                *returns[:_NAMED],
                *([f"and {len(returns) - _NAMED} more"] if len(returns) > _NAMED else []),
            ]
        )


def table_of_missing(
    cells: Sequence[CellFolder], states: Mapping[str, State], reasons: Mapping[str, str], otherwise: str
) -> list[str]:
    """Lists the cells that are not finished, and why; a cell without a reason of its own has that of `otherwise`."""
    rows = [("cell", "state", "steps", "reason")]
    for folder in cells:
        if (state := states[folder.cell.name]) != "finished":
            steps = folder.latest()[0]
            shown = "failed" if state == "failed" else "interrupted" if steps else "not begun"
            reason = reasons.get(folder.cell.name) or otherwise
            rows.append((folder.cell.label, shown, f"{steps:,}/{folder.cell.total_steps:,}", reason))
    if len(rows) == 1:
        return [f"all {len(cells)} cells are finished"]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"{len(rows) - 1} of {len(cells)} cells are missing:",
        *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows),
        "the same command continues them; cells/*/logs/ holds their output",
    ]
