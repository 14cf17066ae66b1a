"""Writes the video of an evaluation, with FFmpeg."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np

from acer_tf.errors import SettingsError


class Video:
    """An .mp4 file that appears under its name only once `finish` was called."""

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() != ".mp4":
            raise SettingsError(f"--video={path}: must be an .mp4 file")
        if path.is_dir():
            raise SettingsError(f"--video={path}: is a folder")
        self._path = path
        # FFmpeg chooses the format by the suffix.
        self._partial = path.with_name(f".{path.stem}.{os.getpid()}.partial.mp4")
        try:
            self._partial.touch()
        except OSError as error:
            raise SettingsError(f"--video={path}: cannot be written: {error.strerror}") from error
        self._writer: Any = None

    def __enter__(self) -> "Video":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            # If FFmpeg died, closing raises a second time.
            with contextlib.suppress(OSError):
                self._writer.close()
        self._partial.unlink(missing_ok=True)

    def start(self, fps: float) -> None:
        # macro_block_size=1: rescaling to multiples of 16 pixels would blur the picture.
        self._writer = imageio.get_writer(
            self._partial, format="FFMPEG", fps=fps, macro_block_size=1, ffmpeg_log_level="error"
        )

    def add(self, picture: np.ndarray) -> None:
        """Appends [height, width, 3] uint8; odd sides, which the pixel format does not allow, are padded by one."""
        height, width = picture.shape[:2]
        with self._writing():
            self._writer.append_data(np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))

    def finish(self) -> None:
        with self._writing():
            self._writer.close()
            self._partial.replace(self._path)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # imageio's message is FFmpeg's whole output
            raise OSError(f"--video={self._path} not written: FFmpeg ended, as it does on a full disk") from error
