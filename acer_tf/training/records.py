"""The records of a run, run.json and progress.csv: what is written at its beginning, and the one reader of both."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.settings import jsonable
from acer_tf.training.provenance import packages, provenance

# All that is published of a run; the last names what run.json has the hash of.
RECORDS = ("run.json", "progress.csv", "packages.txt")


class RecordError(ValueError):
    """A record that is missing or cannot be read: the message names the file and what is wrong."""


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """What run.json says, whatever version wrote it.

    Attributes:
        settings: as they were written; `settings_from` makes today's of them.
        finished: whether the run came to its end.
        commit: of the code that began it, "+changes" after it where the code differed; None where it is not known.
        machine: where it began: "host", "cores" and so on; empty in other records than a run's.
        threads: that it used: "emulators" and so on; empty in records from before they were recorded.
        document: everything.
    """

    settings: dict[str, Any]
    finished: bool
    commit: str | None
    machine: dict[str, Any]
    threads: dict[str, int]
    document: dict[str, Any]


def read_record(folder: Path) -> RunRecord:
    """The record in `folder`.

    Raises:
        RecordError: there is none, or it cannot be read.
    """
    path = folder / "run.json"
    if not path.exists():
        raise RecordError(f"{path} is missing")
    try:
        document = dict(json.loads(path.read_text()))
        return RunRecord(
            dict(document["settings"]),
            document.get("finished") is True,
            document.get("commit"),
            dict(document.get("machine", {})),
            dict(document.get("threads", {})),
            document,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path} cannot be read as a run's record ({error})") from error


def read_progress(folder: Path, size: int | None = None) -> dict[str, np.ndarray]:
    """The columns of the progress.csv in `folder`, also while a process writes there.

    Args:
        folder: the run's.
        size: bytes of the file that are whole rows and to be read; None for all, but for a last row that is not whole.

    Returns:
        By name, [P] float64, NaN for an empty cell; no columns where nothing has been written yet.

    Raises:
        RecordError: what there is is not a learning curve, or shorter than `size`.
    """
    path = folder / "progress.csv"
    try:
        content = path.read_bytes() if path.exists() else b""
        if size is not None and len(content) < size:
            raise ValueError(f"it has {len(content)} bytes, but had {size} at the last checkpoint")
        whole = content[:size] if size is not None else content[: content.rfind(b"\n") + 1]
        if whole and not whole.endswith(b"\n"):
            raise ValueError("its last line is cut")
        head, *lines = list(csv.reader(io.StringIO(whole.decode(), newline=""))) or [[]]
        if head and "steps" not in head:
            raise ValueError("its first line names no steps")
        columns = dict(zip(head, np.empty((len(head), len(lines))), strict=True))
        for row, line in enumerate(lines):
            try:
                for name, cell in zip(head, line, strict=True):
                    columns[name][row] = float(cell or "nan")
                if not columns["steps"][row] > (columns["steps"][row - 1] if row else 0):
                    raise ValueError("its steps do not grow")
            except ValueError as error:
                raise ValueError(f"line {row + 2}: {error}") from error
        return columns
    except (OSError, ValueError, csv.Error) as error:
        raise RecordError(f"{path} cannot be read as a learning curve ({error})") from error


def run_document(settings: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """What a run.json says: settings, details, and where, when, by which command and code it was made."""
    return {"settings": jsonable(settings), **details, **provenance()}


def begin_record(folder: Path, settings: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Writes packages.txt, and then run.json, which makes a run of the folder."""
    (folder / "packages.txt").write_text(packages())
    write_json(folder / "run.json", run_document(settings, details))


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes `path` whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n")
    partial.replace(path)
