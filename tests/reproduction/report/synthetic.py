"""Cells whose curves are known: what reports are tested on."""

import csv

from acer_tf.files import write_json
from acer_tf.reproduction.collecting import describe
from acer_tf.reproduction.curves import RecordedRuns

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
