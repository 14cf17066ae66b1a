"""The methods of an experiment, and the cells that they and its tasks make."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acer_tf.reproduction.sweep.cells import Cell
from acer_tf.settings import make_settings

# Of progress.csv in a whole run.
_LOG_ROWS = 50
_LONGEST_INTERVAL = 20_000


@dataclasses.dataclass(frozen=True)
class Method:
    """A curve or a column.

    Attributes:
        label: for people: "ACER, replay 4".
        settings: flags of `acer_tf train`, without task, seed and length.
        total_steps: agent steps of a whole run; where they are given by task, there are no runs in others.
        draws: where it is a search over settings, what each of its runs has over `settings`, its seed too.
    """

    label: str
    settings: Mapping[str, Any]
    total_steps: int | Mapping[str, int]
    draws: tuple[Mapping[str, Any], ...] = ()

    def variants(self) -> list[Method]:
        """One for each draw, numbered from 0, or the method itself."""
        if not self.draws:
            return [self]
        return [
            Method(f"{self.label}, draw {number}", {**self.settings, **draw}, self.total_steps)
            for number, draw in enumerate(self.draws)
        ]

    def steps(self, env: str) -> int | None:
        """Of a whole run in `env`; None where there is none."""
        return self.total_steps if isinstance(self.total_steps, int) else self.total_steps.get(env)


def make_cells(
    methods: Iterable[Method],
    envs: Sequence[str],
    seeds: int,
    *,
    total_steps: int | None = None,
    over: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """Every method in every task: all of the first seed, then all of the next, so that a part of them says most.

    Args:
        methods: of the experiment.
        envs: ids of the tasks.
        seeds: 0 to this − 1.
        total_steps: of every run, instead of its method's.
        over: settings of every run, over its method's.

    Raises:
        SettingsError: settings that cannot be.
    """
    cells = []
    methods = [variant for method in methods for variant in method.variants()]
    for seed in range(seeds):
        for env in envs:
            for method in methods:
                if (whole := method.steps(env)) is None:
                    continue
                steps = total_steps or whole
                interval = max(1, min(_LONGEST_INTERVAL, steps // _LOG_ROWS))
                given = {"env": env, "seed": seed, "total_steps": steps, "log_interval": interval}
                cells.append(Cell(method.label, make_settings({**given, **method.settings, **(over or {})})))
    return cells
