"""The progress of a run: progress.csv, TensorBoard events and a printed line."""

from __future__ import annotations

import csv
import datetime
import os
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from acer_tf.training.lock import RunFolderError


class Progress:
    """progress.csv and TensorBoard: one row per log interval, both cut back to the checkpoint when a run resumes.

    Args:
        folder: the run folder.
        step: environment steps at the checkpoint; 0 for a new run.
        position: bytes of progress.csv at the checkpoint.

    Raises:
        RunFolderError: progress.csv is shorter than the checkpoint says.
    """

    def __init__(self, folder: Path, step: int, position: int) -> None:
        self._path = folder / "progress.csv"
        size = self._path.stat().st_size if self._path.exists() else 0
        if size < position:
            raise RunFolderError(
                f"{self._path} has {size} bytes, but had {position} at the checkpoint of step {step:,}: put the file "
                "back, or start again in another folder"
            )
        self._file = self._path.open("a+", newline="")
        self._file.truncate(position)
        self._columns: list[str] | None = None
        if position:
            self._file.seek(0)
            self._columns = next(csv.reader(self._file))
            self._file.seek(0, os.SEEK_END)
        self._events = EventFileWriter(str(folder / "tensorboard"))
        # TensorBoard discards what an earlier process logged from this step on.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._events.add_event(event_pb2.Event(wall_time=time.time(), step=step + 1, session_log=start))

    def position(self) -> int:
        """Bytes of progress.csv, after syncing it to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._path.stat().st_size

    def write(self, row: Mapping[str, float | int | None]) -> None:
        """Appends one row; None is an empty cell. The first row sets the columns.

        Raises:
            RunFolderError: the file has other columns: a different version wrote it.
        """
        writer = csv.writer(self._file, lineterminator="\n")
        if self._columns is None:
            self._columns = list(row)
            writer.writerow(self._columns)
        if list(row) != self._columns:
            raise RunFolderError(f"{self._path} has the columns {self._columns}, not {list(row)}")
        writer.writerow(["" if value is None else value for value in row.values()])
        self._file.flush()
        values = [
            summary_pb2.Summary.Value(tag=name, simple_value=value) for name, value in row.items() if value is not None
        ]
        event = event_pb2.Event(
            wall_time=time.time(), step=int(row["steps"] or 0), summary=summary_pb2.Summary(value=values)
        )
        self._events.add_event(event)
        self._events.flush()

    def close(self) -> None:
        self._file.close()
        self._events.close()


def progress_line(row: Mapping[str, float | int | None], total_steps: int) -> str:
    """Steps, frames, rate, time left and mean return, in one line."""
    steps, rate = row["steps"] or 0, row["steps_per_second"] or 0.0
    left = datetime.timedelta(seconds=round(max(0, total_steps - steps) / rate)) if rate else "?"
    mean_return = "no episode finished yet" if row["mean_return"] is None else f"mean return {row['mean_return']:.2f}"
    return (
        f"{100 * steps / total_steps:5.1f} %  {steps:,} steps ({row['frames']:,} frames)  {rate:,.0f} steps/s  "
        f"{left} left  {mean_return}"
    )
