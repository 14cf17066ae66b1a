"""MuJoCo's pictures without a screen: which OpenGL to draw with, and drawing with it."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from typing import Any

import numpy as np

from acer_tf.envs.names import InvalidEnvironment

# Whether a library really draws shows only in use, and PyOpenGL keeps to the first it has loaded: hence a process each.
_TRIAL = """
import mujoco
context = mujoco.GLContext(16, 16)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 150)
"""
_TRIAL_SECONDS = 60


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


class Screen:
    """Draws states of one MuJoCo model, [height, width, 3] uint8, with the OpenGL that MUJOCO_GL names.

    mujoco's own Renderer takes that choice when mujoco is imported, which was before it had to be made.
    """

    def __init__(self, model: Any, camera: str | int, *, height: int = 240, width: int = 320) -> None:
        """For an `MjModel`, seen by its camera of that name or number. Call `require_gl` first."""
        import mujoco

        self._mujoco = mujoco
        self._model = model
        self._gl = importlib.import_module(f"mujoco.{os.environ['MUJOCO_GL'].lower()}").GLContext(width, height)
        self._gl.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene, self._options = mujoco.MjvScene(model, maxgeom=1000), mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id
        self._area = mujoco.MjrRect(0, 0, width, height)
        self._shape = (height, width, 3)

    def draw(self, data: Any) -> np.ndarray:
        """The picture of an `MjData` whose positions are computed."""
        everything = self._mujoco.mjtCatBit.mjCAT_ALL.value
        self._gl.make_current()
        self._mujoco.mjv_updateScene(self._model, data, self._options, None, self._camera, everything, self._scene)
        self._mujoco.mjr_render(self._area, self._scene, self._context)
        picture = np.empty(self._shape, np.uint8)
        self._mujoco.mjr_readPixels(picture, None, self._area, self._context)
        return picture[::-1]  # OpenGL's first line is the lowest

    def close(self) -> None:
        """Frees the OpenGL context."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()
