"""The evidence of a figure: a folder with the data of its tables and drawings.

<results>/<folder>/experiment.json      its description, and the progress and commit of each cell
<results>/<folder>/runs/<cell>/         the records of each cell that has started
<results>/<folder>/<table>.csv, .md     tables
<results>/<folder>/<drawing>.png, .svg  drawings

Tables and figures can be regenerated from the folder alone.
"""

import contextlib
import dataclasses
import fcntl
import itertools
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from acer_tf.errors import EvidenceError, status_of
from acer_tf.files import read_json, remove_empty, write_json
from acer_tf.reproduction.cells import Cell, require_valid

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The content of experiment.json; raises ValueError for values of a wrong type, and names that are not of files."""

    name: str  # the name of the command that makes it
    title: str
    text: tuple[str, ...]  # paragraphs: what it reproduces, by what protocol, and how it differs
    command: str  # the command lines that made it
    cells: tuple[Cell, ...] = ()  # finished or not
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)  # for people, by method
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # what a search tried, what `curves` shows
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)  # captions by file name
    figures: Mapping[str, str] = dataclasses.field(default_factory=dict)  # captions by file name
    diagnostic: bool = False  # whether it is about this implementation, and no result; the page shows it last

    def __post_init__(self) -> None:
        require_valid(self, [*self.tables, *self.figures])

    def label(self, cell: Cell) -> str:
        """The label of a cell's method, which is the method itself if it has none."""
        return self.labels.get(cell.method, cell.method)


def read_evidence(folder: Path) -> Evidence | None:
    """The evidence in `folder`; None without experiment.json. Raises EvidenceError if that cannot be read."""
    path = folder / "experiment.json"
    try:
        document = read_json(path)
        if document.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        cells = tuple(Cell(**cell) for cell in document.pop("cells"))
        return Evidence(**document | {"text": tuple(document["text"]), "cells": cells})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"{path} cannot be read ({type(error).__name__} {error}): move it away") from error


def files_of(tables: Iterable[str], figures: Iterable[str]) -> list[str]:
    """The files of a report's tables and drawings."""
    names = [*itertools.product(tables, ("csv", "md")), *itertools.product(figures, ("png", "svg"))]
    return [f"{name}.{end}" for name, end in names]


def require_free(folder: Path, files: Iterable[str], flag: str = "output") -> None:
    """Raises EvidenceError if `folder`, which holds no evidence, has one of the files of a report."""
    for file in files:
        if os.path.lexists(folder / file):
            raise EvidenceError(f"--{flag}={folder} has a {file} but no experiment.json: choose another folder")


def own_evidence(
    folder: Path,
    name: str,
    flag: str = "output",
    *,
    tables: Iterable[str] = ("table",),
    figures: Iterable[str] = ("figure",),
) -> Evidence | None:
    """`read_evidence` of the folder that `flag` names, for a report that has these tables and drawings at least.

    Raises:
        EvidenceError: also if it is not of experiment `name`, or if files are there that a report would replace.
    """
    known = read_evidence(folder)
    if known is not None and known.name != name:
        raise EvidenceError(f"--{flag}={folder} holds the evidence of {known.name}: choose another")
    if known is None:
        require_free(folder, files_of(tables, figures), flag)
    return known


def require_folder(folder: Path, flag: str = "output") -> list[Path]:
    """Creates the folder that `flag` names if needed; raises EvidenceError if it is not writable.

    Returns the folders that it made, innermost first.
    """
    made: list[Path] = []
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remove_empty(made)
        failure = EvidenceError(f"--{flag}={folder} is not writable ({error.strerror}); choose another")
        failure.status = status_of(error)
        raise failure from error
    return made


def file_name(text: str) -> str:
    """`text` with "_" for all but letters and digits."""
    return "".join(c if c.isalnum() else "_" for c in text)


def write_evidence(folder: Path, evidence: Evidence) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "experiment.json", {"format": FORMAT, **dataclasses.asdict(evidence)})


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Excludes other processes that add to the evidence in `folder`: each writes what it read before and its own."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with contextlib.suppress(OSError):  # nobody reads it
                    print(f"waiting for another process that writes to {folder}", file=sys.stderr, flush=True)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
