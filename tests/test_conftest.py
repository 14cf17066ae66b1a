"""The guards in conftest.py."""

import pytest

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
