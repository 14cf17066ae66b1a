"""Imports glfw, as gymnasium's MuJoCo environments do: it starts a process to ask for its version, outside of tests."""

import contextlib
import ctypes.util

import pytest

from acer_tf.envs.mujoco_rendering import require_gl

with contextlib.suppress(ImportError):
    import glfw  # noqa: F401


@pytest.fixture
def gl():
    """An OpenGL for MuJoCo. Only a machine without any skips: were `require_gl` asked, its errors would skip all."""
    if not (ctypes.util.find_library("EGL") or ctypes.util.find_library("OSMesa")):
        pytest.skip("neither EGL nor OSMesa is installed")
    require_gl("this test")
