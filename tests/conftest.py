"""What every test runs under. Set before TensorFlow is imported anywhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import pytest

# A test is many small operations: more threads than this only wait for one another.
_THREADS = str(min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))

for _name, _value in {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": _THREADS,
    "TF_NUM_INTEROP_THREADS": _THREADS,
    "OMP_NUM_THREADS": _THREADS,
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # tests start processes that share the device
    "MPLBACKEND": "Agg",
}.items():
    os.environ.setdefault(_name, _value)


def _keras_globals() -> tuple[str, str]:
    """Keras' global dtype policy and floatx; their defaults where nothing has imported Keras. Imports nothing."""
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "config"):  # not imported, or not yet whole
        return "float32", "float32"
    return keras.config.dtype_policy().name, keras.config.floatx()


@contextlib.contextmanager
def keras_globals_unchanged() -> Iterator[None]:
    """Fails, and puts things back, where the body leaves Keras' global dtype policy or floatx other than it found them.

    A policy that leaks out of one test changes the dtype of every model that later tests build.
    """
    before = _keras_globals()
    yield
    after = _keras_globals()
    if after != before:
        import keras

        keras.config.set_floatx(before[1])
        keras.config.set_dtype_policy(before[0])
        pytest.fail(f"left Keras' global (dtype policy, floatx) at {after}, found {before}: give each model its own")


@pytest.fixture(autouse=True)
def _event_files_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads event files by name: second, host, process, a counter without leading zeros (10 before 9).

    Only tests continue a run in the same process within the second, so each counts from 0.
    """
    writer = sys.modules.get("tensorboard.summary.writer.event_file_writer")
    if writer is not None:
        monkeypatch.setattr(writer, "_global_uid", writer.AtomicCounter(0))


@pytest.fixture(autouse=True)
def _keras_globals_guard() -> Iterator[None]:
    with keras_globals_unchanged():
        yield
