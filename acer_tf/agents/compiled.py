"""Compilation of acting and of updates."""

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

import optree
import tensorflow as tf

from acer_tf.errors import SettingsError
from acer_tf.networks.layers import for_xla
from acer_tf.networks.torsos import Execution


def on_gpu() -> bool:
    """Whether what is called here computes on a GPU; `tf.device` may choose."""
    return "GPU" in tf.zeros(()).device


def with_xla() -> bool:
    """Whether XLA may compile: unless the variable ACER_TF_XLA is 0.

    Without it a rule may use what XLA refuses, such as `tf.print` and `tf.numpy_function`.

    Raises:
        SettingsError: the variable is neither 0 nor 1.
    """
    value = os.environ.get("ACER_TF_XLA") or "1"
    if value not in ("0", "1"):
        raise SettingsError(f"ACER_TF_XLA={value}: this variable must be 0 or 1")
    return value == "1"


class Compiled:
    """A function on tensors that is called with NumPy arrays, or tuples of them, and traced once per shapes and dtypes.

    "xla" fuses operations, which on the CPU is fastest without convolutions. "serial" runs one operation after another
    in the calling thread, since waking another thread takes 0.1 ms. "parallel" runs independent operations at the same
    time. On a GPU all are "xla": there an operation takes less time than starting it. Without XLA (`with_xla`) all are
    "parallel": "serial" knows no loops, such as those of what is `fused`.
    """

    def __init__(self, function: Callable[..., Any], execution: Execution) -> None:
        self._on_gpu = on_gpu()
        self._function, self._xla = function, with_xla() and (self._on_gpu or execution == "xla")
        self._serial = with_xla() and execution == "serial" and not self._on_gpu
        self._compiling: threading.Thread | None = None
        # Kept here, because `tf.function` takes 0.2 ms to find one, a third of the time of acting with a small network.
        self.traces: dict[Any, Any] = {}
        self._lock = threading.Lock()  # several threads may act

    def __call__(self, *arguments: Any) -> Any:
        self.finish()
        trace = self.trace(*arguments)
        tensors = [tf.constant(array) for array in optree.tree_leaves(arguments)]
        if not self._serial:
            return trace._call_flat(tensors, trace.captured_inputs)  # binding arguments by name takes 0.1 ms more
        outputs = tf.raw_ops.StatefulPartitionedCall(
            args=[*tensors, *trace.captured_inputs],
            Tout=[output.dtype for output in trace.outputs],
            f=trace,
            executor_type="SINGLE_THREADED_EXECUTOR",
        )
        return trace.function_type.pack_output(outputs)

    def trace(self, *arguments: Any) -> Any:
        """The function traced for arguments of these shapes and dtypes; XLA compiles it at its first call."""
        arrays, structure = optree.tree_flatten(arguments)
        key = structure, *[(array.shape, array.dtype) for array in arrays]
        with self._lock:
            if key not in self.traces:
                specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
                flat = tf.function(
                    lambda *tensors: self._function(*structure.unflatten(tensors)),
                    autograph=False,
                    jit_compile=self._xla,
                )
                outside = for_xla.set(self._xla)
                try:
                    self.traces[key] = flat.get_concrete_function(*specs)
                finally:
                    for_xla.reset(outside)
        return self.traces[key]

    def compile_ahead(self, *arguments: Any) -> None:
        """Lets XLA compile the trace for such arguments in a thread, for which the next call waits.

        That calls it with copies of its variables, so that none changes. On a GPU nothing is done: XLA measures kernels
        there, and nothing else may run meanwhile.
        """
        if not self._xla or self._on_gpu:
            return
        trace = self.trace(*arguments)
        copies = {id(variable.handle): tf.Variable(variable) for variable in trace.variables}
        captured = [copies[id(x)].handle if id(x) in copies else x for x in trace.captured_inputs]
        tensors = [tf.constant(array) for array in optree.tree_leaves(arguments)]

        def call() -> None:
            with contextlib.suppress(Exception):  # the next call raises it too
                trace._call_flat(tensors, captured)
            copies.clear()  # not before: the call has their handles alone

        self._compiling = threading.Thread(target=call, name="compile")
        self._compiling.start()

    def finish(self) -> None:
        """Waits until what is compiled ahead is compiled."""
        if self._compiling is not None:
            self._compiling.join()
            self._compiling = None


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled by XLA even if the surrounding step is not; outside a `tf.function` or without XLA, itself.

    For parts of a step without convolutions.
    """
    compiles = tf.inside_function() and with_xla()
    return tf.function(function, autograph=False, jit_compile=True) if compiles else function
