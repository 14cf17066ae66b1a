"""One attempt at a cell: its process, watched until it ends, stalls, or is asked to stop."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from acer_tf.errors import RunFolderError
from acer_tf.runs.folder import Lock

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
_STDERR_LINES = 20
_STDERR_BYTES = 20_000


@dataclasses.dataclass(frozen=True)
class Job:
    """What to run, and its time limits."""

    name: str  # of the cell
    label: str  # of the cell, for display
    command: tuple[str, ...]
    cwd: Path
    run_dir: Path
    log: Path  # standard output and error go to this path with .out and .err
    actors: int  # that it has
    memory: int  # bytes that it needs
    stall_seconds: float  # it is stopped after this time without a new row of progress.csv or a new checkpoint
    stop_seconds: float  # it is killed this long after it was asked to stop
    lock_seconds: float  # how long to wait for a run folder that another process holds, as on a lost node


@dataclasses.dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended: without an error, by failing, by request, or with its node."""

    kind: Literal["ended", "failed", "stopped", "lost"]
    reason: str = ""  # of a failure or loss, in one line
    status: int | None = None  # exit status, minus the signal's number if one killed it; None without a process
    host: str = ""
    stderr: tuple[str, ...] = ()  # the last lines


class Attempt:
    """The process of one job, driven by frequent calls of `poll`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._began = self._moved = time.monotonic()
        self._state: object = None
        self._stopping = ""  # why
        self._asked = False
        self._kill_at = 0.0

    def poll(self) -> AttemptEnd | None:
        """How the attempt ended; None while it is under way."""
        job, now = self._job, time.monotonic()
        if self._process is None:
            if self._asked:
                return self._end("stopped")
            try:
                Lock(job.run_dir).release()
            except RunFolderError as error:
                lasting = isinstance(error.__cause__, OSError) and error.__cause__.errno in _LASTING
                waits = not lasting and now - self._began <= job.lock_seconds
                return None if waits else self._end("failed", str(error))
            try:
                self._start()
            except OSError as error:
                return self._end("failed", f"not started: {error}")
            return None
        status = self._process.poll()
        if status is not None:
            return self._ended(status)
        if self._stopping or self._asked:
            if now > self._kill_at:
                self._kill()
            return None
        state = _state_of(job.run_dir)
        if state != self._state:
            self._state, self._moved = state, now
        elif now - self._moved > job.stall_seconds:
            self._stopping = f"no progress for {job.stall_seconds / 60:.3g} minutes"
            self._terminate()
        return None

    def stop(self) -> None:
        """Asks the process to write a checkpoint and stop; `poll` kills it if it takes too long."""
        if not self._asked:
            self._asked = True
            if not self._stopping:
                self._terminate()

    def close(self) -> None:
        """Kills the process if it is still running."""
        if self._process is not None and self._process.poll() is None:
            self._kill()
            self._process.wait()

    def _start(self) -> None:
        job = self._job
        command = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT, str(os.getpid()), *job.command]
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.with_suffix(".out").open("wb") as out, job.log.with_suffix(".err").open("wb") as err:
            # A new session: Ctrl-C reaches only the sweep, which asks each run; a second would stop them at once.
            self._process = subprocess.Popen(
                command, cwd=job.cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self._state, self._moved = _state_of(job.run_dir), time.monotonic()

    def _terminate(self) -> None:
        self._kill_at = time.monotonic() + self._job.stop_seconds
        if self._process is not None:
            self._process.terminate()

    def _kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _ended(self, status: int) -> AttemptEnd:
        if status == 0:
            return self._end("ended", status=0)
        if self._stopping:
            return self._end("failed", self._stopping, status)
        if self._asked:
            return self._end("stopped", status=status)
        if status < 0:
            return self._end("failed", f"killed by {signal.Signals(-status).name}", status)
        how, lines = f"exit status {status}", self._stderr()
        said = [line for line in lines if line.startswith("error: ")] or [line for line in lines if line.strip()]
        return self._end("failed", f"{how}: {said[-1].removeprefix('error: ')}" if said else how, status)

    def _end(
        self, kind: Literal["ended", "failed", "stopped"], reason: str = "", status: int | None = None
    ) -> AttemptEnd:
        return AttemptEnd(kind, reason, status, socket.gethostname(), self._stderr())

    def _stderr(self) -> tuple[str, ...]:
        if self._process is None:
            return ()
        with self._job.log.with_suffix(".err").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _STDERR_BYTES))
            return tuple(file.read().decode(errors="replace").splitlines()[-_STDERR_LINES:])


def _state_of(run_dir: Path) -> tuple[object, ...]:
    """Changes when the run makes progress."""
    found: list[object] = []
    for path in (run_dir / "progress.csv", run_dir / "checkpoints", run_dir / "run.json"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((path.name, stat.st_mtime_ns, stat.st_size))
    return tuple(found)
