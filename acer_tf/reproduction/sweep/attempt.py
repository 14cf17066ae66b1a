"""One attempt at a cell: its process, watched until it ends, stalls, or is asked to stop."""

import contextlib
import dataclasses
import errno
import functools
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from acer_tf.errors import RunFolderError
from acer_tf.reproduction.cells import Cell
from acer_tf.runs.folder import Lock

HOST = socket.gethostname()
PROGRAM = (sys.executable, "-m", "acer_tf", "train")  # the command of a run, without flags
# Asks the kernel to stop the run with SIGTERM when its parent dies, then becomes the run. Not a preexec_fn, because a
# process with threads, such as a Ray worker, can safely do almost nothing between fork and exec. Slurm sends SIGUSR2
# to every process of a task whose time is nearly over; only the one that watches the run answers it.
_TIED_TO_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
if os.getppid() != int(sys.argv[1]):
    sys.exit(128 + signal.SIGTERM)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
os.execv(sys.argv[2], sys.argv[2:])
"""
# Errors of a lock that waiting does not help; others may be a network file system's, which pass.
_LASTING = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EROFS)
STOP_SECONDS = 120.0  # until a run that was asked to stop is killed: enough for a checkpoint of the largest replay
LOCK_SECONDS = 180.0  # a network file system takes a minute or two to free the locks of a lost host
_STDERR_LINES = 20
_STDERR_BYTES = 20_000
EndKind = Literal["ended", "failed", "stopped", "lost"]  # without an error, by an error, by request, with its node


@dataclasses.dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended."""

    kind: EndKind
    reason: str = ""  # why it failed or was lost, in one line
    status: int | None = None  # exit status, minus the signal's number if one killed it; None without a process
    host: str = ""
    stderr: tuple[str, ...] = ()  # the last lines


@dataclasses.dataclass(eq=False)
class Attempt:
    """One attempt at a cell, driven by frequent calls of `poll`; before the first it may go to another machine.

    It waits for the lock of the run's folder, runs, and perhaps stops; each of the three has a deadline.
    """

    cell: Cell
    command: tuple[str, ...]
    cwd: Path
    run_dir: Path
    log: Path  # standard output and error go to this path with .out and .err
    memory: int  # bytes that it needs
    stall_seconds: float  # it is stopped after this time without a new row of progress.csv or a new checkpoint

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = math.inf
        self._progress: object = None
        self._stopping: str | None = None  # why; "" if it was asked to

    @property
    def begun(self) -> bool:
        """Whether it has a process; until then it waits for the lock, or in the cluster's queue."""
        return self.log.with_suffix(".err").exists()

    def poll(self) -> AttemptEnd | None:
        """How the attempt ended; None while it is under way."""
        now = time.monotonic()
        if self._process is None:
            return AttemptEnd("stopped", host=HOST) if self._stopping is not None else self._begin(now)
        if (status := self._process.poll()) is not None:
            return self._end_of(status)
        if self._stopping is None and (progress := _progress_of(self.run_dir)) != self._progress:
            self._progress, self._deadline = progress, now + self.stall_seconds
        elif now > self._deadline:
            if self._stopping is None:
                self._terminate(f"no progress for {self.stall_seconds / 60:.3g} minutes")
            else:
                os.killpg(self._process.pid, signal.SIGKILL)
        return None

    def stop(self) -> None:
        """Asks the process to write a checkpoint and stop; `poll` kills it if it takes too long."""
        if self._stopping is None:
            self._terminate("")

    def close(self) -> None:
        """Kills the process if it is still running."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _begin(self, now: float) -> AttemptEnd | None:
        """Starts the process as soon as nothing holds the folder."""
        self._deadline = min(self._deadline, now + LOCK_SECONDS)
        try:
            Lock(self.run_dir).release()
        except RunFolderError as error:
            lasting = isinstance(error.__cause__, OSError) and error.__cause__.errno in _LASTING
            return AttemptEnd("failed", str(error), host=HOST) if lasting or now > self._deadline else None
        command = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT, str(os.getpid()), *self.command]
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.with_suffix(".out").open("wb") as out, self.log.with_suffix(".err").open("wb") as err:
                # A new session: Ctrl-C reaches only the sweep, which asks each run; a second would stop them at once.
                self._process = subprocess.Popen(
                    command, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
        except OSError as error:
            return AttemptEnd("failed", f"not started: {error}", host=HOST)
        self._deadline = now + self.stall_seconds
        return None

    def _terminate(self, why: str) -> None:
        self._stopping, self._deadline = why, time.monotonic() + STOP_SECONDS
        if self._process is not None:
            self._process.terminate()

    def _end_of(self, status: int) -> AttemptEnd:
        with self.log.with_suffix(".err").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _STDERR_BYTES))
            stderr = file.read().decode(errors="replace").splitlines()[-_STDERR_LINES:]
        end = functools.partial(AttemptEnd, status=status, host=HOST, stderr=tuple(stderr))
        if status == 0:
            return end("ended")
        if self._stopping is not None:
            return end("failed" if self._stopping else "stopped", self._stopping)
        if status < 0:
            return end("failed", f"killed by {signal.Signals(-status).name}")
        lines = [line for line in stderr if line.strip()]
        said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines
        return end("failed", ": ".join([f"exit status {status}", *said[-1:]]))


def _progress_of(run_dir: Path) -> list[object]:
    """A value that changes when the run makes progress."""
    found: list[object] = []
    for path in (run_dir / "progress.csv", run_dir / "checkpoints", run_dir / "run.json"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((path.name, stat.st_mtime_ns, stat.st_size))
    return found
