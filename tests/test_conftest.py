"""The guards in conftest.py and core.py."""

import contextlib
import multiprocessing
import subprocess
import sys
import time

import pytest

from acer_tf.agents.agent import Agent
from acer_tf.training.loop import Loop
from tests import core
from tests.conftest import keras_globals_unchanged


def test_a_leaked_dtype_policy_fails_and_is_restored():
    import keras

    with pytest.raises(pytest.fail.Exception, match="mixed_bfloat16"), keras_globals_unchanged():
        keras.config.set_dtype_policy("mixed_bfloat16")
    assert keras.config.dtype_policy().name == "float32"


def test_a_leaked_floatx_fails_and_is_restored():
    import keras

    with pytest.raises(pytest.fail.Exception, match="float64"), keras_globals_unchanged():
        keras.config.set_floatx("float64")
    assert keras.config.floatx() == "float32"
    assert keras.config.dtype_policy().name == "float32"


def test_an_unchanged_policy_passes():
    import keras

    with keras_globals_unchanged():
        keras.layers.Dense(1, dtype="mixed_bfloat16")


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_a_process_of_multiprocessing_breaks_the_rules_of_the_core(kind):
    with pytest.raises(pytest.fail.Exception, match=r"pytest\.mark\.process"), core.rules_of_the_core():
        multiprocessing.get_context(kind).Process(target=time.time).start()


def test_so_does_one_whose_failure_is_caught():
    broken = pytest.raises(pytest.fail.Exception, match=r"pytest\.mark\.process")
    with broken, core.rules_of_the_core(), contextlib.suppress(BaseException):
        subprocess.run([sys.executable, "--version"], check=True)


def test_so_does_a_loop_of_a_real_agent():
    with pytest.raises(pytest.fail.Exception, match=r"pytest\.mark\.training"), core.rules_of_the_core():
        Loop(None, Agent.__new__(Agent), None, None)


def test_so_does_a_long_calculation_and_waiting_for_another_process_does_not():
    with pytest.raises(pytest.fail.Exception, match=r"pytest\.mark\.slow"), core.at_most(0.001):
        sum(n * n for n in range(1_000_000))
    with core.at_most(0.05):
        time.sleep(0.1)


def test_what_the_torture_imports_is_there():
    from tests.torture import __main__ as torture

    assert set(torture.KINDS) >= {"kill", "damage", "flags", "together"}
