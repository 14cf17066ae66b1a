"""Chunk files: consecutive rows, written once and atomically, and shared by successive checkpoints."""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acer_tf.files import durable, is_damage, sync

_TEMPORARY = "rows.tmp"
_NAME = re.compile(rf"rows-[0-9]+-[0-9]+-[0-9a-f]{{8}}\.npz|{re.escape(_TEMPORARY)}")


class ReplayCorrupt(Exception):
    """A chunk file of a saved state is missing, damaged, or not the file that was saved."""


def is_chunk_file(path: Path) -> bool:
    """Whether `write_chunk` writes files of this name; other files in its folder do not belong to the replay."""
    return _NAME.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


class Chunk(NamedTuple):
    """The identity of a chunk file, which holds the acted rows [first, last) in absolute numbers.

    The checksum of the content is part of the file's name, so that two runs continued from one checkpoint never replace
    each other's chunks.
    """

    first: int
    last: int
    checksum: int

    @property
    def name(self) -> str:
        return f"rows-{self.first}-{self.last}-{self.checksum:08x}.npz"


def chunks_from(row: int, chunks: Sequence[Chunk], folder: Path) -> list[Chunk]:
    """The consecutive chunks from `row` on, up to the first whose file is missing in `folder`."""
    unbroken: list[Chunk] = []
    for chunk in chunks:
        if chunk.first <= row < chunk.last and (folder / chunk.name).is_file():
            unbroken.append(chunk)
            row = chunk.last
    return unbroken


def write_chunk(folder: Path, first: int, last: int, arrays: Mapping[str, np.ndarray]) -> Chunk:
    """Writes arrays as the chunk of rows [first, last), durably: it is there whole under its name, or not at all.

    Raises:
        OSError: the disk is full or not writable; all chunks are as before.
    """
    temporary = folder / _TEMPORARY
    members: dict[str, Any] = dict(arrays)
    temporary.unlink(missing_ok=True)  # not written through, in case it is a link
    try:
        with durable(temporary) as file:
            np.savez(file, **members)
        with zipfile.ZipFile(temporary) as archive:
            chunk = Chunk(first, last, _checksum(archive))
        temporary.replace(folder / chunk.name)
    finally:
        temporary.unlink(missing_ok=True)
    sync(folder)
    return chunk


def read_chunk(folder: Path, chunk: Chunk) -> dict[str, np.ndarray]:
    """The arrays that `write_chunk` wrote.

    Raises:
        ReplayCorrupt: the file is missing or its content has changed.
        Exception: reading failed for another reason (see `files.is_damage`), and the file may be whole.
    """
    path = folder / chunk.name
    try:
        with zipfile.ZipFile(path) as archive:
            if _checksum(archive) != chunk.checksum:
                raise ValueError("its content is not what was saved")
            return read_arrays(archive)
    except Exception as error:  # zipfile raises many types on a damaged table of contents
        if not is_damage(error):
            raise
        raise ReplayCorrupt(f"replay chunk {path} cannot be used: {type(error).__name__}: {error}") from error


def read_arrays(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, by name, each checked.

    Reading a whole member checks it. np.load on the zip file would trust a damaged header with a shorter array, and
    never reach the checksum at the member's end.
    """
    return {
        member.removesuffix(".npy"): np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
        for member in archive.namelist()
    }


def encode(value: Any) -> np.ndarray:
    """`value` as JSON, in a uint8 array."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def decode(array: np.ndarray) -> Any:
    """The inverse of `encode`."""
    return json.loads(bytes(array))


def _checksum(archive: zipfile.ZipFile) -> int:
    """A checksum of the names and checksums of a zip file's members."""
    return zlib.crc32(repr([(member.filename, member.CRC) for member in archive.infolist()]).encode())
