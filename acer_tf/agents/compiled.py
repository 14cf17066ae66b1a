"""Compilation of acting and of updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from acer_tf.networks.torsos import Execution


class Compiled:
    """A function on tensors that is called with NumPy arrays, and traced once per shapes and dtypes.

    "xla" fuses operations, which on the CPU is fastest without convolutions. "serial" runs one operation after another
    in the calling thread, since waking another thread takes 0.1 ms. "parallel" runs independent operations at the same
    time. On a GPU all are "xla": there an operation takes less time than starting it.
    """

    def __init__(self, function: Callable[..., Any], execution: Execution) -> None:
        on_gpu = bool(tf.config.list_logical_devices("GPU"))
        self._function = tf.function(function, autograph=False, jit_compile=on_gpu or execution == "xla")
        self._serial = execution == "serial" and not on_gpu
        # Kept here, because `tf.function` takes 0.2 ms to find one, a third of the time of acting with a small network.
        self._traces: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arrays: np.ndarray) -> Any:
        return self.trace(*arrays)(*[tf.constant(array) for array in arrays])

    def trace(self, *arrays: np.ndarray) -> Callable[..., Any]:
        """The function traced for tensors of these shapes and dtypes; XLA compiles it at its first call."""
        key = tuple([(array.shape, array.dtype) for array in arrays])
        if key not in self._traces:
            specs = [tf.TensorSpec(shape, dtype) for shape, dtype in key]
            trace = self._function.get_concrete_function(*specs)
            self._traces[key] = _serially(trace) if self._serial else trace
        return self._traces[key]

    @property
    def trace_count(self) -> int:
        """The number of traces made."""
        return self._function.experimental_get_tracing_count()


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled by XLA even if the surrounding step is not; outside a `tf.function`, as it is.

    For parts of a step without convolutions.
    """
    return tf.function(function, autograph=False, jit_compile=True) if tf.inside_function() else function


def _serially(trace: Any) -> Callable[..., Any]:
    options = {"Tout": [output.dtype for output in trace.outputs], "executor_type": "SINGLE_THREADED_EXECUTOR"}
    structure = trace.structured_outputs

    def call(*tensors: tf.Tensor) -> Any:
        outputs = tf.raw_ops.StatefulPartitionedCall(args=[*tensors, *trace.captured_inputs], f=trace, **options)
        return tf.nest.pack_sequence_as(structure, outputs)

    return call
