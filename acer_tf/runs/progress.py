"""The progress of a run: progress.csv, TensorBoard events and a printed line."""

import contextlib
import csv
import datetime
import hashlib
import io
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tensorflow as tf
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from acer_tf.errors import RunFolderError
from acer_tf.files import named


class Progress:
    """progress.csv and TensorBoard: one row per log interval, both cut back to the checkpoint when a run resumes.

    Args:
        folder: the run's.
        step: environment steps at the checkpoint; 0 for a new run.
        position: bytes of progress.csv at the checkpoint, which are there still (see `folder.resume`).
        settings: the run's, which TensorBoard shows as hparams.
    """

    def __init__(
        self, folder: Path, step: int, position: int, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._path = folder / "progress.csv"
        self._file = self._path.open("a+b")
        self._file.seek(0)
        kept, later = self._file.read(position), self._file.read()
        if (cut := later.count(b"\n") - (not position)) > 0:
            print(f"{self._path}: {cut} rows after step {step:,} are cut and made again", file=sys.stderr)
        self._file.truncate(position)
        # The checksum is of what was written, not of what the disk holds later.
        self._written, self._sha256 = position, hashlib.sha256(kept)
        self._columns = next(csv.reader([kept.decode().partition("\n")[0]])) if position else None
        # TensorBoard discards what an earlier process logged from this step on.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        with _os_errors():
            self._events = EventFileWriter(str(folder / "tensorboard"))
            self._events.add_event(event_pb2.Event(wall_time=time.time(), step=step + 1, session_log=start))
            if settings and not position:
                given = hparams_pb({name: value for name, value in settings.items() if value is not None})
                self._events.add_event(event_pb2.Event(wall_time=time.time(), step=0, summary=given))

    def state(self) -> dict[str, Any]:
        """JSON-able: bytes of progress.csv and their checksum, after syncing it to disk."""
        with named(self._path):
            os.fsync(self._file.fileno())
        return {"position": self._written, "progress_sha256": self._sha256.hexdigest()}

    def write(self, row: Mapping[str, float | int | None]) -> None:
        """Appends one row; None is an empty cell. The first sets the columns; others in a later one: RunFolderError."""
        head = [] if self._columns else [list(row)]
        self._columns = self._columns or list(row)
        if list(row) != self._columns:
            raise RunFolderError(f"{self._path} has the columns {self._columns}, not {list(row)}")
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*head, row.values()])
        lines = text.getvalue().encode()
        with named(self._path):
            self._file.write(lines)
            self._file.flush()
        self._written += len(lines)
        self._sha256.update(lines)
        given = {name: value for name, value in row.items() if value is not None}
        summary = summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag=name, simple_value=value) for name, value in given.items()]
        )
        with _os_errors():
            self._events.add_event(event_pb2.Event(wall_time=time.time(), step=int(given["steps"]), summary=summary))
            self._events.flush()

    def close(self) -> None:
        with named(self._path):
            self._file.close()
        with _os_errors():
            self._events.close()


def require_diagnostics(folder: Path, diagnostics: Sequence[str]) -> None:
    """Raises RunFolderError if progress.csv has rows with other diagnostics, as after a change of the agent's code."""
    path = folder / "progress.csv"
    with path.open(encoding="utf-8", newline="") as file:
        there = [name for name in next(csv.reader(file), ()) if "/" in name]
    if there and there != list(diagnostics):
        differing = ", ".join(sorted({*there} ^ {*diagnostics})) or "their order"
        raise RunFolderError(
            f"{path} has other diagnostics than the agent ({differing}): move it away and give --repair=progress to "
            "continue with a new one"
        )


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """TensorBoard writes through TensorFlow, whose error for a full disk is not an OSError."""
    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(error.message) from error


def progress_line(row: Mapping[str, float | int | None], total_steps: int, slower_at: int = 0) -> str:
    """Steps, frames, rate, time left and mean return of a row of progress.csv, in one line.

    Up to the step `slower_at`, from which the rate is the run's usual one, the time left is a lower bound.
    """
    steps, rate = row["steps"] or 0, row["steps_per_second"] or 0.0
    left = str(datetime.timedelta(seconds=round(max(0, total_steps - steps) / rate))) if rate else "?"
    if steps < min(slower_at, total_steps):
        left = f"more than {left}"
    mean_return = "no episode finished yet" if row["mean_return"] is None else f"mean return {row['mean_return']:.2f}"
    score = row.get("evaluation_return")
    evaluated = "" if score is None else f", {score:.2f} in evaluation"
    return (
        f"{100 * min(1, steps / total_steps):5.1f} %  {steps:,} steps ({row['frames']:,} frames)  {rate:,.0f} steps/s  "
        f"{left} left  {mean_return}{evaluated}"
    )
