"""Exclusive use of a folder by one process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path


class RunFolderError(RuntimeError):
    """The run folder cannot be used: the message says why and what to do."""


class Lock:
    """Exclusive use of a run folder by one process, until `release` or the end of the process.

    Args:
        folder: created if it does not exist, and deleted by `release` if nothing was written to it.
        flag: that named it, for messages.

    Raises:
        RunFolderError: another process holds it (names its host and pid), or it cannot be created.
    """

    def __init__(self, folder: Path, flag: str = "run_dir") -> None:
        self._path = folder / "lock"
        self._made: list[Path] = []
        try:
            self._made = [path for path in (folder, *folder.parents) if not path.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            # A link would be written through.
            self._file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
        except OSError as error:
            self._delete_made()
            raise RunFolderError(f"--{flag}={folder} cannot be used: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                raise OSError("its holder has just deleted it")
        except OSError as error:
            holder = self._file.read().strip() or "an unknown process"
            self._file.close()
            raise RunFolderError(f"--{flag}={folder} is in use by {holder}") from error
        self._file.truncate(0)
        self._file.write(f"host {socket.gethostname()}, pid {os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        self._file.truncate(0)
        with contextlib.suppress(OSError):
            if self._made and os.listdir(self._path.parent) == [self._path.name]:
                self._path.unlink()
        self._file.close()
        self._delete_made()

    def _delete_made(self) -> None:
        for path in self._made:
            with contextlib.suppress(OSError):  # not empty, or not made
                path.rmdir()
