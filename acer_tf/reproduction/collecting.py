"""The records of runs in the evidence: which it has and lacks, and how those of a sweep come into it."""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from acer_tf.errors import CurveError, EvidenceError, RecordError
from acer_tf.files import write_whole
from acer_tf.reproduction.cells import Cell, State
from acer_tf.reproduction.curves import NoRowsYet, read_run
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.runs.records import RECORDS, read_record
from acer_tf.settings.record import differences, idle
from acer_tf.training.resolve import DECIDED_BY_RUN

_REMEDY = ": if it is damaged, restore it from a copy, or move it away"  # a sweep's record then takes its place


def joined(known: Iterable[Cell], asked: Iterable[Cell], folder: Path) -> list[Cell]:
    """The union of known and requested cells; a known cell replaces the requested one.

    Runs of one method in one environment may differ only in their seed. A known cell that has not started is dropped
    if another one of the same method, environment and seed is requested.

    Raises:
        EvidenceError: names a setting that differs; nothing has changed.
    """
    asked = list(asked)
    places, names = {cell.place for cell in asked}, {cell.name for cell in asked}
    known = [cell for cell in known if cell.steps or cell.name in names or cell.place not in places]
    started = {(cell.method, cell.draw, cell.env): cell for cell in known if cell.steps}
    there = {cell.place: cell for cell in known}
    for cell in asked:
        problem, same = "", there.get(cell.place, cell)
        if other := same if same.name != cell.name else started.get((cell.method, cell.draw, cell.env)):
            compared = {n for n, v in cell.settings.items() if v != "auto"} - {"seed", *idle(cell.settings)}
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


def has_begun(cell: Cell, sweep_dir: Path, output: Path) -> bool:
    """Whether the sweep or the evidence has a record of the cell."""
    return any((folder / "run.json").exists() for folder in _places(cell, sweep_dir, output))


def has_rows(cell: Cell, sweep_dir: Path, output: Path) -> bool:
    """Whether the sweep or the evidence has a learning curve of the cell that can be read."""
    for folder in _places(cell, sweep_dir, output):
        with contextlib.suppress(CurveError):
            read_run(folder)
            return True
    return False


def _places(cell: Cell, sweep_dir: Path, output: Path) -> tuple[Path, Path]:
    return CellFolder(sweep_dir, cell).run_dir, output / "runs" / cell.name


def collect(
    cells: Iterable[Cell], sweep_dir: Path, output: Path, given_up: Mapping[str, str]
) -> tuple[list[Cell], list[str]]:
    """Copies the records of a sweep's cells into the evidence in `output`, unless a run there has come further.

    `given_up` says why the sweep gave cells up, by name. Returns the cells as they are known now, and a line for each
    damaged run of the sweep, which is left out. Nothing in `sweep_dir` changes.

    Raises:
        EvidenceError: a record cannot be read, or its path has a link; if it is one in `output`, nothing has changed.
        OSError: a record cannot be copied (disk full).
    """
    found: list[Cell] = []
    damages: list[str] = []
    cells = list(cells)
    known = {
        cell.name: dataclasses.replace(describe(kept, cell.name, cell.method, cell.draw), policy=cell.policy)
        for cell in cells
        if ((kept := output / "runs" / cell.name) / "run.json").exists()
    }
    for cell in cells:
        try:
            # The evidence may be from another machine, which decided otherwise.
            asked = dataclasses.replace(cell, settings={**cell.settings, **dict.fromkeys(DECIDED_BY_RUN, "auto")})
            folder = CellFolder(sweep_dir, asked)
            kept, who = output / "runs" / cell.name, (cell.name, cell.method, cell.draw)
            recorded, swept = known.get(cell.name), None
            if damage := folder.damage():
                damages.append(f"{damage}: left out; a sweep sets the run aside, and starts the cell again")
            elif (folder.run_dir / "run.json").exists():
                state: State = "finished" if folder.finished else "interrupted"
                swept = dataclasses.replace(asked, state=state, steps=folder.latest()[0])
                if _further(swept, recorded) is swept:
                    copy_records(folder.run_dir, kept)
                    swept = describe(kept, *who, state, folder.run_dir / "policy")
            found.append(known_now(cell, recorded, swept, given_up.get(cell.name), damage))
        except PermissionError as error:  # its folder is another user's
            reason = error.strerror or str(error)  # without the path, since evidence is published
            found.append(cell if cell.steps else dataclasses.replace(cell, state="failed", reason=reason))
    return found, damages


def known_now(
    before: Cell, recorded: Cell | None, swept: Cell | None, given_up: str | None = None, damage: str | None = None
) -> Cell:
    """The cell as its records in the evidence and in the sweep show it; `before` is as it was requested or known.

    `given_up` is why the sweep has just given it up; `damage` is what is wrong with its run there.
    """
    run = _further(swept, recorded) or Cell(before.name, before.method, before.settings, before.draw)
    if run.state == "finished":
        return run
    # An earlier failure, and its reason, stand as long as the run's steps have not changed.
    same = run.steps == before.steps
    failed = given_up is not None or (same and before.state == "failed")
    reason = given_up if given_up is not None else damage or (before.reason if same else "")
    return dataclasses.replace(run, state="failed" if failed else run.state, reason=reason)


def _further(swept: Cell | None, recorded: Cell | None) -> Cell | None:
    """The sweep's record of a run if it is finished or has come as far, else the one in the evidence."""
    if swept and (swept.state == "finished" or not recorded or swept.steps >= recorded.steps):
        return swept
    return recorded


def copy_records(run: Path, kept: Path) -> None:
    """Copies the existing records of a run into the evidence; raises EvidenceError if `kept` is a link."""
    kept.mkdir(parents=True, exist_ok=True)
    if kept.is_symlink():
        raise EvidenceError(f"{kept} is a link, and would be written through: move it away")
    for name in RECORDS:
        if (run / name).is_file():
            write_whole(kept / name, (run / name).read_bytes())


def describe(
    run: Path, name: str, method: str, draw: int | None = None, state: State | None = None, policy: Path | None = None
) -> Cell:
    """What run.json and, if it exists, progress.csv in the folder `run` say of a cell.

    The state is by default that of run.json; the `policy` need not exist.

    Raises:
        EvidenceError: a record cannot be read.
    """
    path, curve_file = run / "run.json", run / "progress.csv"
    try:
        record = read_record(run)
    except RecordError as error:
        raise EvidenceError(f"{error}{_REMEDY}") from error
    state = state or ("finished" if record.finished else "interrupted")
    progress: tuple[int, float, float | None] = 0, 0.0, None
    try:
        curve = read_run(run)
        returns = curve.mean_return[curve.mean_return == curve.mean_return].tolist()
        seconds = float(np.nan_to_num(curve.seconds[-1]))  # logs of other libraries need not have them
        progress = int(curve.steps[-1]), seconds, returns[-1] if returns else None
    except NoRowsYet:
        state = "interrupted"  # without a curve there is nothing to show, even if run.json says that it finished
    except (CurveError, OverflowError) as error:
        raise EvidenceError(f"{curve_file} cannot be read ({error}){_REMEDY}") from error
    place = str(policy) if policy is not None and policy.is_dir() else None
    try:
        return Cell(name, method, record.settings, draw, state, *progress, record.commit, policy=place)
    except ValueError as error:
        raise EvidenceError(f"{path} cannot be read as a run's record ({error})") from error
