"""Cells whose curves are known: what reports are tested on."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path

from acer_tf.files import write_json
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.collecting import describe
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.evidence import Evidence, read_evidence, write_evidence
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.verdicts import verdicts

COLUMNS = ("steps", "seconds", "episodes", "mean_return", "interval_return")


def write_run(folder, settings, returns, *, finished=True):
    """Ten episodes an interval, each of the return given for it; a thousand steps a second."""
    folder.mkdir(parents=True, exist_ok=True)
    interval = settings["total_steps"] // len(returns) if finished else settings["total_steps"] // 10
    write_json(
        folder / "run.json", {"format": 1, "settings": settings, "finished": finished, "commit": "c0ffee" * 6 + "c0ff"}
    )
    with (folder / "progress.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for n, value in enumerate(returns, 1):
            writer.writerow([n * interval, n * interval / 1000, 10 * n, value, value])
    return folder


def outcome(folder, methods, cells, returns):
    """The `RecordedRuns` of `cells`; `returns(cell)` gives the returns of its intervals, None if it has not begun."""
    evidence = []
    for cell in cells:
        if (values := returns(cell)) is None:
            evidence.append(cell)
            continue
        write_run(folder / "runs" / cell.name, dict(cell.settings), values)
        evidence.append(describe(folder / "runs" / cell.name, cell.name, cell.method, cell.draw))
    return RecordedRuns(methods, evidence, folder)


def row_of(table, *first):
    """The row that begins with `first`, by column name."""
    (row,) = [row for row in table.rows if tuple(row[: len(first)]) == first]
    return dict(zip(table.head, row, strict=True))


FIVE = ("atari/Breakout", "atari/Seaquest", "atari/Qbert", "atari/Pong", "atari/Alien")


def record(
    results: Path,
    name: str,
    envs: tuple[str, ...],
    value: Callable[[Cell], float | list[float] | None],
    *,
    seeds: int = 1,
    total_steps: int = 1_000_000,
) -> None:
    """Evidence of an experiment, each run at one return throughout, or at those given."""
    experiment = figures()[name]
    cells = make_cells(experiment.methods, envs, seeds, total_steps=total_steps)
    made = outcome(results / name, experiment.methods, cells, lambda cell: _ten(value(cell)))
    write_evidence(results / name, Evidence(name, experiment.title, (), "command", made.cells))


def _ten(value: float | list[float] | None) -> list[float] | None:
    return value if value is None or isinstance(value, list) else [value] * 10


def cut(results: Path, name: str, method: str, rows: int, *, seed: int | None = None, state: str = "finished") -> None:
    """Leaves the first rows of a method's runs, of one seed or all, as of a sweep under way."""
    evidence = read_evidence(results / name)
    assert evidence is not None
    cells = []
    for cell in evidence.cells:
        path = results / name / "runs" / cell.name / "progress.csv"
        if cell.method == method and seed in (None, cell.seed):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[: rows + 1]))
            cell = dataclasses.replace(cell, steps=rows * cell.steps // 10, state=state)
        cells.append(cell)
    write_evidence(results / name, dataclasses.replace(evidence, cells=tuple(cells)))


def row(results: Path, source: str, text: str) -> dict[str, str]:
    table = verdicts(results)
    (found,) = [row for row in table.rows if row[0] == source and text in row[1]]
    return dict(zip(table.head, found, strict=True))
