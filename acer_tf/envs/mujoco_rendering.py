"""Pictures of MuJoCo's simulations without a display, rendered by a process of its own; the choice of an OpenGL."""

import contextlib
import functools
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from acer_tf.envs import mujoco_render_process
from acer_tf.errors import InvalidEnvironment


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
    # Only use shows whether a backend works, and PyOpenGL keeps the first that it loads: hence a process for each.
    trial = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 16, 16).close()"
    environment = {**os.environ, "MUJOCO_GL": backend}
    try:
        subprocess.run([sys.executable, "-c", trial], env=environment, capture_output=True, timeout=60, check=True)
    except subprocess.SubprocessError:
        return False
    return True


_choice = threading.Lock()
_without = 0  # how many contexts of `without_gl` are open
_chosen: str | None = None  # MUJOCO_GL before the first


@contextlib.contextmanager
def without_gl() -> Iterator[None]:
    """A context in which importing mujoco or dm_control loads no OpenGL, and makes mujoco's warnings Python's.

    Mesa's OpenGL contains an LLVM, TensorFlow another, and a process with both crashes.
    """
    global _without, _chosen
    with _choice:
        if not _without:
            _chosen = os.environ.get("MUJOCO_GL")
            os.environ["MUJOCO_GL"] = "off"
        _without += 1
    try:
        yield
    finally:
        with _choice:
            _without -= 1
            if not _without:
                os.environ.pop("MUJOCO_GL", None)
                if _chosen is not None:
                    os.environ["MUJOCO_GL"] = _chosen
        mujoco: Any = sys.modules.get("mujoco")
        # By itself MuJoCo prints them to standard output, and appends them to MUJOCO_LOG.TXT in the working directory.
        if hasattr(mujoco, "set_mju_user_warning") and mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(lambda text: warnings.warn(f"MuJoCo: {text.strip()}", RuntimeWarning, 2))


class View(NamedTuple):
    """The view of a MuJoCo simulation that a picture shows."""

    data: Any  # an MjData
    camera: str | int | dict[str, Any]  # one of its model, by name or number; or attributes of an MjvCamera
    height: int = 240  # pixels
    width: int = 320


class RenderProcess:
    """Renders states of MuJoCo models in a process of its own, with the OpenGL that MUJOCO_GL names.

    `without_gl` says why this process cannot.
    """

    def __init__(self, view: View) -> None:
        """Starts the process, for pictures with the camera and size of `view`. Call `require_gl` before."""
        self._shape = (view.height, view.width, 3)
        self._sent = b""  # the last model sent
        self._connection, other = multiprocessing.Pipe()
        # -P: modules in the program's folder would shadow others (dm_control.py). A new session: Ctrl-C is for this
        # process to handle. What MuJoCo and OpenGL drivers print is for nobody.
        arguments = json.dumps([other.fileno(), view.height, view.width, view.camera])
        command = [sys.executable, "-P", mujoco_render_process.__file__, arguments]
        with other:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        # Ends the process, as does the garbage collection of this object.
        self.close = weakref.finalize(self, _end, self._process, self._connection)

    def render(self, data: Any) -> np.ndarray:
        """The picture [height, width, 3] uint8 of an `MjData`, read-only. Its model need not be the first one's.

        Raises:
            RuntimeError: the process died; with what it said, or its exit status.
        """
        import mujoco

        model, everything = data.model, mujoco.mjtState.mjSTATE_INTEGRATION.value
        state = np.empty(mujoco.mj_stateSize(model, everything))
        mujoco.mj_getState(model, data, state, everything)
        # Compared each time: some dm_control tasks move targets, part of the model, at an episode's start.
        whole = np.empty(mujoco.mj_sizeModel(model), np.uint8)
        mujoco.mj_saveModel(model, None, whole)
        answer, new = b"", whole.tobytes()
        with contextlib.suppress(EOFError, OSError):
            self._connection.send_bytes(b"" if new == self._sent else new)
            self._connection.send_bytes(state.tobytes())
            self._sent = new
            answer = self._connection.recv_bytes()
        if len(answer) != np.prod(self._shape):
            self.close()
            reason = answer.decode() or f"exit status {self._process.returncode}"
            raise RuntimeError(f"the process that renders MuJoCo died: {reason}")
        return np.frombuffer(answer, np.uint8).reshape(self._shape)


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()
