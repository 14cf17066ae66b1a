"""Files that hold runs of rows: each written once, whole or not at all, and shared by successive checkpoints."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class ReplayCorrupt(Exception):
    """A chunk file that a saved state refers to is missing, damaged, or not the one that was saved."""


class Chunk(NamedTuple):
    """One chunk file of the acted rows [first, last), as absolute numbers.

    The checksum of its content is part of its name. So chunks of the same rows but other content, as a run leaves
    behind that went another way from the same checkpoint, never take each other's place.
    """

    first: int
    last: int
    checksum: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"rows-{self.first}-{self.last}-{self.checksum:08x}.npz"


def chunks_from(row: int, chunks: Sequence[Chunk], folder: Path) -> list[Chunk]:
    """The unbroken run of chunks, in order, that starts at or before `row` and whose files are all in `folder`."""
    unbroken: list[Chunk] = []
    for chunk in chunks:
        if chunk.first <= row < chunk.last and (folder / chunk.name).is_file():
            unbroken.append(chunk)
            row = chunk.last
    return unbroken


def write_chunk(folder: Path, first: int, last: int, arrays: Mapping[str, np.ndarray]) -> Chunk:
    """Writes arrays as the chunk of rows [first, last): under another name, synchronised, then renamed.

    Raises:
        OSError: the disk is full, or not writable. No chunk has appeared, and none has changed.
    """
    temporary = folder / "rows.tmp"
    members: dict[str, Any] = dict(arrays)
    try:
        with temporary.open("wb") as file:
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        with zipfile.ZipFile(temporary) as archive:
            chunk = Chunk(first, last, _checksum(archive))
        temporary.replace(folder / chunk.name)
    finally:
        temporary.unlink(missing_ok=True)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)  # else a power cut may take the new name back
    finally:
        os.close(directory)
    return chunk


def read_chunk(folder: Path, chunk: Chunk) -> dict[str, np.ndarray]:
    """The arrays that `write_chunk` wrote.

    Raises:
        ReplayCorrupt: the file is missing, or not bit for bit what was written.
    """
    path = folder / chunk.name
    try:
        with zipfile.ZipFile(path) as archive:
            if _checksum(archive) != chunk.checksum:
                raise ValueError("its content is not what was saved")
            # A member is read, and thereby checked, in full before anything in it is believed: np.load on the zip file
            # would believe a damaged header that says the array is shorter, and never reach the check at its end.
            return {
                member.removesuffix(".npy"): np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
                for member in archive.namelist()
            }
    except Exception as error:  # zipfile raises nearly anything on a damaged table of contents
        raise ReplayCorrupt(f"replay chunk {path} cannot be used: {type(error).__name__}: {error}") from error


def _checksum(archive: zipfile.ZipFile) -> int:
    """One checksum of the checksums of a zip file's members."""
    return zlib.crc32(repr([(member.filename, member.CRC) for member in archive.infolist()]).encode())
