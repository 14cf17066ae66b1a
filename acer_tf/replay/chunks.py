"""Chunk files: consecutive rows, written once and atomically, and shared by successive checkpoints.

They are .npz files, which np.load reads. Frames compress to a fraction of their size, so an array is compressed, by the
fastest level of zlib, where that pays.
"""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from acer_tf.files import durable, is_damage, sync

_TEMPORARY = "rows.tmp"
_LEVEL = zlib.Z_BEST_SPEED
_SAMPLE = 2**20  # bytes of an array by which is decided whether to compress it: zlib takes ten times as long on noise
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
    temporary.unlink(missing_ok=True)  # not written through, in case it is a link
    try:
        with durable(temporary) as file:
            write_arrays(file, arrays)
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


def write_arrays(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as an .npz file; the same arrays give the same bytes. Those that shrink to half are compressed."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            whole = io.BytesIO()
            np.save(whole, array, allow_pickle=False)
            content = whole.getbuffer()
            sample = content[:_SAMPLE]
            pays = 2 * len(zlib.compress(sample, _LEVEL)) < len(sample)
            member = zipfile.ZipInfo(f"{name}.npy")  # of a fixed date
            archive.writestr(member, content, zipfile.ZIP_DEFLATED if pays else zipfile.ZIP_STORED, _LEVEL)


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
