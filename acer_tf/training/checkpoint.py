"""Checkpoints: complete or absent. Successive checkpoints share the replay's append-only chunk files.

<folder>/replay/rows-*.npz    rows of the replay, each written once
<folder>/<steps>/state.npz    weights, average policy network, optimizer, generators, counters, the replay's small state
<folder>/<steps>/COMPLETE     written last
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acer_tf.replay import TrajectoryReplay

KEPT = 2  # the newest checkpoint, and one to fall back to
_STATE = "state.npz"
_SENTINEL = "COMPLETE"
_JSON = "json"


class CheckpointError(RuntimeError):
    """No checkpoint could be written or read; the message says which file and why."""


class Snapshot(NamedTuple):
    """What a checkpoint holds besides the replay."""

    arrays: dict[str, np.ndarray]  # variables by name
    state: dict[str, Any]  # JSON-able counters and generators


class Checkpoints:
    """The checkpoints of one run in `folder`, which the first one creates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replay_folder = folder / "replay"

    def save(self, snapshot: Snapshot, replay: TrajectoryReplay | None, step: int) -> None:
        """Writes a checkpoint, then deletes all but the newest two, and the chunks that neither needs.

        Args:
            snapshot: variables, counters and generators.
            replay: None for the last checkpoint of a finished run: without replay, and all earlier ones are deleted.
            step: names the checkpoint; if that name is taken, the next free number does.

        Raises:
            CheckpointError: it could not be written (disk full); earlier checkpoints are untouched.
        """
        final = self._folder / f"{max([step, *(int(path.name) + 1 for path in self._complete())]):012d}"
        partial = final.with_suffix(".partial")
        kept = KEPT
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            replay_state = {}
            if replay is not None:
                self._replay_folder.mkdir(exist_ok=True)
                replay_state = replay.save(self._replay_folder)
            members: dict[str, Any] = {
                _JSON: np.frombuffer(json.dumps(snapshot.state).encode(), np.uint8),
                **{f"array/{name}": array for name, array in snapshot.arrays.items()},
                **{f"replay/{name}": array for name, array in replay_state.items()},
            }
            with _durable(partial / _STATE) as file:
                np.savez(file, **members)
            with _durable(partial / _SENTINEL):
                pass
            _sync_folder(partial)
            partial.rename(final)
            _sync_folder(self._folder)
            if replay is None:
                kept = 1
        except OSError as error:
            raise CheckpointError(
                f"checkpoint at step {step:,} not written: {error}; the earlier ones in {self._folder} are intact"
            ) from error
        finally:
            self._clean(kept)

    def restore(self, replay: TrajectoryReplay | None) -> Snapshot | None:
        """The newest undamaged checkpoint, its rows restored into `replay`; None if there are no checkpoints.

        Damaged checkpoints are reported and renamed. The checkpoint of a finished run leaves `replay` unchanged.

        Args:
            replay: filled from the checkpoint; None to read only the snapshot (nothing is renamed then).

        Raises:
            CheckpointError: all checkpoints are damaged.
        """
        complete = self._complete()
        damaged = []
        for path in reversed(complete):
            try:
                members = _read(path / _STATE)
                snapshot = Snapshot(_under("array/", members), json.loads(members[_JSON].tobytes()))
                replay_state = _under("replay/", members)
                if replay is not None and replay_state:
                    replay.restore(self._replay_folder, replay_state)
            except Exception as error:  # damaged bytes raise nearly anything
                print(f"checkpoint {path} is damaged ({type(error).__name__}: {error})", file=sys.stderr)
                damaged.append(path)
                continue
            if damaged:
                print(f"falling back to the previous checkpoint, {path}", file=sys.stderr)
            if replay is not None:
                for other in damaged:
                    set_aside(other)
            return snapshot
        if complete:
            raise CheckpointError(
                f"all {len(complete)} checkpoints in {self._folder} are damaged; start again in another folder"
            )
        return None

    def _complete(self) -> list[Path]:
        return sorted(p.parent for p in self._folder.glob(f"*/{_SENTINEL}") if p.parent.name.isdigit())

    def _clean(self, kept: int) -> None:
        """Deletes all but the newest `kept` checkpoints, incomplete ones, and chunks that none needs."""
        complete = self._complete()
        for path in complete[:-kept]:
            (path / _SENTINEL).unlink()  # first, so that a partly deleted checkpoint is incomplete
        for path in self._folder.glob("*"):
            incomplete = path.name.isdigit() and not (path / _SENTINEL).exists()
            if incomplete or path.suffix == ".partial":
                shutil.rmtree(path)
        try:
            states = [_under("replay/", _read(path / _STATE)) for path in complete[-kept:]]
        except Exception:  # the chunks of a damaged checkpoint are not known
            return
        needed = {name for state in states if state for name in TrajectoryReplay.chunk_files(state)}
        for path in self._replay_folder.glob("*"):
            if path.name not in needed:
                path.unlink()


def _read(path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        # Reading a member whole checks its CRC before it is parsed.
        return {
            name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            for name in archive.namelist()
        }


def _under(prefix: str, members: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in members.items() if name.startswith(prefix)}


def set_aside(path: Path) -> Path:
    """Renames a damaged `path` to the first free <name>.damaged-<n>; returns the new path."""
    names = (path.with_name(f"{path.name}.damaged-{n}") for n in itertools.count(1))
    return path.rename(next(name for name in names if not name.exists()))


@contextlib.contextmanager
def _durable(path: Path) -> Iterator[Any]:
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
