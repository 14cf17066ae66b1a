"""How the agents' steps are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from acer_tf.torsos import Execution


class Compiled:
    """A function on tensors, traced once per shapes and dtypes of its arguments, and called with NumPy arrays.

    It calls the traces of its `tf.function` directly: finding the trace anew at each call, as `tf.function` does for
    more general arguments, takes 0.2 ms, a third of what acting takes on a small network.

    Args:
        function: takes one tensor per argument.
        execution: "xla" fuses operations, which on the CPU wins wherever there is no convolution. "serial" runs one
            operation after the other in the calling thread: waking another takes 0.1 ms, much beside small operations.
            "parallel" runs branches of the computation at the same time.
    """

    def __init__(self, function: Callable[..., Any], execution: Execution) -> None:
        self._function = tf.function(function, jit_compile=execution == "xla")
        self._serial = execution == "serial"
        self._traces: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arrays: np.ndarray) -> Any:
        return self.trace(*arrays)(*[tf.constant(array) for array in arrays])

    def trace(self, *arrays: np.ndarray) -> Callable[..., Any]:
        """What computes on tensors of these shapes and dtypes; nothing is computed yet."""
        key = tuple([(array.shape, array.dtype) for array in arrays])
        if key not in self._traces:
            specs = [tf.TensorSpec(shape, dtype) for shape, dtype in key]
            trace = self._function.get_concrete_function(*specs)
            self._traces[key] = _serially(trace) if self._serial else trace
        return self._traces[key]

    @property
    def trace_count(self) -> int:
        """How often the function was traced."""
        return self._function.experimental_get_tracing_count()


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part without convolutions of a step that is being compiled: XLA fuses it, whatever executes the rest.

    Outside of a compiled step it is the function itself.
    """
    return tf.function(function, jit_compile=True) if tf.inside_function() else function


def _serially(trace: Any) -> Callable[..., Any]:
    dtypes = [output.dtype for output in trace.outputs]
    structure = trace.structured_outputs

    def call(*tensors: tf.Tensor) -> Any:
        outputs = tf.raw_ops.StatefulPartitionedCall(
            args=[*tensors, *trace.captured_inputs],
            Tout=dtypes,
            f=trace,
            executor_type="SINGLE_THREADED_EXECUTOR",
        )
        return tf.nest.pack_sequence_as(structure, outputs)

    return call
