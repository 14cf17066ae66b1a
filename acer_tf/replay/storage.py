"""The storage of a ring's arrays: memory, or a memory-mapped file."""

import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def zeros(arrays: Mapping[str, tuple[tuple[int, ...], np.dtype]], file: Path | None = None) -> dict[str, np.ndarray]:
    """Zeroed arrays, by name; memory is committed only as they fill.

    Args:
        arrays: name to shape and dtype.
        file: a new file to hold them instead of memory. Its whole size is reserved and its name removed at once, so its
            space is freed when the process ends, however it ends.

    Raises:
        FileExistsError: the file exists; it is left alone.
        OSError: the file cannot be made, its size cannot be reserved, or memory is too small.
    """
    page = mmap.ALLOCATIONGRANULARITY
    sizes = {
        name: max(1, -(-int(np.prod(shape)) * dtype.itemsize // page)) * page for name, (shape, dtype) in arrays.items()
    }
    if file is None:
        # np.zeros may write the zeros, and so commit the memory, where it reuses memory that was freed.
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return {
            name: np.ndarray(shape, dtype, buffer=mmap.mmap(-1, sizes[name], flags=private))
            for name, (shape, dtype) in arrays.items()
        }
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.unlink(file)
        # Without this, a full disk would kill the process at some write into the arrays.
        os.posix_fallocate(descriptor, 0, sum(sizes.values()))
        made, offset = {}, 0
        for name, (shape, dtype) in arrays.items():
            made[name] = np.ndarray(shape, dtype, buffer=mmap.mmap(descriptor, sizes[name], offset=offset))
            offset += sizes[name]
        return made
    finally:
        os.close(descriptor)


def prefetch(array: np.ndarray, which: np.ndarray, first: np.ndarray, rows: int) -> None:
    """Starts reading `array[n, f : f + rows]` from the file, for each n of `which` [B] with its f of `first` [B].

    Without this the rows are read page by page, which takes 20 times as long if they are not in memory. The array must
    be one that `zeros` made in a file, not a view of it. Rows after its last are left out.
    """
    pages = array.base
    assert isinstance(pages, mmap.mmap)
    for n, slot in zip(which.tolist(), first.tolist(), strict=True):
        begin = n * array.strides[0] + slot * array.strides[1]
        end = min(begin + rows * array.strides[1], (n + 1) * array.strides[0])
        begin -= begin % mmap.PAGESIZE
        pages.madvise(mmap.MADV_WILLNEED, begin, end - begin)
