"""Offscreen rendering of MuJoCo: chooses an OpenGL backend and renders in a separate process."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from acer_tf.envs import painter
from acer_tf.errors import InvalidEnvironment

# Only use shows whether a backend works, and PyOpenGL keeps the first that it loads: hence a process for each.
_TRIAL = """
import mujoco
context = mujoco.GLContext(16, 16)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 150)
"""
_TRIAL_SECONDS = 60
_CLOSING_SECONDS = 10


def require_gl(env_id: str) -> None:
    """Sets the environment variable MUJOCO_GL to the first of EGL and OSMesa that works, unless it is set already.

    Raises:
        InvalidEnvironment: neither works, or the one that MUJOCO_GL names does not.
    """
    chosen = os.environ.get("MUJOCO_GL")
    for backend in [chosen] if chosen else ["egl", "osmesa"]:
        if _works(backend):
            os.environ["MUJOCO_GL"] = backend
            return
    reason = f"MUJOCO_GL={chosen} does not work" if chosen else "neither EGL nor OSMesa works"
    raise InvalidEnvironment(
        f"rendering {env_id} needs offscreen OpenGL, but {reason}: apt-get install libegl1 (EGL) or libosmesa6 (OSMesa)"
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
    """A context in which importing mujoco or dm_control loads no OpenGL, and makes mujoco's warnings Python's.

    Mesa's OpenGL contains an LLVM, TensorFlow another, and a process with both crashes.
    """
    _take_warnings()
    chosen = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "off"
    try:
        yield
    finally:
        if chosen is None:
            del os.environ["MUJOCO_GL"]
        else:
            os.environ["MUJOCO_GL"] = chosen
        _take_warnings()


def _take_warnings() -> None:
    # By itself MuJoCo prints them to standard output, and appends them to MUJOCO_LOG.TXT in the working directory.
    mujoco: Any = sys.modules.get("mujoco")
    if hasattr(mujoco, "set_mju_user_warning") and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(lambda text: warnings.warn(f"MuJoCo: {text.strip()}", RuntimeWarning, stacklevel=2))


class Screen:
    """Renders states of MuJoCo models in a separate process, `painter`, with the OpenGL that MUJOCO_GL names.

    `without_gl` says why this process cannot.
    """

    def __init__(self, model: Any, camera: str | int | dict[str, Any], *, height: int = 240, width: int = 320) -> None:
        """Starts the process. Call `require_gl` first.

        The camera is one of the `MjModel`, by name or number, or attributes of an `MjvCamera`. Other models with this
        camera can be rendered too.
        """
        import mujoco

        self._mujoco = mujoco
        self._shape = (height, width, 3)
        self._sent = np.empty(0, np.uint8)  # the last model sent
        if not isinstance(camera, dict):
            camera = {"type": mujoco.mjtCamera.mjCAMERA_FIXED.value, "fixedcamid": model.camera(camera).id}
        # -P: modules in the program's folder would shadow others (dm_control.py). stderr goes to a file, because a pipe
        # could fill up. A new session: Ctrl-C is for this process to handle.
        command = [sys.executable, "-P", painter.__file__, str(height), str(width), json.dumps(camera)]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (_end closes it)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self._stderr)

    def draw(self, data: Any) -> np.ndarray:
        """The picture [height, width, 3] uint8 of an `MjData`, read-only.

        Raises:
            RuntimeError: the process died; with its last line on standard error.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        model, everything = data.model, self._mujoco.mjtState.mjSTATE_INTEGRATION.value
        state = np.empty(self._mujoco.mj_stateSize(model, everything))
        self._mujoco.mj_getState(model, data, state, everything)
        # Compared each time: some dm_control tasks move targets, part of the model, at an episode's start.
        whole = np.empty(self._mujoco.mj_sizeModel(model), np.uint8)
        self._mujoco.mj_saveModel(model, None, whole)
        update = whole[:0] if np.array_equal(whole, self._sent) else whole
        picture = b""
        with contextlib.suppress(BrokenPipeError):
            header = painter.HEADER.pack(update.nbytes, state.nbytes)
            self._process.stdin.write(header + update.tobytes() + state.tobytes())
            self._process.stdin.flush()
            self._sent = whole
            picture = self._process.stdout.read(int(np.prod(self._shape)))
        if len(picture) < np.prod(self._shape):
            raise RuntimeError(f"the process that renders MuJoCo died: {self._last_line()}")
        return np.frombuffer(picture, np.uint8).reshape(self._shape)

    def close(self) -> None:
        """Ends the process, as does the garbage collection of this object."""
        self._finalizer()

    def _last_line(self) -> str:
        _wait(self._process)
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().split("\n")
        return lines[-1].strip() or f"exit status {self._process.returncode}"


def _end(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    _wait(process)
    process.stdout.close()
    stderr.close()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
