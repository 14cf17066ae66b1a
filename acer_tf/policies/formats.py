"""Converts a policy to one file for other runtimes: ONNX (onnxruntime) or TFLite (LiteRT).

    SavedModel  ── _plain() ──►  a function without sampling  ── _onnx() or _tflite() ──►  the file's bytes

The file takes what the SavedModel's signature takes, for any N, and answers the same by the same names, with two
differences: there is no `action`, because some runtimes lack random operations (docs/policies.md has a function that
samples one from the other answers), and the next `state` is called `next_state`.
The file holds metadata.json: in ONNX as the property of this name, in TFLite as an archived file of this name, where
TFLite keeps the files that belong to a model.
"""

import importlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from acer_tf.errors import FormatError
from acer_tf.files import POLICY_METADATA, write_whole
from acer_tf.policies.policy import Policy


def require_convertible(output: Path, to: str) -> None:
    """Raises FormatError if `output` exists or cannot be made, or a package for the format `to` is missing."""
    if os.path.lexists(output):
        raise FormatError(f"--output={output} exists: not replaced; move it away, or choose another name")
    try:
        for package in FORMATS[to][1]:
            importlib.import_module(package)
    except ImportError as error:
        raise FormatError(
            f"--format={to} needs {package}, which is not installed ({error}): pip install 'acer_tf[formats]'"
        ) from error
    try:
        there = next(folder for folder in output.absolute().parents if os.path.lexists(folder))
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise FormatError(f"--output={output} cannot be written: {error.strerror}") from error


def convert(policy: Policy, output: Path, to: str) -> None:
    """Writes `policy` to the new file `output` in the format `to` of `FORMATS`, whole or not at all.

    Raises:
        FormatError: as `require_convertible`; or the format lacks an operation, of a user's torso for example.
        OSError: it cannot be written.
    """
    require_convertible(output, to)
    try:
        content = FORMATS[to][0](_plain(policy), json.dumps(policy.metadata, indent=2) + "\n")
    except Exception as error:  # TensorFlow, tf2onnx and onnx raise many types
        reason = str(error).strip().partition("\n")[0]
        raise FormatError(f"this policy cannot be converted to {to}: {reason or type(error).__name__}") from error
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, content)


def _plain(policy: Policy) -> Any:
    """The policy's signature as a tf.function of constants, without sampling, its pixels moved one by one."""
    frozen = convert_variables_to_constants_v2(policy.signature)
    answers = tf.nest.pack_sequence_as(policy.signature.structured_outputs, frozen.outputs)
    del answers["action"]
    if policy.state_size:
        answers["next_state"] = answers.pop("state")  # ONNX allows no input and output of one name
    inputs = [tf.TensorSpec(tensor.shape, tensor.dtype, tensor.op.name) for tensor in frozen.inputs]
    transposed = _transposed_words(frozen.graph)
    before = [(frozen.prune(frozen.inputs, pixels), axes) for pixels, axes, _ in transposed]
    after = frozen.prune([*frozen.inputs, *(result for _, _, result in transposed)], answers)

    def act(*given: tf.Tensor) -> dict[str, tf.Tensor]:
        return after(*given, *(tf.transpose(pixels(*given), axes) for pixels, axes in before))

    return tf.function(act, input_signature=inputs)


def _transposed_words(graph: tf.Graph) -> list[tuple[tf.Tensor, list[int], tf.Tensor]]:
    """The places where four pixels are moved as one 32-bit word (`networks.layers.Planes`), which ONNX cannot express.

    Each is a bitcast, a transposition and a bitcast: returns the input of the first, the axes of the same transposition
    without words, and the result of the last.
    """
    found = []
    for last in graph.get_operations():
        if last.type == "Bitcast" and (transpose := last.inputs[0].op).type == "Transpose":
            first, order = (tensor.op for tensor in transpose.inputs)
            axes = tf.get_static_value(order.outputs[0])
            if first.type == "Bitcast" and axes is not None and first.inputs[0].dtype == last.outputs[0].dtype:
                within = range(len(axes), first.inputs[0].shape.rank)  # the axis of the pixels in a word
                found.append((first.inputs[0], [*axes.tolist(), *within], last.outputs[0]))
    return found


def _onnx(act: Any, metadata: str) -> bytes:
    import onnx
    import tf2onnx

    model, _ = tf2onnx.convert.from_function(act, act.input_signature)
    onnx.helper.set_model_props(model, {POLICY_METADATA: metadata})
    # tf2onnx leaves an operation that it does not know as it is, and goes on.
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def _tflite(act: Any, metadata: str) -> bytes:
    module = tf.Module()
    module.act = act  # with it, the converter keeps the names of inputs and outputs
    model = tf.lite.TFLiteConverter.from_concrete_functions([act.get_concrete_function()], module).convert()
    file = io.BytesIO(model)
    with zipfile.ZipFile(file, "a") as archive:  # appended, which readers of the model do not see
        archive.writestr(POLICY_METADATA, metadata)
    return file.getvalue()


# By name: the converter, and the packages of the extra "formats" that it imports.
FORMATS: dict[str, tuple[Callable[[Any, str], bytes], tuple[str, ...]]] = {
    "onnx": (_onnx, ("onnx", "tf2onnx")),
    "tflite": (_tflite, ()),
}
