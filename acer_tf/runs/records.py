"""The records of a run: writes run.json and packages.txt, and reads run.json and progress.csv."""

import csv
import dataclasses
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.errors import RecordError, reason
from acer_tf.files import read_json, write_json, write_whole
from acer_tf.runs.provenance import command_line, now, packages, provenance
from acer_tf.settings.record import jsonable
from acer_tf.types import EnvironmentSpec

_MAKER_PARTS = {
    "machine": ("host", "processor", "cores"),
    "threads": ("intra_op", "inter_op", "environments"),
    "device": ("name", "model", "acting"),
}
_MAKER = ("commit", "changes", "packages_sha256", *_MAKER_PARTS)
# What the record of a run of ours must have, and of which type, besides its settings.
_KINDS = {"commit": str | None, "modules": dict, "history": list, **dict.fromkeys(_MAKER_PARTS, dict | None)}
FORMAT = 1  # run.json's format
ProgressRow = dict[str, float | int | None]  # a row of progress.csv, by column; None for an empty cell
RECORDS = ("run.json", "progress.csv", "packages.txt")  # the published files of a run


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """The content of a run.json."""

    settings: dict[str, Any]  # the run's; other programs that were compared with ours have settings of their own
    finished: bool
    commit: str | None  # of the code that started the run, "+changes" appended if the code differed; None if unknown
    environment: EnvironmentSpec | None  # None for other programs
    maker: dict[str, Any]  # what made its newest rows, see `maker_of`; empty for other programs
    document: dict[str, Any]  # the whole content


def read_record(folder: Path) -> RunRecord:
    """The record in `folder`; raises RecordError if it does not exist, cannot be read, or has another format."""
    path = folder / "run.json"
    try:
        document = dict(read_json(path))
        if (version := document.get("format")) != FORMAT:
            raise ValueError(f"its format is {version!r}; this version reads {FORMAT}")
        settings, spec = dict(document["settings"]), document.get("environment")
        environment, maker = EnvironmentSpec.of(spec) if spec else None, {}
        if environment is not None:
            _require_kinds(document)
            maker = maker_of(document["history"][-1] if document["history"] else document)
            _require_kinds(document | maker)
        return RunRecord(
            settings, document.get("finished") is True, document.get("commit"), environment, maker, document
        )
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as a run's record ({reason(error)})") from error


def _require_kinds(document: Mapping[str, Any]) -> None:
    for name, kind in _KINDS.items():
        if not isinstance(document[name], kind):
            raise ValueError(f"its {name} cannot be {document[name]!r:.60}")


def read_progress(folder: Path, size: int | None = None, sha256: str | None = None) -> dict[str, np.ndarray]:
    """The columns of the progress.csv in `folder`, also while a run writes it: [P] float64 by name, NaN for no value.

    There are none if nothing has been written yet.

    Args:
        folder: the run's.
        size: how many bytes to read, which must end with a row; None for all complete rows.
        sha256: of these bytes, if they are to be checked.

    Raises:
        RecordError: the file is not a learning curve, shorter than `size`, or has another `sha256`.
    """
    path = folder / "progress.csv"
    try:
        content = path.read_bytes() if path.exists() else b""
        if size is not None and len(content) < size:
            raise ValueError(f"it has {len(content)} bytes, but had {size} at the last checkpoint")
        whole = content[:size] if size is not None else content[: content.rfind(b"\n") + 1]
        if sha256 is not None and hashlib.sha256(whole).hexdigest() != sha256:
            raise ValueError(f"its first {len(whole)} bytes are not those of the last checkpoint")
        if whole and not whole.endswith(b"\n"):
            raise ValueError("its last line is incomplete")
        head, *lines = list(csv.reader(io.StringIO(whole.decode(), newline=""))) or [[]]
        if head and "steps" not in head:
            raise ValueError("it has no column named steps")
        columns = dict(zip(head, np.empty((len(head), len(lines))), strict=True))
        for row, line in enumerate(lines):
            try:
                for name, cell in zip(head, line, strict=True):
                    columns[name][row] = float(cell or "nan")
                if not columns["steps"][row] > (columns["steps"][row - 1] if row else 0):
                    raise ValueError("its steps do not increase")
            except ValueError as error:
                raise ValueError(f"line {row + 2}: {error}") from error
        return columns
    except (OSError, ValueError, csv.Error) as error:
        raise RecordError(f"{path} cannot be read as a learning curve ({error})") from error


def run_document(settings: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run.json: its format, settings, details and provenance."""
    return {"format": FORMAT, "settings": jsonable(settings), **details, **provenance()}


def begin_record(folder: Path, settings: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Writes packages.txt, then run.json, whose presence marks a run folder."""
    write_whole(folder / "packages.txt", packages())
    write_json(folder / "run.json", run_document(settings, details))


def amend_record(
    folder: Path, settings: Mapping[str, Any], step: int, notes: Sequence[str], maker: Mapping[str, Any]
) -> None:
    """Records in run.json that the run continues at `step` with `settings`; its `notes` say what is not as before."""
    document = read_record(folder).document
    for name in ("steps", "seconds", "stopped_at_return"):
        document.pop(name, None)
    entry = {"step": step, "time": now(), "command": command_line(), **maker, "notes": list(notes)}
    document |= {"settings": dict(settings), "finished": False, "history": [*document["history"], entry]}
    write_json(folder / "run.json", document)


def maker_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The code, packages, machine, threads and device that made rows, as run.json or an entry of its history says."""
    return {name: document[name] for name in _MAKER}


def differences_of_makers(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two results of `maker_of`, in lines."""
    lines = [f"commit {new['commit']} instead of {old['commit']}"] if old["commit"] != new["commit"] else []
    if not lines and old["changes"] != new["changes"]:
        lines.append("other uncommitted changes of the code")
    if old["packages_sha256"] != new["packages_sha256"]:
        lines.append("other installed packages")
    for part, names in _MAKER_PARTS.items():
        pairs = ((name, (old[part] or {}).get(name), (new[part] or {}).get(name)) for name in names)
        lines += [f"{part}: {name} {here} instead of {there}" for name, there, here in pairs if here != there]
    return lines
