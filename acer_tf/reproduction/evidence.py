"""The evidence of an experiment: a folder with the data of its tables and figures.

<results>/<experiment>/experiment.json      its description, and the progress and commit of each cell
<results>/<experiment>/runs/<cell>/         the records of each cell that has started
<results>/<experiment>/<table>.csv, .md     tables
<results>/<experiment>/<figure>.png, .svg   figures

Tables and figures can be regenerated from the folder alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from acer_tf.errors import CurveError, EvidenceError, RecordError, SettingsError
from acer_tf.files import is_damage, read_json, set_aside, write_whole
from acer_tf.reproduction.curves import NoRowsYet, read_run
from acer_tf.reproduction.sweep.cells import Cell
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.runs.records import RECORDS, read_record, write_json
from acer_tf.settings.record import differences, settings_document, settings_from
from acer_tf.training.resolve import DECIDED_BY_RUN

FORMAT = 1
CellState = Literal["finished", "interrupted", "not begun", "failed"]


@dataclasses.dataclass(frozen=True)
class CellEvidence:
    """What is known of one run; raises ValueError as `Evidence` does, because anyone may have written the file."""

    name: str  # its folder under runs/, which exists if it has a record
    method: str  # label of its curve or column
    settings: Mapping[str, Any]  # as in run.json; if the run has not started, as requested
    state: CellState = "not begun"  # "failed" if it was given up
    steps: int = 0  # agent steps done
    seconds: float = 0.0  # that these took
    mean_return: float | None = None  # of the last 100 episodes; None before the first has ended
    commit: str | None = None  # of the code that started it
    reason: str = ""  # why it is not finished, if known
    policy: str | None = None  # path of its SavedModel

    def __post_init__(self) -> None:
        _require_types(self)
        _require_names([self.name])
        try:
            numbers = self.seed, self.total_steps
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"the settings of {self.name} lack a value ({type(error).__name__} {error})") from error
        if self.env == "" or not all(_is_of(number, int) for number in numbers):
            raise ValueError(f"the settings of {self.name} have a value out of range")

    @property
    def env(self) -> str:
        return str(self.settings["env"])

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def total_steps(self) -> int:
        return int(self.settings["total_steps"])

    @property
    def place(self) -> tuple[str, str, int]:
        """Method, environment and seed, of which an experiment has one cell."""
        return self.method, self.env, self.seed


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The content of experiment.json; raises ValueError for values of a wrong type, and names that are not of files."""

    name: str  # of the experiment, or of the command that makes it
    title: str
    text: tuple[str, ...]  # paragraphs: what it reproduces, by what protocol, and how it differs
    command: str  # that makes it
    cells: tuple[CellEvidence, ...] = ()  # finished or not
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)  # captions by file name
    figures: Mapping[str, str] = dataclasses.field(default_factory=dict)  # captions by file name

    def __post_init__(self) -> None:
        _require_types(self)
        _require_names([*self.tables, *self.figures])


def _require_types(record: CellEvidence | Evidence) -> None:
    for name, kind in get_type_hints(type(record)).items():
        if not _is_of(value := getattr(record, name), kind):
            raise ValueError(f"its {name} cannot be {value!r:.60}")


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated type, and no integer is negative or too large to be printed or converted."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin is UnionType:
        return any(_is_of(value, each) for each in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_of(each, inner[0]) for each in value)
    if origin is not None:
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(_is_of(key, inner[0]) and _is_of(each, inner[1]) for key, each in pairs)
    if kind is int:
        return type(value) is int and 0 <= value < 2**63
    if kind is float:
        return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
    return kind is Any or isinstance(value, kind)


def _require_names(names: Iterable[str]) -> None:
    """Names become paths, which must not lead out of the experiment's folder."""
    for name in names:
        if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(name.encode()) > 200:
            raise ValueError(f"{name!r:.60} cannot be the name of a file in it")


def read_evidence(folder: Path) -> Evidence | None:
    """The evidence in `folder`; None without experiment.json. Raises EvidenceError if that cannot be read."""
    path = folder / "experiment.json"
    try:
        document = read_json(path)
        if document.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        cells = tuple(CellEvidence(**cell) for cell in document.pop("cells"))
        return Evidence(**document | {"text": tuple(document["text"]), "cells": cells})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EvidenceError(f"{path} cannot be read ({type(error).__name__} {error}): move it away") from error


def own_evidence(folder: Path, name: str, flag: str = "output") -> Evidence | None:
    """`read_evidence` of the folder that `flag` names; raises EvidenceError also if it is not of experiment `name`."""
    known = read_evidence(folder)
    if known is not None and known.name != name:
        raise EvidenceError(f"--{flag}={folder} holds the evidence of {known.name}: choose another")
    return known


def require_folder(folder: Path, flag: str = "output") -> list[Path]:
    """Creates the folder that `flag` names if needed; raises EvidenceError if it is not writable.

    Returns the folders that it made, innermost first.
    """
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EvidenceError(f"--{flag}={folder} is not writable ({error.strerror}); choose another") from error
    return made


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


def joined(known: Iterable[CellEvidence], asked: Iterable[CellEvidence], folder: Path) -> list[CellEvidence]:
    """The union of known and requested cells; a known cell replaces the requested one.

    Runs of one method in one environment may differ only in their seed. A known cell that has not started is dropped
    if another one of the same method, environment and seed is requested.

    Raises:
        EvidenceError: names a setting that differs; nothing has changed.
    """
    asked = list(asked)
    places, names = {cell.place for cell in asked}, {cell.name for cell in asked}
    known = [cell for cell in known if cell.steps or cell.name in names or cell.place not in places]
    started = {(cell.method, cell.env): cell for cell in known if cell.steps}
    there = {cell.place: cell for cell in known}
    for cell in asked:
        problem, same = "", there.get(cell.place, cell)
        if other := same if same.name != cell.name else started.get((cell.method, cell.env)):
            compared = {n for n, v in cell.settings.items() if v != "auto"} - {"seed"}
            old, new = ({n: v for n, v in c.settings.items() if n in compared} for c in (other, cell))
            problem = "; ".join(differences(old, new))
        if same.name != cell.name and not problem:
            problem = f"the same run under other settings: {same.name}"
        if problem:
            raise EvidenceError(
                f"--output={folder} holds runs of '{cell.method}' in {cell.env} with other settings ({problem}): "
                "choose another --output, or move that folder away"
            )
    return list({cell.name: cell for cell in (*asked, *known)}.values())


def asked_for(cells: Iterable[Cell]) -> list[CellEvidence]:
    """Evidence of cells that have not started."""
    return [CellEvidence(cell.name, cell.method, settings_document(cell.settings)) for cell in cells]


def has_begun(cell: CellEvidence, sweep_dir: Path, output: Path) -> bool:
    """Whether the sweep or the evidence has a record of the cell."""
    folders = (sweep_dir / "cells" / cell.name / "run", output / "runs" / cell.name)
    return any((folder / "run.json").exists() for folder in folders)


def collect(
    cells: Iterable[CellEvidence], sweep_dir: Path, output: Path, reasons: Mapping[str, str]
) -> tuple[list[CellEvidence], list[str]]:
    """Copies the records of a sweep's cells into the evidence, unless an unfinished run has fewer steps than there.

    Args:
        cells: requested or known.
        sweep_dir: need not exist.
        output: the experiment's folder.
        reasons: why cells were given up, by name.

    Returns:
        The evidence of each cell, and a line for each damaged run, which has been set aside.

    Raises:
        EvidenceError: a record cannot be read, or its path has a link; if it is damaged, it has been set aside.
        OSError: a record cannot be copied (disk full).
    """
    found: list[CellEvidence] = []
    damages: list[str] = []
    for cell in cells:
        try:
            found.append(_collected(cell, sweep_dir, output, reasons, damages))
        except PermissionError as error:  # its folder is another user's
            reason = error.strerror or str(error)  # without the path, since evidence is published
            found.append(cell if cell.steps else dataclasses.replace(cell, state="failed", reason=reason))
    return found, damages


def _collected(
    cell: CellEvidence, sweep_dir: Path, output: Path, reasons: Mapping[str, str], damages: list[str]
) -> CellEvidence:
    """`collect` of one cell; adds to `damages`."""
    try:
        # The evidence may be from another machine, which decided otherwise.
        settings = settings_from({**cell.settings, **dict.fromkeys(DECIDED_BY_RUN, "auto")})
    except SettingsError as error:
        raise EvidenceError(f"{output / 'experiment.json'} has settings of another version ({error})") from error
    folder = CellFolder(sweep_dir / "cells" / cell.name, Cell(cell.method, settings))
    if damage := folder.set_aside_damaged():
        damages.append(damage)
    kept = output / "runs" / cell.name
    known = describe(kept, cell.name, cell.method) if (kept / "run.json").exists() else None
    # Given up now, or earlier and not resumed since; the sweep's folder may be gone.
    steps = max(folder.latest()[0], known.steps if known else 0)
    failed = cell.name in reasons or (cell.state == "failed" and steps == cell.steps)
    reason = reasons.get(cell.name, damage or (cell.reason if steps == cell.steps else ""))
    begun, behind = (folder.run_dir / "run.json").exists(), known and known.steps > folder.latest()[0]
    if not begun or (behind and not folder.finished):
        if known is None:
            state: CellState = "failed" if failed else "not begun"
            return CellEvidence(cell.name, cell.method, cell.settings, state, reason=reason)
        state = "failed" if failed and known.state != "finished" else known.state
        return dataclasses.replace(known, state=state, policy=cell.policy, reason=known.reason or reason)
    copy_records(folder.run_dir, kept)
    state = "finished" if folder.finished else "failed" if failed else "interrupted"
    reason = "" if folder.finished else reason
    return describe(kept, cell.name, cell.method, state, reason, policy=folder.run_dir / "policy")


def copy_records(run: Path, kept: Path) -> None:
    """Copies the existing records of a run into the evidence; raises EvidenceError if `kept` is a link."""
    kept.mkdir(parents=True, exist_ok=True)
    if kept.is_symlink():
        raise EvidenceError(f"{kept} is a link, and would be written through: move it away")
    for name in RECORDS:
        if (run / name).is_file():
            write_whole(kept / name, (run / name).read_bytes())


def describe(
    run: Path, name: str, method: str, state: CellState | None = None, reason: str = "", *, policy: Path | None = None
) -> CellEvidence:
    """The evidence of a cell by run.json and, if it exists, progress.csv in `run`.

    Without `state` it is that of run.json. `policy` need not exist.

    Raises:
        EvidenceError: a record cannot be read; if it is damaged, it has been set aside.
    """
    path = run / "run.json"
    try:
        record = read_record(run)
    except RecordError as error:
        raise EvidenceError(f"{error}{_set_aside(path, error)}") from error
    finished = record.finished
    steps, seconds, mean_return = 0, 0.0, None
    try:
        curve = read_run(run)
        steps, seconds = int(curve.steps[-1]), float(curve.seconds[-1])
        returns = curve.mean_return[curve.mean_return == curve.mean_return]
        mean_return = float(returns[-1]) if len(returns) else None
    except NoRowsYet:
        # Without a curve there is nothing to show, even if run.json says that it finished.
        state, finished = (None if state == "finished" else state), False
    except (CurveError, OverflowError) as error:
        damaged = run / "progress.csv"
        raise EvidenceError(f"{damaged} cannot be read ({error}){_set_aside(damaged, error)}") from error
    try:
        return CellEvidence(
            name,
            method,
            record.settings,
            state or ("finished" if finished else "interrupted"),
            steps,
            seconds,
            mean_return,
            record.commit,
            reason,
            str(policy) if policy is not None and policy.is_dir() else None,
        )
    except ValueError as error:
        raise EvidenceError(f"{path} cannot be read as a run's record ({error})") from error


def _set_aside(path: Path, error: Exception) -> str:
    """Renames a record that `error` shows to be damaged; says so."""
    return f"; kept as {set_aside(path)}" if path.exists() and is_damage(error) else ""
