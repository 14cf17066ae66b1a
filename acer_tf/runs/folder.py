"""A run's folder: its lock, the checks before anything is written to it, and what a run there continues from."""

import contextlib
import dataclasses
import fcntl
import functools
import os
import socket
import stat
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any

from acer_tf.errors import FolderInUse, RecordError, RunFolderError
from acer_tf.files import POLICY_METADATA, is_taken, named, remove_empty, remove_partial, set_aside
from acer_tf.replay import TrajectoryReplay
from acer_tf.runs.checkpoint import Checkpoints, DamagedError, Snapshot
from acer_tf.runs.provenance import user_modules
from acer_tf.runs.records import RunRecord, read_progress, read_record
from acer_tf.settings import Settings
from acer_tf.settings.record import differences, settings_document, settings_from
from acer_tf.types import EnvironmentSpec

# A run writes these, or deletes from them: through a link, it would do so outside its folder.
_NO_LINKS = ("lock", "run.json", "packages.txt", "progress.csv", "tensorboard", "checkpoints", "checkpoints/replay")
_POLICIES = ("policy", "best_policy")  # which it exports
# How a damaged run may continue if it could not otherwise; --help of `acer_tf train` says what each gives up.
REPAIRS = ("replay", "progress", "restart")


_HELD: "weakref.WeakSet[IO[str]]" = weakref.WeakSet()  # the open files of this process's locks


def _let_go() -> None:
    for file in _HELD:
        file.close()


# A lock belongs to the open file, and so would outlive this process in a child that goes on.
os.register_at_fork(after_in_child=_let_go)


class Lock:
    """Exclusive use of a run folder by one process, until `release` or the end of the process.

    What a killed process left half written in the folder is deleted.

    Args:
        folder: created if it does not exist. `release` deletes what was made of it, if nothing was written to it.
        flag: the flag that named it, for messages.

    Raises:
        FolderInUse: another process holds it (names its host and pid).
        RunFolderError: it cannot be created or locked.
    """

    def __init__(self, folder: Path, flag: str = "run_dir") -> None:
        self._path = folder / "lock"
        self._made: list[Path] = []
        try:
            self._made = [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            self._there = set(os.listdir(folder))
            # With O_NOFOLLOW, because a link would be written through.
            self._file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
        except OSError as error:
            remove_empty(self._made)
            raise RunFolderError(f"--{flag}={folder} cannot be used: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                raise FileNotFoundError("its holder has just deleted it")
        except OSError as error:
            holder = self._file.read().strip() or "an unknown process"
            self._file.close()
            held = isinstance(error, BlockingIOError | FileNotFoundError)
            if held:
                raise FolderInUse(f"--{flag}={folder} is in use by {holder}") from error
            raise RunFolderError(f"--{flag}={folder} cannot be locked: {error}") from error
        _HELD.add(self._file)
        with named(self._path):
            self._file.truncate(0)
            self._file.write(f"host {socket.gethostname()}, pid {os.getpid()}\n")
            self._file.flush()
        remove_partial(folder)

    def release(self) -> None:
        self._file.truncate(0)
        with contextlib.suppress(OSError):
            if set(os.listdir(self._path.parent)) - self._there == {self._path.name}:
                self._path.unlink()
        self._file.close()
        remove_empty(self._made)


def known_run(run_dir: Path) -> RunRecord | None:
    """The record of the run in `run_dir`, see `record_in`; None if a new run can begin there.

    Raises:
        RunFolderError: the folder cannot be used, or holds something else.
    """
    if set(str(run_dir)) & set("[\\"):
        raise RunFolderError(
            f"--run_dir={run_dir}: must have neither [ nor a backslash, which TensorFlow takes for a pattern"
        )
    try:
        with contextlib.suppress(FileNotFoundError):  # a new folder
            if not stat.S_ISDIR(run_dir.stat().st_mode):
                raise RunFolderError(f"--run_dir={run_dir} is not a folder")
        place = Path(os.path.realpath(run_dir))
        for parent in place.parents:
            inside = place.relative_to(parent).parts[0] in ("checkpoints", *_POLICIES)
            if inside and (parent / "run.json").exists():
                raise RunFolderError(f"--run_dir={run_dir} is inside of the run in {parent}: choose another folder")
        if links := [name for name in _NO_LINKS if (run_dir / name).is_symlink()]:
            raise RunFolderError(
                f"--run_dir={run_dir} has a link named {links[0]}: put what it names in its place, or choose another "
                "folder"
            )
        for name in _POLICIES:
            if is_taken(Path(os.path.realpath(run_dir / name))):
                raise RunFolderError(
                    f"--run_dir={run_dir} has a {name} that is not a policy (it has no policy's {POLICY_METADATA}), "
                    "and would not be replaced at the end: move it away, or choose another folder"
                )
        record = record_in(run_dir)
        remains = [name for name in ("progress.csv", "checkpoints") if (run_dir / name).exists()]
    except OSError as error:
        raise RunFolderError(f"--run_dir={run_dir} cannot be used: {error}") from error
    if record is None and remains:
        raise RunFolderError(f"--run_dir={run_dir} has a {remains[0]} but no run.json: choose another folder")
    return record


def require_same_factory(record: RunRecord, given: bool, run_dir: Path) -> None:
    """Raises RunFolderError unless the environment is made by a function (`given`) if and only if the recorded one was.

    The environment's name need not exist then: it is only a label.
    """
    made = record.document.get("env_function")
    if made and not given:
        raise RunFolderError(
            f"--run_dir={run_dir} holds a run in an environment that a function made: continue it in Python, with "
            f"env={made}"
        )
    if given and not made:
        raise RunFolderError(
            f"--run_dir={run_dir} holds a run in {record.settings['env']}, which no function made: continue it without "
            "env, or choose another folder"
        )


def require_same_run(record: RunRecord, settings: Settings, spec: EnvironmentSpec, run_dir: Path) -> None:
    """Raises RunFolderError unless resolved `settings`, in an environment of this `spec`, continue the recorded run."""
    old, new = record.settings, settings_document(settings)
    if lines := differences(old, {**new, **{name: old[name] for name in may_change(old, new)}}):
        raise RunFolderError(
            f"--run_dir={run_dir} holds a run with other settings: {'; '.join(lines)}; "
            "give those flags the values there to continue it, or choose another folder"
        )
    if record.environment and record.environment != spec:
        lines = record.environment.differences(spec)
        raise RunFolderError(
            f"--run_dir={run_dir} holds a run in another version of {settings.env}: {'; '.join(lines)}; "
            "bring that version back to continue it, or choose another folder"
        )


def changes_in(record: RunRecord, settings: Settings, env_function: str | None) -> list[str]:
    """The allowed differences from the recorded run, in lines; call it after importing the modules that it names."""
    old, new = record.settings, settings_document(settings)
    changes = [
        f"--{name}={new[name]} instead of {old[name]}" for name in may_change(old, new) if new[name] != old[name]
    ]
    modules = user_modules(settings.references)
    changes += [
        f"the file of module {name} has changed since the run began"
        for name, sha256 in record.document["modules"].items()
        if modules.get(name, sha256) != sha256
    ]
    if (made := record.document.get("env_function")) != env_function:
        changes.append(f"the environment is made by {env_function} instead of {made}")
    if old["total_steps"] < new["total_steps"] and (moving := ", ".join(_until_the_end(settings))):
        changes.append(f"what changes until the end of a run now changes until the new one: {moving}")
    return changes


def _until_the_end(settings: Settings) -> list[str]:
    """The settings whose values change until the end of a run."""
    names = ["learning_rate", "entropy_weight"]
    if settings.replay_priority != "uniform":
        names += ["priority_exponent", "importance_exponent"]
    return [name for name in names if getattr(settings, f"{name}_final") not in (None, getattr(settings, name))]


def may_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings that a run which continues may change: it may become longer, not shorter.

    Whether it evaluates is decided at its beginning, as its columns are.
    """
    names = ["log_interval"]
    if old["total_steps"] < new["total_steps"]:
        names.append("total_steps")
    if old["evaluate_every"] and new["evaluate_every"]:
        names += [name for name in new if name.startswith("evaluate_") or name == "stop_at_return"]
    return tuple(names)


def record_in(run_dir: Path) -> RunRecord | None:
    """The record in `run_dir`, its settings complete; None if it holds no run.

    Raises:
        RunFolderError: it cannot be read, or has other settings than this version's.
    """
    try:
        if not (run_dir / "run.json").exists():
            return None
        record = read_record(run_dir)
    except RecordError as error:
        raise RunFolderError(f"{error}: choose another folder") from error
    except OSError as error:
        raise RunFolderError(f"--run_dir={run_dir} cannot be used: {error}") from error
    try:
        if record.environment is None:
            raise ValueError("it names no environment")
        return dataclasses.replace(record, settings=settings_document(settings_from(record.settings)))
    except ValueError as error:
        raise RunFolderError(
            f"{run_dir}/run.json, which commit {record.commit} wrote, is not of a run that this version can continue "
            f"({error}): choose another folder"
        ) from error


def resume(
    folder: Path, checkpoints: Checkpoints, replay: TrajectoryReplay, repair: Collection[str], *, finished: bool = False
) -> tuple[Snapshot | None, Callable[[], list[str]]]:
    """Restores what the run in `folder` continues from, its replay into `replay`.

    Args:
        repair: what may be repaired, names of `REPAIRS`; what is whole is left alone.
        finished: whether the run has ended before, by its record.

    Returns:
        The snapshot, None for step 0; and a function that sets aside what the repair gives up, and returns what was
        lost or repaired, for the run's record.

    Raises:
        CheckpointError: no checkpoint can be read; says how to go on.
        RunFolderError: progress.csv is not that of the checkpoint, or there is no checkpoint, but rows or an end.
    """
    curve = folder / "progress.csv"
    try:
        snapshot = checkpoints.restore(replay, salvage="replay" in repair)
        # Every run writes a checkpoint before its first row.
        rows = curve.exists() and curve.stat().st_size
        if snapshot is None and (rows or finished):
            policy = f", or use the policy in {folder / 'policy'}" if (folder / "policy").exists() else ""
            found = (
                "has rows of progress, but no checkpoint" if rows else "holds a run that has ended, but no checkpoint"
            )
            raise RunFolderError(
                f"--run_dir={folder} {found}: put {folder / 'checkpoints'} back, give "
                f"--repair=restart to begin again at step 0, choose another folder{policy}"
            )
    except (DamagedError, RunFolderError):
        if "restart" not in repair:
            raise
        return None, functools.partial(_begun_again, folder)
    if snapshot is None:
        return None, list
    notes = [snapshot.lost] if snapshot.lost else []
    state = snapshot.state
    try:
        read_progress(folder, state["position"], state["progress_sha256"])
    except RecordError as error:
        if "progress" not in repair:
            raise RunFolderError(
                f"{error}: put the file back, or give --repair=progress to continue with a new one"
            ) from error
        notes.append(f"progress.csv begins here, because {error}")
        state["position"] = 0
        # A row counts the episodes up to it, and those before the file's first are not in its mean.
        state["actor"]["episodes"] = len(state["actor"]["new_returns"])
        return snapshot, functools.partial(_new_progress, curve, notes)
    return snapshot, lambda: notes


def _begun_again(folder: Path) -> list[str]:
    parts = (folder / "progress.csv", folder / "checkpoints", folder / "best_policy")
    kept = [set_aside(path).name for path in parts if path.exists()]
    there = f"what there was is kept as {' and '.join(kept)}" if kept else "nothing of it was left"
    return [f"begun again at step 0; {there}"]


def _new_progress(curve: Path, notes: list[str]) -> list[str]:
    return [*notes, *([f"the earlier rows are kept as {set_aside(curve).name}"] if curve.exists() else ())]
