"""What XLA compiles, by device and ahead."""

import threading
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.agents import compiled
from acer_tf.agents.compiled import Compiled
from acer_tf.errors import SettingsError
from acer_tf.networks.layers import ProductConvolution

pytestmark = pytest.mark.xla


def compiled_by_xla(execution):
    function = Compiled(lambda x: x + 1.0, execution)
    assert function(np.ones(2, np.float32)).numpy().tolist() == [2.0, 2.0]
    return function.trace(np.ones(2, np.float32)).function_def.attr["_XlaMustCompile"].b


@pytest.mark.parametrize("execution", ["xla", "serial", "parallel"])
def test_on_the_cpu_the_torso_decides_and_on_a_gpu_all_is_compiled(monkeypatch, execution):
    assert compiled_by_xla(execution) == (execution == "xla")
    monkeypatch.setattr(compiled, "on_gpu", lambda: True)
    assert compiled_by_xla(execution)


@pytest.mark.parametrize("found", [False, True])
def test_nothing_is_compiled_where_the_variable_forbids_it(monkeypatch, found, capfd):
    monkeypatch.setattr(compiled, "on_gpu", lambda: found)
    monkeypatch.setenv("ACER_TF_XLA", "0")
    assert not compiled_by_xla("xla")

    def rule(x):
        tf.print("rows", x)
        return tf.numpy_function(np.sign, [x], tf.float32)

    function = Compiled(lambda x: compiled.fused(rule)(x), "xla")
    function.compile_ahead(np.ones(2, np.float32))
    assert not compiling()
    assert function(np.full(2, 7, np.float32)).numpy().tolist() == [1.0, 1.0]
    assert "rows [7 7]" in capfd.readouterr().err


@pytest.mark.parametrize("value", ["false", "2"])
def test_another_value_of_the_variable_is_refused(monkeypatch, value):
    monkeypatch.setenv("ACER_TF_XLA", value)
    with pytest.raises(SettingsError, match=f"^ACER_TF_XLA={value}: this variable must be 0 or 1$"):
        Compiled(lambda x: x, "xla")


def layers(x, total):
    total.assign_add(tf.reduce_sum(x))
    for size in range(2, 22):
        x = tf.tanh(tf.matmul(x, tf.ones([x.shape[1], size])))
    return x


def compiling():
    return [thread for thread in threading.enumerate() if thread.name == "compile"]


def test_what_is_compiled_ahead_is_not_compiled_again_and_changes_no_variable():
    total, x = tf.Variable(1.0), np.ones((1, 3), np.float32)
    function = Compiled(lambda x: layers(x, total), "xla")
    begins = time.process_time()
    function.compile_ahead(x)
    assert compiling()
    function.finish()
    assert not compiling()
    compiled = time.process_time()
    assert total.numpy() == 1.0
    function(x)
    assert time.process_time() - compiled < (compiled - begins) / 4
    assert total.numpy() == 4.0


def test_what_cannot_be_compiled_fails_where_it_is_called(capfd):
    total, x = tf.Variable(1.0), np.ones((1, 3), np.float32)
    function = Compiled(lambda x: tf.py_function(lambda x: x, [x], tf.float32) + total, "xla")
    function.compile_ahead(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="EagerPyFunc"):
        function(x)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(("execution", "on_gpu"), [("serial", False), ("parallel", False), ("xla", True)])
def test_nothing_is_compiled_ahead_on_a_gpu_or_without_xla(execution, on_gpu, monkeypatch):
    monkeypatch.setattr(compiled, "on_gpu", lambda: on_gpu)
    Compiled(lambda x: layers(x, tf.Variable(0.0)), execution).compile_ahead(np.ones((1, 3), np.float32))
    assert not compiling()


@pytest.mark.parametrize(("execution", "products"), [("serial", 0), ("xla", 1)])
def test_a_small_convolution_is_a_product_where_xla_computes_it(execution, products):
    layer = ProductConvolution(5, 3)
    x = np.random.default_rng(0).normal(size=(2, 6, 7, 4)).astype(np.float32)
    layer.build(x.shape)
    layer.bias.assign([1.0, 2.0, 3.0, 4.0, 5.0])
    function = Compiled(layer, execution)
    expected = keras.ops.conv(x, layer.kernel) + layer.bias
    np.testing.assert_allclose(function(x), expected, rtol=0, atol=1e-5)
    kinds = [operation.type for operation in function.trace(x).graph.get_operations()]
    assert (kinds.count("MatMul"), kinds.count("Conv2D")) == (products, 1 - products)


def test_where_a_tensor_lands_says_whether_a_gpu_computes(monkeypatch):
    assert compiled.on_gpu() == bool(tf.config.list_logical_devices("GPU"))
    for device, found in (("/job:localhost/replica:0/task:0/device:GPU:1", True), ("/device:CPU:1", False)):
        monkeypatch.setattr(tf, "zeros", lambda shape, device=device: SimpleNamespace(device=device))
        assert compiled.on_gpu() == found
