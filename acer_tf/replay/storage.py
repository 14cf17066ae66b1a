"""Where a ring's arrays live: in memory, or in a file that the system pages in and out."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def zeros(arrays: Mapping[str, tuple[tuple[int, ...], np.dtype]], file: Path | None = None) -> dict[str, np.ndarray]:
    """Zeroed arrays of the given shapes and dtypes, by name; memory is committed only as they fill.

    Args:
        arrays: name to shape and dtype.
        file: keep them in this file instead of memory. It is scratch: its whole size is reserved at once, it loses its
            name at once, and its space comes free when the process ends, however it ends.

    Raises:
        FileExistsError: there is a file of this name; it is left alone.
        OSError: the file cannot be made there, its size cannot be reserved, or there is no memory for so much.
    """
    sizes = {
        name: -(-int(np.prod(shape)) * dtype.itemsize // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        for name, (shape, dtype) in arrays.items()
    }
    if file is None:
        # Not np.zeros: whether that writes its zeros depends on what the process has allocated and freed before.
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        return {
            name: np.ndarray(shape, dtype, buffer=mmap.mmap(-1, sizes[name], flags=private))
            for name, (shape, dtype) in arrays.items()
        }
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.unlink(file)
        # Without room reserved, a disk that fills up would kill the process at some write into the arrays.
        os.posix_fallocate(descriptor, 0, sum(sizes.values()))
        made, offset = {}, 0
        for name, (shape, dtype) in arrays.items():
            made[name] = np.ndarray(shape, dtype, buffer=mmap.mmap(descriptor, sizes[name], offset=offset))
            offset += sizes[name]
        return made
    finally:
        os.close(descriptor)


def prefetch(array: np.ndarray, which: np.ndarray, first: np.ndarray, rows: int) -> None:
    """Has the system read what a file holds of `array[n, f : f + rows]`, for all n, f of `which`, `first` together.

    Reading the rows themselves would wait for the disk page by page: 20 times as long, where they are not in memory.

    Args:
        array: [N, slots, ...] made by `zeros` in a file, no view of it.
        which: [B] numbers below N.
        first: [B] a slot each.
        rows: beyond the last slot they are left out.
    """
    pages = array.base
    assert isinstance(pages, mmap.mmap)
    for n, slot in zip(which.tolist(), first.tolist(), strict=True):
        begin = n * array.strides[0] + slot * array.strides[1]
        end = min(begin + rows * array.strides[1], (n + 1) * array.strides[0])
        begin -= begin % mmap.PAGESIZE
        pages.madvise(mmap.MADV_WILLNEED, begin, end - begin)
