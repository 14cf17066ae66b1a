"""Checkpoints: complete or absent, the replay in append-only chunk files that successive checkpoints share.

    <folder>/replay/rows-*.npz           rows of replay, each written once
    <folder>/<steps>/state.npz           weights, average, optimizer, generators, counters, replay's small state
    <folder>/<steps>/COMPLETE            written last
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acer_tf.replay import ReplayCorrupt, TrajectoryReplay

# The previous checkpoint is kept as the one to fall back to.
KEPT = 2
_SENTINEL = "COMPLETE"
_JSON = "json"


class CheckpointError(RuntimeError):
    """No checkpoint could be written or read; the message says which file and why."""


class Snapshot(NamedTuple):
    """What a checkpoint holds besides replay."""

    arrays: dict[str, np.ndarray]  # variables by name
    state: dict[str, Any]  # JSON-able counters and generators


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replay_folder = folder / "replay"

    def save(self, snapshot: Snapshot, replay: TrajectoryReplay | None, step: int) -> None:
        """Writes a checkpoint, then drops all but the newest two and the chunks that neither needs.

        Args:
            snapshot: variables, counters and generators.
            replay: None leaves replay out, as a finished run does.
            step: names the checkpoint.

        Raises:
            CheckpointError: it could not be written (disk full); earlier checkpoints are untouched.
        """
        final = self._folder / f"{step:012d}"
        partial = final.with_suffix(".partial")
        try:
            replay_state = {}
            if replay is not None:
                self._replay_folder.mkdir(parents=True, exist_ok=True)
                replay_state = replay.save(self._replay_folder)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            document = json.dumps(snapshot.state).encode()
            with _durable(partial / "state.npz") as file:
                np.savez(
                    file,
                    **{_JSON: np.frombuffer(document, np.uint8)},
                    **{f"array/{name}": array for name, array in snapshot.arrays.items()},
                    **{f"replay/{name}": array for name, array in replay_state.items()},
                )
            with _durable(partial / _SENTINEL) as file:
                file.write(json.dumps({"step": step, "chunks": _chunks(replay_state)}).encode())
            if final.exists():
                shutil.rmtree(final)
            partial.rename(final)
            _sync_folder(self._folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise CheckpointError(
                f"checkpoint at step {step:,} not written: {error}; the earlier ones in {self._folder} are whole"
            ) from error
        self._clean()

    def restore(self, replay: TrajectoryReplay | None) -> Snapshot | None:
        """The newest checkpoint that is whole, with its rows put into `replay`; None where there is none at all.

        One that is damaged is set aside under another name, with a message, and the previous one is taken.

        Args:
            replay: filled from the checkpoint; None where only weights are wanted (nothing is then set aside).

        Raises:
            CheckpointError: there are checkpoints, but none is whole.
        """
        complete = self._complete()
        for path in reversed(complete):
            try:
                with zipfile.ZipFile(path / "state.npz") as archive:
                    if damaged := archive.testzip():
                        raise zipfile.BadZipFile(f"bad CRC of {damaged}")
                with np.load(path / "state.npz", allow_pickle=False) as archive:
                    members = {name: archive[name] for name in archive.files}
                state = json.loads(members.pop(_JSON).tobytes())
                arrays = _under("array/", members)
                if replay is not None:
                    replay.restore(self._replay_folder, _under("replay/", members))
                return Snapshot(arrays, state)
            except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, ReplayCorrupt) as error:
                print(f"checkpoint {path} is damaged ({error}); falling back to the one before", file=sys.stderr)
                if replay is not None:
                    path.rename(_free_name(path.with_suffix(".damaged")))
        if complete:
            raise CheckpointError(
                f"none of the {len(complete)} checkpoints in {self._folder} is whole; start again in another folder"
            )
        return None

    def _complete(self) -> list[Path]:
        return sorted(p.parent for p in self._folder.glob(f"*/{_SENTINEL}") if p.parent.name.isdigit())

    def _clean(self) -> None:
        complete = self._complete()
        for path in complete[:-KEPT]:
            shutil.rmtree(path)
        needed = {
            chunk for path in complete[-KEPT:] for chunk in json.loads((path / _SENTINEL).read_text())["chunks"]
        }
        for path in self._replay_folder.glob("*"):
            if path.name not in needed:
                path.unlink()


def _chunks(replay_state: Mapping[str, np.ndarray]) -> list[str]:
    return TrajectoryReplay.chunk_files(replay_state) if replay_state else []


def _under(prefix: str, members: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in members.items() if name.startswith(prefix)}


def _free_name(path: Path) -> Path:
    return next(p for p in (path, *(path.with_name(f"{path.name}-{i}") for i in range(2, 1000))) if not p.exists())


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
