"""What a run writes for people: its lock, run.json, progress.csv, TensorBoard events and the progress line."""

from __future__ import annotations

import csv
import datetime
import fcntl
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from acer_tf.settings import jsonable

_PACKAGES = ("acer_tf", "tensorflow", "keras", "tensorflow-probability", "gymnasium", "ale-py", "minatar", "numpy")


class RunFolderError(RuntimeError):
    """The run folder cannot be used: the message says why and what to do."""


class Lock:
    """Exclusive use of a run folder by one process, until `release` or the process's end, however it ends.

    Args:
        folder: made where it does not exist.
        flag: that named it, for messages.

    Raises:
        RunFolderError: another process holds it (names its host and pid), or it cannot be made.
    """

    def __init__(self, folder: Path, flag: str = "run_dir") -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / "lock").open("a+")
        except OSError as error:
            raise RunFolderError(f"--{flag}={folder} cannot be used: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "an unknown process"
            self._file.close()
            raise RunFolderError(f"--{flag}={folder} is in use by {holder}") from error
        self._file.truncate(0)
        self._file.write(f"host {socket.gethostname()}, pid {os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.truncate(0)
        self._file.close()


def run_document(settings: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of a run: the settings, and where, when, by which command and code it was made."""
    return {
        "command": ["python", *sys.orig_argv[1:]],
        "settings": jsonable(settings),
        **details,
        "commit": git_commit(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | package_versions(),
        "machine": {
            "host": socket.gethostname(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        },
    }


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes `path` whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n")
    partial.replace(path)


def git_commit() -> str | None:
    """The commit of the checkout that holds this package, "+changes" behind it where it differs; None outside one."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", *arguments]
        return subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that decide what a run computes."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


class Progress:
    """progress.csv and TensorBoard: one row per log interval, both cut back to the checkpoint when a run continues.

    Args:
        folder: the run folder.
        step: environment steps at the checkpoint, 0 for a new run.
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
        # TensorBoard drops what an earlier process logged beyond this step.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._events.add_event(event_pb2.Event(wall_time=time.time(), step=step + 1, session_log=start))

    def position(self) -> int:
        """Bytes of progress.csv, all of them on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._path.stat().st_size

    def write(self, row: Mapping[str, float | int | None]) -> None:
        """Appends one row; None is an empty cell. The first row decides the columns.

        Raises:
            RunFolderError: the row's columns are not those of the file, which other code wrote.
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
    """One line for a person: steps, frames, rate, time left, latest mean return."""
    steps, rate = row["steps"] or 0, row["steps_per_second"] or 0.0
    left = datetime.timedelta(seconds=round(max(0, total_steps - steps) / rate)) if rate else "?"
    mean_return = "no game finished yet" if row["mean_return"] is None else f"mean return {row['mean_return']:.2f}"
    return (
        f"{100 * steps / total_steps:5.1f} %  {steps:,} steps ({row['frames']:,} frames)  {rate:,.0f} steps/s  "
        f"{left} left  {mean_return}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
