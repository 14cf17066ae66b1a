"""Checks of a run folder before anything is written to it."""

from __future__ import annotations

import os
from pathlib import Path

from acer_tf.settings import Settings
from acer_tf.settings_record import completed, differences, settings_document
from acer_tf.training.lock import RunFolderError
from acer_tf.training.records import RecordError, RunRecord, read_record

# What a run writes, or deletes from: through a link, that would be outside its folder.
_NO_LINKS = ("lock", "run.json", "packages.txt", "progress.csv", "tensorboard", "checkpoints", "checkpoints/replay")


def require_same_run(settings: Settings, run_dir: Path) -> tuple[RunRecord | None, list[str]]:
    """Checks that `run_dir` can hold the run of resolved `settings`.

    Returns:
        The record there, None for a new run; and what differs from it and may, in lines.

    Raises:
        RunFolderError: the folder cannot be used, or holds something else.
    """
    try:
        _require_place(run_dir)
        record = record_in(run_dir)
        remains = [name for name in ("progress.csv", "checkpoints") if (run_dir / name).exists()]
    except OSError as error:
        raise RunFolderError(f"--run_dir={run_dir} cannot be used: {error}") from error
    if record is None:
        if remains:
            raise RunFolderError(f"--run_dir={run_dir} has a {remains[0]} but no run.json: choose another folder")
        return None, []
    old, new = completed(record.settings), settings_document(settings)
    longer = isinstance(old["total_steps"], int) and old["total_steps"] < new["total_steps"]
    may_change = ("log_interval", "total_steps") if longer else ("log_interval",)
    if lines := differences(old, {**new, **{name: old[name] for name in may_change}}):
        raise RunFolderError(
            f"--run_dir={run_dir} holds a run with other settings:\n  " + "\n  ".join(lines) + "\n"
            "give those flags the values there to continue it, or choose another folder"
        )
    changes = [f"--{name}={new[name]} instead of {old[name]}" for name in may_change if new[name] != old[name]]
    if longer and settings.replay_priority != "uniform":
        changes.append("the exponents of priorities now change until the new end")
    return record, changes


def record_in(run_dir: Path) -> RunRecord | None:
    """The record in `run_dir`; None if it holds no run.

    Raises:
        RunFolderError: the folder or the record cannot be read.
    """
    try:
        return read_record(run_dir) if (run_dir / "run.json").exists() else None
    except RecordError as error:
        raise RunFolderError(f"{error}: choose another folder") from error
    except OSError as error:
        raise RunFolderError(f"--run_dir={run_dir} cannot be used: {error}") from error


def _require_place(run_dir: Path) -> None:
    try:
        run_dir.stat()
    except FileNotFoundError:
        pass  # a new folder; others, such as a name that is too long, cannot be made
    else:
        if not run_dir.is_dir():
            raise RunFolderError(f"--run_dir={run_dir} is not a folder")
    place = Path(os.path.realpath(run_dir))
    for parent in place.parents:
        if place.relative_to(parent).parts[0] in ("checkpoints", "policy") and (parent / "run.json").exists():
            raise RunFolderError(f"--run_dir={run_dir} is inside of the run in {parent}: choose another folder")
    for name in _NO_LINKS:
        if (run_dir / name).is_symlink():
            raise RunFolderError(
                f"--run_dir={run_dir} has a link named {name}: put what it names in its place, or choose another folder"
            )
