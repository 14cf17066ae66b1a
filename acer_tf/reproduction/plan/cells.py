"""The cells of a planned sweep as they stand now."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from acer_tf import envs
from acer_tf.reproduction.plan.work import Work, work_left
from acer_tf.reproduction.sweep.cells import Cell
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.reproduction.sweep.launcher import memory_of
from acer_tf.settings import Settings
from acer_tf.types import EnvironmentSpec


class PlannedCell(NamedTuple):
    """A cell, and what is there of it."""

    folder: CellFolder
    settings: Settings  # resolved, as an earlier attempt did where there was one
    spec: EnvironmentSpec
    finished: bool
    work: Work  # that is left
    memory: int  # bytes that its process needs


def planned(cells: Sequence[Cell], sweep_dir: Path) -> list[PlannedCell]:
    """Looks at every cell's folder; writes nothing.

    Raises:
        SweepError: a cell's environment cannot be used, or does not suit its agent.
    """
    memory = memory_of(cells)
    from acer_tf.training.build import resolve  # see launcher.memory_of

    specs: dict[tuple[str, str], EnvironmentSpec] = {}
    found = []
    for cell, needed in zip(cells, memory, strict=True):
        key = cell.settings.env, cell.settings.atari_preset
        if key not in specs:
            specs[key] = envs.spec(key[0], atari_preset=key[1])
        folder = CellFolder(sweep_dir / "cells" / cell.name, cell)
        settings = resolve(dataclasses.replace(cell.settings, **folder.decided()), specs[key])
        finished = folder.finished
        work = Work(0, 0) if finished else work_left(settings, folder.latest()[0])
        found.append(PlannedCell(folder, settings, specs[key], finished, work, needed))
    return found
