"""Imports glfw, as gymnasium's MuJoCo environments do: it starts a process to ask for its version, outside of tests."""

import contextlib

with contextlib.suppress(ImportError):
    import glfw  # noqa: F401
