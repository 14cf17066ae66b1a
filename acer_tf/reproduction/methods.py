"""The methods of an experiment, and the cells that methods, tasks and seeds make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from acer_tf.reproduction.cells import Cell
from acer_tf.settings import make_settings

_LOG_ROWS = 50  # by log_interval, of a whole run; fewer where an iteration is longer
_LONGEST_INTERVAL = 20_000  # steps
_DRAW = ", draw "  # between the label of a search and the number of its draw


@dataclasses.dataclass(frozen=True)
class Method:
    """A curve or a column."""

    label: str  # for people, and in the evidence: "ACER, replay 4"
    settings: Mapping[str, Any]  # flags of `acer_tf train`, without task, seed and length
    total_steps: int | Mapping[str, int]  # agent steps of a whole run; if given by task, other tasks are not run
    published: str = ""  # its name in the published data that it is compared with, if there are any
    draws: tuple[Mapping[str, Any], ...] = ()  # of a search: what each run sets over `settings`, its seed included

    def steps(self, env: str) -> int | None:
        """Of a whole run in `env`; None if it is not run there."""
        return self.total_steps if isinstance(self.total_steps, int) else self.total_steps.get(env)


def variants(methods: Mapping[str, Method]) -> dict[str, Method]:
    """`methods` by name, a search replaced by its draws: "acer_draw0", "acer_draw1", ..."""
    found = {}
    for name, method in methods.items():
        for number, draw in enumerate(method.draws):
            settings = {**method.settings, **draw}
            label = f"{method.label}{_DRAW}{number}"
            found[f"{name}_draw{number}"] = dataclasses.replace(method, label=label, settings=settings, draws=())
        if not method.draws:
            found[name] = method
    return found


def label_of_search(label: str) -> str | None:
    """The label of the search of which `label` is a draw's; None if it is a method's."""
    method, separator, _ = label.rpartition(_DRAW)
    return method if separator else None


def names_by_label(methods: Mapping[str, Method]) -> dict[str, str]:
    """The names in `variants(methods)` by label: evidence knows labels alone."""
    return {method.label: name for name, method in variants(methods).items()}


def make_cells(
    methods: Mapping[str, Method],
    envs: Sequence[str],
    seeds: int,
    *,
    total_steps: int | None = None,
    over: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """Every method in every task: the first seed of all, then the next, so that the first cells say the most.

    `total_steps` and the settings `over` are of every run, instead of its method's.

    Raises:
        SettingsError: invalid settings.
    """
    cells = []
    for seed in range(seeds):
        for env in envs:
            for method in variants(methods).values():
                if (whole := method.steps(env)) is None:
                    continue
                steps = total_steps or whole
                interval = max(1, min(_LONGEST_INTERVAL, steps // _LOG_ROWS))
                given = {"env": env, "seed": seed, "total_steps": steps, "log_interval": interval}
                cells.append(Cell.asked(method.label, make_settings({**given, **method.settings, **(over or {})})))
    return cells
