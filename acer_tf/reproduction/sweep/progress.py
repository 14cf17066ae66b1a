"""The progress of a sweep, in one line."""

from __future__ import annotations

import collections
import datetime
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from acer_tf.reproduction.sweep.folder import CellFolder

State = Literal["waiting", "running", "finished", "failed"]
_WINDOW_SECONDS = 600.0  # over which the rate is measured; cells write rows at irregular intervals
_NAMED = 4


class SweepProgress:
    """Steps, rate and time left of all cells."""

    def __init__(self, cells: Sequence[CellFolder]) -> None:
        self._cells = cells
        self._steps: dict[str, int] = {}
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def line(self, states: Mapping[str, State]) -> str:
        """Counts of cells by state, steps, rate, time left, and the running cells' mean returns; `states` by name."""
        returns = {}
        for folder in self._cells:
            name, total = folder.cell.name, folder.cell.settings.total_steps
            if states[name] == "finished":
                self._steps[name] = total
            elif states[name] == "running" or name not in self._steps:
                steps, mean_return = folder.latest()
                self._steps[name] = min(steps, total)
                if states[name] == "running" and mean_return is not None:
                    returns[folder.cell.label] = mean_return
        done = sum(self._steps.values())
        total = sum(f.cell.settings.total_steps for f in self._cells)
        left = sum(
            f.cell.settings.total_steps - self._steps[f.cell.name]
            for f in self._cells
            if states[f.cell.name] in ("running", "waiting")
        )
        rate = self._rate(done)
        count = collections.Counter(states.values())
        parts = [
            f"{count['finished']}/{len(self._cells)} done, {count['running']} running, {count['failed']} failed, "
            f"{count['waiting']} waiting",
            f"{100 * done / total:.1f} %",
            f"{done:,}/{total:,} steps",
            f"{rate:,.0f} steps/s",
            f"{datetime.timedelta(seconds=round(left / rate)) if rate else '?'} left",
        ]
        parts += [f"{label}: {value:.2f}" for label, value in list(returns.items())[:_NAMED]]
        if len(returns) > _NAMED:
            parts.append(f"and {len(returns) - _NAMED} more")
        return "  ".join(parts)

    def _rate(self, done: int) -> float:
        now = time.monotonic()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        # A run that resumes from its checkpoint loses steps.
        return max(0, done - before) / (now - then) if now > then else 0.0
