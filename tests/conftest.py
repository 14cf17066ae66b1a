"""The environment of every test, set before TensorFlow is imported."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

import pytest

# Tests run many small operations, for which more threads only wait for each other.
_THREADS = str(min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))

for _name, _value in {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": _THREADS,
    "TF_NUM_INTEROP_THREADS": _THREADS,
    "OMP_NUM_THREADS": _THREADS,
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # tests start processes that share the device
    "MPLBACKEND": "Agg",
    "RAY_worker_niceness": "0",  # by default 15: other tests' processes would keep Ray's from their turn
}.items():
    os.environ.setdefault(_name, _value)


# A shell that starts the tests in the background makes them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Begun first, in this order: a long file that one worker begins last leaves the others without work.
_LONG_FILES = (
    "test_ray_actors.py",
    "test_pipeline.py",
    "test_slurm.py",
    "test_tiny_worlds.py",
    "test_ray.py",
    "test_interruption.py",
    "test_train.py",
    "test_continuous_worlds.py",
    "test_continuous_runs.py",
    "test_extending.py",
    "test_groups.py",
    "test_recurrent_runs.py",
    "test_acer_recurrent.py",
    "test_dqn_runs.py",
    "test_faults.py",
    "test_torture.py",
    "test_learn.py",
)


def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`: half as many again as there are cores, since many tests wait for processes that they start."""
    cores = os.cpu_count() or 1
    return cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(_LONG_FILES)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def _keras_globals() -> tuple[str, str]:
    """Keras' global dtype policy and floatx; their defaults if nothing has imported Keras."""
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "config"):  # not imported, or not completely
        return "float32", "float32"
    return keras.config.dtype_policy().name, keras.config.floatx()


@contextlib.contextmanager
def keras_globals_unchanged() -> Iterator[None]:
    """Fails, and restores them, if the body changes Keras' global dtype policy or floatx.

    A policy that leaks from one test changes the dtype of the models in later tests.
    """
    before = _keras_globals()
    yield
    after = _keras_globals()
    if after != before:
        import keras

        keras.config.set_floatx(before[1])
        keras.config.set_dtype_policy(before[0])
        pytest.fail(
            f"left Keras' global (dtype policy, floatx) at {after}, found {before}: set the dtype policy per model"
        )


@pytest.fixture(scope="session", autouse=True)
def _exact_on_a_gpu() -> None:
    """On a GPU, float32 without TF32 (as in runs), and sums in one order: some tests compare all bits."""
    from acer_tf.training.device import gpu_count

    if gpu_count():
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)
        tf.config.experimental.enable_op_determinism()


@pytest.fixture(autouse=True)
def _event_files_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets the counter in the names of event files, which TensorBoard sorts (10 before 9).

    Only tests continue a run in the same process within a second.
    """
    writer = sys.modules.get("tensorboard.summary.writer.event_file_writer")
    if writer is not None:
        monkeypatch.setattr(writer, "_global_uid", writer.AtomicCounter(0))


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bootstrap intervals from 20 resamples, for tests of what is made of them; thousands take seconds per table."""
    from acer_tf.reproduction import statistics

    monkeypatch.setattr(statistics, "RESAMPLES", 20)
    monkeypatch.setattr(statistics, "CURVE_RESAMPLES", 20)


@pytest.fixture(autouse=True)
def _keras_globals_guard() -> Iterator[None]:
    with keras_globals_unchanged():
        yield
