"""What XLA compiles, by device."""

import numpy as np
import pytest
import tensorflow as tf

from acer_tf.agents.compiled import Compiled


def compiled_by_xla(execution):
    function = Compiled(lambda x: x + 1.0, execution)
    assert function(np.ones(2, np.float32)).numpy().tolist() == [2.0, 2.0]
    return function.trace(np.ones(2, np.float32)).function_def.attr["_XlaMustCompile"].b


@pytest.mark.parametrize("execution", ["xla", "serial", "parallel"])
def test_on_the_cpu_the_torso_decides_and_on_a_gpu_all_is_compiled(monkeypatch, execution):
    devices: list[str] = []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: devices if kind == "GPU" else ["/CPU:0"])
    assert compiled_by_xla(execution) == (execution == "xla")
    devices.append("/GPU:0")
    assert compiled_by_xla(execution)
