"""TensorFlow is imported silently, but no failure is, and with all that Keras can do."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acer_tf.importing import has_driver, without_notices

ROOT = Path(__file__).resolve().parents[1]

NOTICES = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1795818221.896433   14549 port.cc:153] oneDNN custom operations are on.\n"
    "E0000 00:00:1741338921.571402     871 cuda_dnn.cc:8310] Unable to register cuDNN factory\n"
    "2026-11-27 22:23:41.896433: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.\n"
)
OTHERS = "F0000 00:00:1795818221.896433   14549 cpu_feature_guard.cc:82] compiled to use AVX\nOMP: Error #15\n"


def python(code: str, *arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=cwd, env=variables | environment, capture_output=True, text=True)


def write(text: str) -> None:
    os.write(2, text.encode())


def test_notices_are_hidden_and_nothing_else_is(capfd):
    with without_notices():
        write(NOTICES + OTHERS + NOTICES)
    write("after\n")
    assert capfd.readouterr().err == OTHERS + "after\n"


def test_all_is_shown_if_a_library_cannot_be_loaded(capfd):
    with pytest.raises(ImportError, match="libcudart"), without_notices():
        write(NOTICES)
        raise ImportError("libcudart.so.12: cannot open shared object file")
    assert capfd.readouterr().err == NOTICES


def test_a_process_without_standard_error_imports_too(capfd):
    kept = os.dup(2)
    os.close(2)
    try:
        with without_notices():
            pass
        with pytest.raises(OSError):
            os.fstat(2)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


ABORTED = """
import os
from acer_tf.importing import without_notices
with without_notices():
    os.write(2, b"I0000 what\\nF0000 why\\n")
    os.abort()
"""

FAILED = """
import gc, sys, acer_tf
sys.path.insert(0, sys.argv[1])
try:
    acer_tf.load_policy
finally:
    print(gc.isenabled())
"""


@pytest.mark.process
def test_all_is_shown_if_a_library_ends_the_process():
    done = python(ABORTED)
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "I0000 what\nF0000 why\n")


@pytest.mark.process
def test_why_tensorflow_cannot_be_imported_is_said(tmp_path):
    package = tmp_path / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text("from tensorflow import _native")
    (package / "_native.so").write_text("no library")
    done = python(FAILED, str(tmp_path))
    assert done.returncode == 1 and done.stdout == "True\n"
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {package}/_native.so: ")


COMMAND = """
import atexit, sys
atexit.register(lambda: print("matplotlib.figure" in sys.modules))
from acer_tf.__main__ import console
console()
"""


@pytest.mark.xla
@pytest.mark.process
def test_commands_show_nothing_that_is_not_theirs_and_load_no_plots(tmp_path):
    train = ["train", "--env=CartPole-v1", "--total_steps=600", "--env_workers=2", "--run_dir=run"]
    for command in (train, ["evaluate", "--policy=run/policy", "--episodes=2"]):
        done = python(COMMAND, *command, cwd=tmp_path, PYTHONPATH=str(ROOT))
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout.endswith("\nFalse\n"), command


FROM_PYTHON = """
import gc, os, acer_tf.training.run, keras, tensorflow as tf
tf.function(lambda x: x + 1, jit_compile=True)(tf.ones([1]))
tf.config.list_physical_devices("GPU")
print(gc.isenabled(), os.environ.get("TF_CPP_MIN_LOG_LEVEL"))
from keras.src.visualization.plot_image_gallery import plt
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    found = [*pool.map(lambda _: plt.figure.__name__, range(4))]
print(found == ["figure"] * 4 and "subplots" in dir(plt))
"""


@pytest.mark.process
@pytest.mark.parametrize("level", [None, "0"])
def test_from_python_tensorflow_says_what_the_user_asked_for_and_keras_still_plots(level):
    done = python(FROM_PYTHON, **({} if level is None else {"TF_CPP_MIN_LOG_LEVEL": level}))
    assert done.stdout.split() == ["True", str(level), "True"], done.stderr
    assert ("All log messages before absl::InitializeLog()" in done.stderr) == (level is not None)
    assert done.stderr == "" or level is not None


def test_a_driver_is_known_by_its_device(tmp_path):
    assert not has_driver(tmp_path) and not has_driver(tmp_path / "none")
    (tmp_path / "nvidiactl").touch()
    assert not has_driver(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert has_driver(tmp_path)
