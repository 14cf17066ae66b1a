"""MuJoCo's pictures without a screen: which OpenGL to draw with, and drawing with it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from acer_tf.envs import painter
from acer_tf.envs.families import InvalidEnvironment

# Whether a library really draws shows only in use, and PyOpenGL keeps to the first it has loaded: hence a process each.
_TRIAL = """
import mujoco
context = mujoco.GLContext(16, 16)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 150)
"""
_TRIAL_SECONDS = 60
_CLOSING_SECONDS = 10


def require_gl(env_id: str) -> None:
    """Sets the environment variable MUJOCO_GL to the first of EGL and OSMesa that works here, unless it is set already.

    Raises:
        InvalidEnvironment: none works, or not the one that MUJOCO_GL names.
    """
    chosen = os.environ.get("MUJOCO_GL")
    for backend in [chosen] if chosen else ["egl", "osmesa"]:
        if _works(backend):
            os.environ["MUJOCO_GL"] = backend
            return
    reason = f"what MUJOCO_GL={chosen} names does not work" if chosen else "neither EGL nor OSMesa works"
    raise InvalidEnvironment(
        f"to draw {env_id} needs OpenGL without a screen, and here {reason}: apt-get install libegl1 (EGL) or "
        "libosmesa6 (OSMesa)"
    )


@functools.cache
def _works(backend: str) -> bool:
    command = [sys.executable, "-c", _TRIAL]
    environment = {**os.environ, "MUJOCO_GL": backend}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextlib.contextmanager
def without_gl() -> Iterator[None]:
    """Where mujoco or dm_control is imported in the body, it loads no OpenGL.

    They would load what MUJOCO_GL names, or look for a screen. Mesa's OpenGL brings an LLVM, TensorFlow has another,
    and a process with both crashes.
    """
    chosen = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "off"
    try:
        yield
    finally:
        if chosen is None:
            del os.environ["MUJOCO_GL"]
        else:
            os.environ["MUJOCO_GL"] = chosen


class Screen:
    """Draws states of MuJoCo models, [height, width, 3] uint8, with the OpenGL that MUJOCO_GL names.

    That is done by a process of its own, `painter`: see `without_gl` for why not in this one.
    """

    def __init__(self, model: Any, camera: str | int | dict[str, Any], *, height: int = 240, width: int = 320) -> None:
        """Starts the process. Call `require_gl` first.

        Args:
            model: an `MjModel`. Others may be drawn too, if they have its cameras.
            camera: its camera of that name or number, or attributes of an `MjvCamera`.
        """
        import mujoco

        self._mujoco = mujoco
        self._shape = (height, width, 3)
        self._sent = np.empty(0, np.uint8)  # the model that was sent last
        if not isinstance(camera, dict):
            camera = {"type": mujoco.mjtCamera.mjCAMERA_FIXED.value, "fixedcamid": model.camera(camera).id}
        # -P: the program's folder is full of modules that could pass for others (dm_control.py). What it says goes to a
        # file, as a pipe could fill up; one without a name, which nothing leaves behind. A session of its own: Ctrl-C
        # is for this process to answer.
        command = [sys.executable, "-P", painter.__file__, str(height), str(width), json.dumps(camera)]
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (_end closes it)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, start_new_session=True
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self._said)

    def draw(self, data: Any) -> np.ndarray:
        """The picture of an `MjData`, read-only.

        Raises:
            RuntimeError: the process that draws died; with the last line that it said.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        model, everything = data.model, self._mujoco.mjtState.mjSTATE_INTEGRATION.value
        state = np.empty(self._mujoco.mj_stateSize(model, everything))
        self._mujoco.mj_getState(model, data, state, everything)
        # Compared each time: at a game's start some of dm_control's tasks move targets, which belong to the model.
        whole = np.empty(self._mujoco.mj_sizeModel(model), np.uint8)
        self._mujoco.mj_saveModel(model, None, whole)
        news = whole[:0] if np.array_equal(whole, self._sent) else whole
        picture = b""
        with contextlib.suppress(BrokenPipeError):
            header = painter.HEADER.pack(news.nbytes, state.nbytes)
            self._process.stdin.write(header + news.tobytes() + state.tobytes())
            self._process.stdin.flush()
            self._sent = whole
            picture = self._process.stdout.read(int(np.prod(self._shape)))
        if len(picture) < np.prod(self._shape):
            raise RuntimeError(f"the process that draws MuJoCo's pictures died: {self._last_words()}")
        return np.frombuffer(picture, np.uint8).reshape(self._shape)

    def close(self) -> None:
        """Ends the process. So does the end of this object, and that of this process."""
        self._finalizer()

    def _last_words(self) -> str:
        _wait(self._process)
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"exit status {self._process.returncode}"


def _end(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    _wait(process)
    process.stdout.close()
    said.close()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
