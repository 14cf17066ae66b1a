"""The environment of every test, set before TensorFlow is imported."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import core

if TYPE_CHECKING:
    from acer_tf.settings import Settings

# Tests run many small operations, for which more threads only wait for each other.
_THREADS = str(min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))

for _name, _value in {
    "TF_NUM_INTRAOP_THREADS": _THREADS,
    "TF_NUM_INTEROP_THREADS": _THREADS,
    "OMP_NUM_THREADS": _THREADS,
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # tests start processes that share the device
    "ACER_TF_XLA": "0",  # tests marked `xla` have it; in others it would compile for longer than they compute
    "MPLBACKEND": "Agg",
    "RAY_worker_niceness": "0",  # by default 15: other tests' processes would keep Ray's from their turn
}.items():
    os.environ.setdefault(_name, _value)

_XLA = os.environ["ACER_TF_XLA"]  # of tests without a mark


# A shell that starts the tests in the background makes them ignore these, which some of them send.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


# Seconds that each file takes: a long file that one worker begins last leaves the others without work.
DURATIONS = Path(__file__).with_name("durations.json")
_seconds: collections.Counter[str] = collections.Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    told = f"write {DURATIONS.name}; give -m 'not learning' too"
    parser.addoption("--record-durations", action="store_true", help=told)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: half as many again as there are cores where tests wait for processes that they start."""
    cores = os.cpu_count() or 1
    return cores if config.getoption("markexpr") == "core" else cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = json.loads(DURATIONS.read_text())
    items.sort(key=lambda item: -known.get(item.location[0], 0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.location[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-durations") and not hasattr(session.config, "workerinput"):
        long = {file: round(seconds) for file, seconds in sorted(_seconds.items()) if seconds >= 1}
        DURATIONS.write_text(json.dumps(long, indent=0) + "\n")


def pytest_itemcollected(item: pytest.Item) -> None:
    if core.is_core(item):
        item.add_marker("core")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """A fixture of several tests is compiled by XLA or not as the first of them."""
    os.environ["ACER_TF_XLA"] = "1" if item.get_closest_marker("xla") else _XLA
    with core.rules_of_the_core(apply=core.is_core(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """The time of fixtures does not count: what several tests share is made in the first of them."""
    if not core.is_core(item):
        return (yield)
    with core.rules_of_the_core(), core.at_most():
        return (yield)


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


core.watch_processes()


@pytest.fixture(scope="session", autouse=True)
def _watch_trainings() -> None:
    with core.rules_of_the_core(apply=False):  # imports may start a process
        core.watch_trainings()


@pytest.fixture(scope="session")
def _commit() -> dict[str, str | None]:
    from acer_tf.runs.commit import code_version

    with core.rules_of_the_core(apply=False):
        return code_version()


@pytest.fixture(autouse=True)
def _commit_is_known(_commit: dict[str, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs do not ask git, which starts five processes each time."""
    monkeypatch.setattr("acer_tf.runs.provenance.code_version", lambda: _commit)


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


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all processes of the session."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def trained(shared_folder: Path) -> Callable[[Settings], Path]:
    """`trained(settings)` is the folder of a finished run with these settings, trained once in a session, whatever the
    number of its processes. A test that changes the run takes a copy of it.
    """
    from acer_tf.training.train import train

    def run_of(settings: Settings) -> Path:
        values = json.dumps([dataclasses.asdict(settings), os.environ["ACER_TF_XLA"]], sort_keys=True)
        folder = shared_folder / f"run-{hashlib.sha256(values.encode()).hexdigest()[:16]}"
        with folder.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not folder.exists():
                unfinished = folder.with_suffix(".unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)
                train(settings, unfinished, quiet=True)
                unfinished.rename(folder)
        return folder

    return run_of


@pytest.fixture(scope="session")
def trained_cartpole(trained: Callable[[Settings], Path]) -> Path:
    """A run of some seconds on CartPole-v1: the only training of the core."""
    from tests.training.scripted import small_settings

    with core.rules_of_the_core(apply=False):
        return trained(small_settings(seed=3))


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
