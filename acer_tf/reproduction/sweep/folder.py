"""The folder of a sweep: what it consists of, and what is there of each cell.

<sweep_dir>/sweep.json                 the experiment and its cells
<sweep_dir>/lock                       held while a sweep works here
<sweep_dir>/cells/<name>/run/          the run: see training.run
<sweep_dir>/cells/<name>/attempts.json what was tried, and how it ended
<sweep_dir>/cells/<name>/logs/         standard output and error of each attempt
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acer_tf.reproduction.sweep.attempt import AttemptEnd
from acer_tf.reproduction.sweep.cells import DECIDED_BY_RUN, Cell, SweepError
from acer_tf.settings import SettingsError, differences, settings_document, settings_from
from acer_tf.training.checkpoint import CheckpointError, Checkpoints
from acer_tf.training.lock import Lock, RunFolderError
from acer_tf.training.records import RecordError, read_progress, read_record, write_json

FORMAT = 1


class CellFolder:
    """What a sweep folder holds of one cell."""

    def __init__(self, path: Path, cell: Cell) -> None:
        self.path, self.cell = path, cell
        self.run_dir = path / "run"

    @property
    def finished(self) -> bool:
        """Whether the run is complete, its policy exported."""
        try:
            return read_record(self.run_dir).finished and (self.run_dir / "policy").is_dir()
        except RecordError:
            return False

    def latest(self) -> tuple[int, float | None]:
        """Steps done and mean return of the last 100 games, by the last whole row of progress.csv; else 0 and None."""
        try:
            last = {name: float(column[-1]) for name, column in read_progress(self.run_dir).items() if len(column)}
        except RecordError:
            last = {}
        mean_return = last.get("mean_return", math.nan)
        return int(last.get("steps", 0)), None if math.isnan(mean_return) else mean_return

    def decided(self) -> dict[str, Any]:
        """What an earlier attempt decided by its machine. The run goes on with it wherever it goes on."""
        try:
            settings = read_record(self.run_dir).settings
        except RecordError:
            return {}
        return {name: settings[name] for name in DECIDED_BY_RUN if name in settings}

    def set_aside_damaged(self) -> str | None:
        """Renames a run that cannot be continued or read, so that the cell starts anew and nothing is lost.

        Returns:
            What was wrong and where the run is now; None where nothing was.
        """
        if not self.run_dir.is_dir():
            return None
        try:
            lock = Lock(self.run_dir)
        except RunFolderError:
            return None  # at work
        try:
            damage = self._damage()
            return damage and f"{damage}: the run is kept as {set_aside(self.run_dir)}, and the cell starts anew"
        finally:
            lock.release()

    def attempts(self) -> list[dict[str, Any]]:
        """What attempts.json records; a damaged one is set aside."""
        path = self.path / "attempts.json"
        try:
            return [dict(entry) for entry in json.loads(path.read_text())["attempts"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError):
            set_aside(path)
            return []

    def record_start(self, command: Sequence[str]) -> int:
        """Notes a new attempt; returns its number, from 1."""
        entries = self.attempts()
        self._write_attempts([*entries, {"command": list(command), "started": _now()}])
        return len(entries) + 1

    def record_end(self, number: int, end: AttemptEnd) -> None:
        entries = self.attempts()
        if number <= len(entries):
            entries[number - 1] |= {"ended": _now(), **dataclasses.asdict(end)}
        self._write_attempts(entries)

    def _write_attempts(self, entries: list[dict[str, Any]]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "attempts.json", {"format": FORMAT, "cell": self.cell.label, "attempts": entries})

    def _damage(self) -> str | None:
        path, curve, checkpoints = (self.run_dir / name for name in ("run.json", "progress.csv", "checkpoints"))
        if not any(each.exists() for each in (path, curve, checkpoints)):
            return None
        try:
            record = read_record(self.run_dir)
            asked = settings_document(self.cell.settings)
            asked |= {name: record.settings.get(name) for name in DECIDED_BY_RUN if asked[name] == "auto"}
            if different := differences(record.settings, asked):
                return f"{path} is of another run ({different[0]})"
            if record.finished:
                size = curve.stat().st_size if curve.exists() else 0
                return None if read_progress(self.run_dir, size) else f"{curve} is missing or empty"
            if snapshot := Checkpoints(checkpoints).restore(None):
                # The run goes on after these bytes, whatever follows them.
                read_progress(self.run_dir, snapshot.state["position"])
        except RecordError as error:
            return str(error)
        except CheckpointError:
            pass  # the run itself says so
        return None


class SweepFolder:
    """Exclusive use of a sweep's folder, until `close` or the process's end.

    Args:
        path: made where it does not exist.
        experiment: whose cells it holds.
        cells: of this sweep; they join those that it holds already.

    Raises:
        SweepError: another process works there, or it holds something else; nothing was changed.
    """

    def __init__(self, path: Path, experiment: str, cells: Sequence[Cell]) -> None:
        self.path = path
        self.notes: list[str] = []
        if path.exists() and not path.is_dir():
            raise SweepError(f"--sweep_dir={path} is not a folder")
        self._require_same(experiment)
        try:
            self._lock = Lock(path, "sweep_dir")
        except RunFolderError as error:
            raise SweepError(str(error)) from error
        try:
            known = self._require_same(experiment)
            if known is None and (path / "sweep.json").exists():
                kept = set_aside(path / "sweep.json")
                self.notes.append(f"{path / 'sweep.json'} cannot be read: it is kept as {kept}, and written anew")
            self.cells = [CellFolder(path / "cells" / cell.name, cell) for cell in cells]
            new = {c.name: {"method": c.method, "settings": settings_document(c.settings)} for c in cells}
            write_json(
                path / "sweep.json", {"format": FORMAT, "experiment": experiment, "cells": {**(known or {}), **new}}
            )
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        self._lock.release()

    def _require_same(self, experiment: str) -> dict[str, Any] | None:
        """The cells that it knows; None for a document that cannot be read."""
        if not (self.path / "sweep.json").exists():
            others = sorted(p.name for p in self.path.iterdir()) if self.path.exists() else []
            others = [n for n in others if n not in ("lock", "cells") and not n.startswith(("sweep.json.", "probe"))]
            if others:
                raise SweepError(
                    f"--sweep_dir={self.path} is no sweep's folder: it has no sweep.json, but {others[0]}; "
                    "choose another"
                )
            return {}
        document = _read_document(self.path / "sweep.json")
        if document is None:
            return None
        if document["format"] != FORMAT:
            raise SweepError(f"{self.path / 'sweep.json'} has format {document['format']}: this version reads {FORMAT}")
        if document["experiment"] != experiment:
            raise SweepError(
                f"--sweep_dir={self.path} holds a sweep of {document['experiment']}, not of {experiment}: "
                "choose another folder"
            )
        return document["cells"]


def read_cells(path: Path) -> list[CellFolder]:
    """All cells that a sweep's folder knows, for reports, also while a sweep works there.

    Raises:
        SweepError: there is no sweep, or its document cannot be read.
    """
    document = _read_document(path / "sweep.json") if (path / "sweep.json").exists() else None
    if document is None or document["format"] != FORMAT:
        raise SweepError(f"--sweep_dir={path}: no sweep.json there that can be read")
    try:
        cells = [Cell(c["method"], settings_from(c["settings"])) for c in document["cells"].values()]
    except (SettingsError, KeyError, TypeError) as error:
        raise SweepError(f"{path / 'sweep.json'} has cells of another version ({error})") from error
    return [CellFolder(path / "cells" / cell.name, cell) for cell in cells]


def set_aside(path: Path) -> Path:
    """Renames `path` to the first free <name>.damaged-<n>."""
    n = 1
    while (free := path.with_name(f"{path.name}.damaged-{n}")).exists():
        n += 1
    return path.rename(free)


def _read_document(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text())
        return {
            "format": int(document["format"]),
            "experiment": str(document["experiment"]),
            "cells": {name: dict(cell) for name, cell in document["cells"].items()},
        }
    except OSError as error:
        raise SweepError(f"{path} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
