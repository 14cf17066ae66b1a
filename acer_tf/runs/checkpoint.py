"""Checkpoints: complete or absent. Successive checkpoints share the replay's append-only chunk files.

<folder>/replay/rows-*.npz    rows of the replay, each written once
<folder>/<steps>/state.npz    weights, average policy network, optimizer, generators, counters, the replay's small state

A checkpoint gets its name once it is complete; until then it is <steps>.partial. Everything else in the folder is left
alone.
"""

import contextlib
import os
import re
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acer_tf.errors import CheckpointError, Mismatch
from acer_tf.files import durable, is_damage, set_aside, sync
from acer_tf.replay import ReplayCorrupt, TrajectoryReplay
from acer_tf.replay.chunks import decode, encode, is_chunk_file, read_arrays, write_arrays

KEPT = 2  # the newest checkpoint, and one to fall back to
_STATE = "state.npz"
_JSON = "json"
_NAME = re.compile(r"[0-9]{12,18}")


class DamagedError(CheckpointError):
    """There are checkpoints, and the weights of none can be read."""


class Snapshot(NamedTuple):
    """The content of a checkpoint besides the replay."""

    arrays: dict[str, np.ndarray]  # variables by name
    state: dict[str, Any]  # JSON-able counters and generators
    lost: str = ""  # the part of the replay that could not be restored, in words


class Checkpoints:
    """The checkpoints of one run in `folder`, which the first one creates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replay_folder = folder / "replay"

    def save(self, snapshot: Snapshot, replay: TrajectoryReplay | None, step: int) -> None:
        """Writes a checkpoint, then deletes all but the newest two, and the chunks that neither needs.

        Args:
            snapshot: what to write.
            replay: None for the last checkpoint of a finished run: without replay, and all earlier ones are deleted.
            step: names the checkpoint, or the next free number above all others, if that is higher.

        Raises:
            CheckpointError: it could not be written (disk full); earlier checkpoints are untouched.
        """
        number = max([step, *(int(path.name) + 1 for path in self._checkpoints())])
        kept = KEPT
        try:
            for leftover in self._checkpoints(".partial"):
                _delete(leftover)
            while any(os.path.lexists(name) for name in self._names(number)):
                number += 1
            final, partial = self._names(number)
            partial.mkdir(parents=True)
            replay_state = {}
            if replay is not None:
                self._replay_folder.mkdir(exist_ok=True)
                replay_state = replay.save(self._replay_folder)
            members = {
                **{f"array/{name}": array for name, array in snapshot.arrays.items()},
                **{f"replay/{name}": array for name, array in replay_state.items()},
            }
            document = {"state": snapshot.state, "members": [*members]}
            with durable(partial / _STATE) as file:
                write_arrays(file, members | {_JSON: encode(document)})
            sync(partial)
            partial.rename(final)
            sync(self._folder)
            if replay is None:
                kept = 1
        except OSError as error:
            left = f"the earlier ones in {self._folder} are intact" if self.saved() else "there is no earlier one"
            raise CheckpointError(f"checkpoint at step {step:,} not written: {error}; {left}") from error
        finally:
            self._clean(kept)

    def restore(self, replay: TrajectoryReplay | None, *, salvage: bool = False) -> Snapshot | None:
        """The newest undamaged checkpoint, its rows restored into `replay`; None if there are no checkpoints.

        Damaged checkpoints are reported, and renamed if another is whole. The checkpoint of a finished run leaves
        `replay` unchanged.

        Args:
            replay: filled from the checkpoint; None to read only the snapshot (nothing is renamed then).
            salvage: if all are damaged, take the newest with damage in the replay only, and the newest rows of that
                replay that can be read.

        Raises:
            DamagedError: no checkpoint's weights can be read; says how to go on.
            Mismatch: the newest checkpoint that can be read is of another version or of a replay of other sizes.
            CheckpointError: no checkpoint's replay can be read, or a file cannot be read at present.
        """
        checkpoints = self._checkpoints()
        damaged: list[Path] = []
        usable: Path | None = None  # the newest with damage in the replay only
        for path in reversed(checkpoints):
            try:
                snapshot = self._load(path, replay)
            except Exception as error:  # damaged bytes raise nearly anything
                if replay is None and not path.is_dir():  # deleted meanwhile by its run, which has saved a newer one
                    return self.restore(None)
                what = f"({type(error).__name__}: {error})"
                if isinstance(error, Mismatch):
                    raise Mismatch(f"checkpoint {path} is not of this run's version and sizes: {error}") from error
                if not is_damage(error):
                    raise CheckpointError(f"checkpoint {path} cannot be read at present {what}") from error
                print(f"checkpoint {path} is damaged {what}", file=sys.stderr)
                if isinstance(error, ReplayCorrupt):
                    usable = usable or path
                damaged.append(path)
                continue
            if damaged:
                print(f"falling back to the previous checkpoint, {path}", file=sys.stderr)
            if replay is not None:
                for other in damaged:
                    set_aside(other)
            return snapshot
        if not checkpoints:
            return None
        if usable is None:
            raise DamagedError(
                f"all {len(checkpoints)} checkpoints in {self._folder} are damaged: give --repair=restart to begin "
                "again at step 0, or choose another folder"
            )
        if replay is None or not salvage:
            raise CheckpointError(
                f"all {len(checkpoints)} checkpoints in {self._folder} are damaged, but the weights of {usable} are "
                "whole: --repair=replay continues with the part of the replay that can be read, and acer_tf export "
                "writes its policy"
            )
        snapshot = self._load(usable, replay, salvage=True)
        for other in damaged[: damaged.index(usable)]:
            set_aside(other)
        return snapshot._replace(lost=f"{replay.stored:,} rows per environment are left of a damaged replay")

    def _load(self, path: Path, replay: TrajectoryReplay | None, *, salvage: bool = False) -> Snapshot:
        snapshot, replay_state = _snapshot(path)
        if replay is not None and replay_state:
            replay.restore(self._replay_folder, replay_state, salvage=salvage)
        return snapshot

    def uncompressed_bytes(self) -> int:
        """Of the newest checkpoint, without replay. Only at a run's beginning is its file much smaller."""
        with zipfile.ZipFile(self._folder / max(self.saved()) / _STATE) as archive:
            return sum(member.file_size for member in archive.infolist())

    def saved(self) -> set[str]:
        """The names of the checkpoints that there are; a later one never has the name of an earlier one."""
        return {path.name for path in self._checkpoints()}

    def _names(self, number: int) -> tuple[Path, Path]:
        return self._folder / f"{number:012d}", self._folder / f"{number:012d}.partial"

    def _checkpoints(self, suffix: str = "") -> list[Path]:
        """Folders that `save` made, oldest first."""
        found = [
            path
            for path in self._folder.glob(f"*{suffix}")
            if _NAME.fullmatch(path.name.removesuffix(suffix)) and path.is_dir() and not path.is_symlink()
        ]
        if not suffix:  # a partial one may not have its file yet
            whole = [int(path.name) for path in found if (path / _STATE).exists()]
            # An interrupted deletion leaves an empty folder of an older checkpoint. A newest one has lost its file.
            found = [path for path in found if int(path.name) in whole or int(path.name) > max(whole, default=-1)]
        return sorted(found, key=lambda path: int(path.stem))

    def _clean(self, kept: int) -> None:
        """Deletes all but the newest `kept` checkpoints, incomplete ones, and chunks that none needs."""
        checkpoints = self._checkpoints()
        for path in [*checkpoints[:-kept], *self._checkpoints(".partial")]:
            _delete(path)
        try:
            states = [_snapshot(path)[1] for path in checkpoints[-kept:]]
        except Exception:  # the chunks of a damaged checkpoint are not known
            return
        needed = {name for state in states if state for name in TrajectoryReplay.chunk_files(state)}
        for path in self._replay_folder.glob("*"):
            if is_chunk_file(path) and path.name not in needed:
                _remove(path)


def _snapshot(path: Path) -> tuple[Snapshot, dict[str, np.ndarray]]:
    """The snapshot of a checkpoint, and the small state of its replay; empty for a finished run."""
    with zipfile.ZipFile(path / _STATE) as archive:
        members = read_arrays(archive)
    document = decode(members.pop(_JSON))
    if [*members] != document["members"]:  # a flipped bit in the table of contents can hide the members after it
        raise ValueError("it lacks a part of what was saved")
    arrays, replay_state = (
        {name.removeprefix(prefix): array for name, array in members.items() if name.startswith(prefix)}
        for prefix in ("array/", "replay/")
    )
    return Snapshot(arrays, document["state"]), replay_state


def _delete(path: Path) -> None:
    _remove(path / _STATE)
    with contextlib.suppress(OSError):  # it holds something that is not ours
        path.rmdir()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # the next save tries again
        path.unlink(missing_ok=True)
