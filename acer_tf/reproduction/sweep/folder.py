"""The folder of a sweep, and the folders of its cells.

<sweep_dir>/sweep.json                 the name and the cells
<sweep_dir>/lock                       held by the sweep that uses the folder
<sweep_dir>/slurm/                     scripts, calls, results and output of submitit's tasks
<sweep_dir>/cells/<name>/run/          the run: see training.train
<sweep_dir>/cells/<name>/attempts.json commands and ends of the attempts
<sweep_dir>/cells/<name>/logs/         standard output and error of each attempt
"""

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acer_tf.errors import CheckpointError, RecordError, RunFolderError, SweepError
from acer_tf.files import is_damage, missing_parts, read_json, remove_partial, set_aside, write_json
from acer_tf.reproduction.cells import Cell
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import Lock
from acer_tf.runs.records import read_progress, read_record
from acer_tf.settings import Settings
from acer_tf.settings.record import differences, settings_from
from acer_tf.training.resolve import DECIDED_BY_RUN

FORMAT = 1
_OWN_NAMES = ("lock", "cells", "slurm")  # the content of a sweep that was stopped before it wrote sweep.json


class CellFolder:
    """The folder of one cell of a sweep; it need not exist."""

    def __init__(self, sweep_dir: Path, cell: Cell) -> None:
        self.path, self.cell = sweep_dir / "cells" / cell.name, cell
        self.run_dir = self.path / "run"

    @property
    def finished(self) -> bool:
        """Whether the run is complete and its policy exported."""
        try:
            return read_record(self.run_dir).finished and not missing_parts(self.run_dir / "policy")
        except RecordError:
            return False

    def latest(self) -> tuple[int, float | None]:
        """Steps and mean return of the last 100 episodes in the last row of progress.csv; 0 and None without rows."""
        try:
            last = {name: float(column[-1]) for name, column in read_progress(self.run_dir).items() if len(column)}
        except RecordError:
            last = {}
        mean_return = last.get("mean_return", math.nan)
        return int(last.get("steps", 0)), None if math.isnan(mean_return) else mean_return

    def settings(self) -> Settings:
        """The settings of the cell, with `DECIDED_BY_RUN` of an earlier attempt, which a resumed run must keep."""
        try:
            return settings_from(self._decided(read_record(self.run_dir).settings))
        except RecordError:
            return self.cell.train_settings

    def set_aside_damaged(self) -> str | None:
        """Renames a run that cannot be continued or read, so that the cell starts again; returns what is to be said."""
        if not self.run_dir.is_dir():
            return None
        try:
            lock = Lock(self.run_dir)
        except RunFolderError:
            return None  # in use
        try:
            damage = self.damage()
            return damage and f"{damage}: the run is kept as {set_aside(self.run_dir)}, and the cell starts again"
        finally:
            lock.release()

    def attempts(self) -> list[dict[str, Any]]:
        """The entries of attempts.json; a damaged file is set aside. Raises OSError if it cannot be read at present."""
        path = self.path / "attempts.json"
        try:
            return [dict(entry) for entry in read_json(path)["attempts"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            if not is_damage(error):
                raise
            set_aside(path)
            return []

    def write_attempts(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "attempts.json", {"format": FORMAT, "cell": self.cell.label, "attempts": [*entries]})

    def _decided(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        asked = self.cell.settings
        return {**asked, **{n: recorded[n] for n in DECIDED_BY_RUN if asked[n] == "auto" and n in recorded}}

    def damage(self) -> str | None:
        """Why the run cannot be continued or read, if so; raises OSError if a file cannot be read at present."""
        path, curve, checkpoints = (self.run_dir / name for name in ("run.json", "progress.csv", "checkpoints"))
        if not any(each.exists() for each in (path, curve, checkpoints)):
            return None
        try:
            record = read_record(self.run_dir)
            if different := differences(record.settings, self._decided(record.settings)):
                return f"{path} belongs to another run ({different[0]})"
            if record.finished:
                size = curve.stat().st_size if curve.exists() else 0
                return None if read_progress(self.run_dir, size) else f"{curve} is missing or empty"
            if snapshot := Checkpoints(checkpoints).restore(None):
                # The run continues after these bytes, whatever follows them.
                read_progress(self.run_dir, snapshot.state["position"], snapshot.state["progress_sha256"])
        except RecordError as error:
            # Too many open files, or a file system that does not answer now: the run may be whole.
            if isinstance(error.__cause__, OSError) and not is_damage(error):
                raise error.__cause__ from None
            return str(error)
        except CheckpointError:
            pass  # the run reports it
        return None


@contextlib.contextmanager
def locked_sweep(path: Path, experiment: str, cells: Sequence[Cell]) -> Iterator[None]:
    """A context that holds a sweep's folder for this process alone, and adds `cells` to those in its sweep.json.

    Raises:
        SweepError: the folder holds something else, or cannot be read; nothing was changed.
        RunFolderError: another process uses it.
    """
    _recorded_cells(path, experiment)  # before a lock is made in a folder of something else
    with contextlib.ExitStack() as held:
        held.callback(Lock(path, "sweep_dir").release)
        for cell in path.glob("cells/*"):
            remove_partial(cell)
        document = path / "sweep.json"
        if (known := _recorded_cells(path, experiment)) is None:
            print(f"{document} cannot be read: it is kept as {set_aside(document)}, and written again", file=sys.stderr)
        new = {c.name: {"method": c.method, "settings": c.settings} for c in cells}
        write_json(document, {"format": FORMAT, "experiment": experiment, "cells": {**(known or {}), **new}})
        yield


def _recorded_cells(folder: Path, experiment: str) -> dict[str, Any] | None:
    """Reads the cells in sweep.json; None if that is damaged. Raises SweepError if the folder holds something else."""
    path = folder / "sweep.json"
    try:
        document = read_json(path)
        version, name = int(document["format"]), str(document["experiment"])
        cells = {name: dict(cell) for name, cell in document["cells"].items()}
    except FileNotFoundError:
        names = sorted(other.name for other in folder.iterdir()) if folder.exists() else []
        others = [n for n in names if n not in _OWN_NAMES and not n.startswith(("sweep.json.", "probe-"))]
        if others:
            raise SweepError(
                f"--sweep_dir={folder} has a {others[0]} but no sweep.json, so it holds no sweep: choose another"
            ) from None
        return {}
    except OSError as error:
        raise SweepError(f"--sweep_dir={folder} cannot be used: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if version != FORMAT:
        raise SweepError(f"{path} has format {version}: this version reads {FORMAT}")
    if name != experiment:
        raise SweepError(f"--sweep_dir={folder} holds a sweep of {name}, not of {experiment}: choose another folder")
    return cells
