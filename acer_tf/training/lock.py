"""Exclusive use of a folder by one process."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path


class RunFolderError(RuntimeError):
    """The run folder cannot be used: the message says why and what to do."""


class Lock:
    """Exclusive use of a run folder by one process, until `release` or the end of the process.

    Args:
        folder: created if it does not exist.
        flag: that named it, for messages.

    Raises:
        RunFolderError: another process holds it (names its host and pid), or it cannot be created.
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
