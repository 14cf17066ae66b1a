"""The layers that Keras does not have, registered with it, so that models with them can be saved, loaded and cloned."""

import contextvars
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from acer_tf.networks.torsos import PATCH
from acer_tf.types import PerLeaf, leaves_of

# Whether what is traced at present is for XLA, which computes some layers faster in another form.
for_xla = contextvars.ContextVar("for_xla", default=False)

registered = keras.saving.register_keras_serializable(package="acer_tf")


@registered
class Planes(keras.layers.Layer):
    """Observations as convolutions read them: frames stacked along the last axis, in the layer's dtype, unscaled.

    Args:
        stack: S, the frames in an observation [S, H, W]; with 1, observations keep their layout.
        patches: whether frames come as patches of 4×4 pixels, [H/4, W/4, S·16], which moves less memory; then
            observations are uint8.
    """

    def __init__(self, stack: int = 1, patches: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stack, self.patches = stack, patches

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stack": self.stack, "patches": self.patches}

    def call(self, observation: tf.Tensor) -> tf.Tensor:
        """[N, *plane] of observations [N, *observation_shape]."""
        if self.patches:
            frames = observation if self.stack > 1 else observation[:, None]
            return tf.cast(_patches(frames), self.compute_dtype)
        if self.stack > 1:
            observation = tf.transpose(observation, [0, 2, 3, 1])
        return tf.cast(observation, self.compute_dtype)

    def of_frames(self, frames: tf.Tensor, age: tf.Tensor) -> tf.Tensor:
        """[B, R, *plane]: the S frames up to each of R consecutive rows; each is prepared once, in its own dtype.

        Args:
            frames: [B, S−1+R, *frame_shape], consecutive frames of one environment.
            age: [B, R] rows since the episode's first observation; older frames are read as zeros, as ALE fills them.
        """
        if self.patches:
            batch, count = tf.shape(frames)[0], frames.shape[1]
            patches = _patches(tf.reshape(frames, [batch * count, 1, *frames.shape[2:]]))
            frames = tf.reshape(patches, [batch, count, *patches.shape[1:]])
        elif self.stack > 1:
            frames = frames[..., None]
        if self.stack > 1:
            frames = _stacks(frames, age, self.stack)
        return tf.cast(frames, self.compute_dtype)


def _patches(stacks: tf.Tensor) -> tf.Tensor:
    """uint8 [M, S, H, W] to 4×4 patches [M, H/4, W/4, S·16], of the same dtype."""
    count = tf.shape(stacks)[0]
    stack, height, width = stacks.shape[1], stacks.shape[2] // PATCH, stacks.shape[3] // PATCH
    # Four neighbouring pixels of a patch's row are moved as one 32-bit word: 6 times faster than tf.nn.space_to_depth.
    words = tf.bitcast(tf.reshape(stacks, [count, stack, height, PATCH, width, PATCH]), tf.int32)
    pixels = tf.bitcast(tf.transpose(words, [0, 2, 4, 1, 3]), tf.uint8)
    return tf.reshape(pixels, [count, height, width, stack * PATCH**2])


def _stacks(frames: tf.Tensor, age: tf.Tensor, stack: int) -> tf.Tensor:
    """Frames [B, S−1+R, H, W, C] to stacks [B, R, H, W, S·C], zero where a frame is older than the row's age."""
    blank = frames.shape[1]
    frames = tf.pad(frames, [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    newest = tf.range(stack - 1, blank)
    # Gathering whole frames is several times faster than selecting pixel by pixel.
    planes = [
        tf.gather(frames, tf.where(tf.cast(age, tf.int32) >= back, newest - back, blank), batch_dims=1)
        for back in range(stack - 1, -1, -1)
    ]
    return tf.concat(planes, axis=-1)


def vectors(observation: PerLeaf, shape: PerLeaf) -> tf.Tensor:
    """Observations [..., *shape] as float32 vectors [..., D], leaf after leaf."""

    def flat(leaf: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
        leaf = tf.convert_to_tensor(leaf)
        lead = tf.shape(leaf)[: leaf.shape.rank - len(shape)]
        return tf.cast(tf.reshape(leaf, tf.concat([lead, [math.prod(shape)]], axis=0)), tf.float32)

    parts = [flat(*each) for each in zip(leaves_of(observation), leaves_of(shape), strict=True)]
    return tf.concat(parts, axis=-1) if len(parts) > 1 else parts[0]


@registered
def gelu(x: tf.Tensor) -> tf.Tensor:
    """GELU in its form with tanh (Hendrycks & Gimpel 2016): the exact one is no operation of ONNX before version 20."""
    return keras.activations.gelu(x, approximate=True)


@registered
class RunningNormalization(keras.layers.Layer):
    """(x − mean) / standard deviation over all vectors seen so far, clipped to ±10; at first mean 0 and variance 1.

    The online and the average network share one layer, so that both read the same input.
    """

    def build(self, input_shape: Sequence[int]) -> None:
        self.size = input_shape[-1]
        options: dict[str, Any] = {"trainable": False, "dtype": "float32"}
        self.count = self.add_weight(shape=(), initializer="zeros", name="count", **options)
        self.mean = self.add_weight(shape=(self.size,), initializer="zeros", name="mean", **options)
        self.variance = self.add_weight(shape=(self.size,), initializer="ones", name="variance", **options)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[..., D] float32 of x [..., D]."""
        normal = (tf.cast(x, tf.float32) - self.mean) * tf.math.rsqrt(self.variance + 1e-8)
        return tf.clip_by_value(normal, -10.0, 10.0)

    def update(self, x: tf.Tensor) -> None:
        """Updates the statistics with x [..., D], by the formula for the moments of a union (Chan et al. 1979)."""
        x = tf.reshape(tf.cast(x, tf.float32), [-1, x.shape[-1]])
        count, (mean, variance) = tf.cast(tf.shape(x)[0], tf.float32), tf.nn.moments(x, axes=[0])
        share, offset = count / (self.count + count), mean - self.mean
        variance = (1 - share) * self.variance + share * variance + share * (1 - share) * offset**2
        # A coordinate whose squares exceed float32 keeps its statistics; its values are clipped all the same.
        finite = tf.math.is_finite(variance)
        self.variance.assign(tf.where(finite, variance, self.variance))
        self.mean.assign(tf.where(finite, self.mean + share * offset, self.mean))
        self.count.assign(self.count + count)


@registered
class PatchConvolution(keras.layers.Conv2D):
    """`Conv2D` of 8×8 kernels at stride 4 without padding, over unscaled frames given as 4×4 patches (see `Planes`).

    It equals the convolution over [H, W, S] images divided by `scale`. Over patches [H/4, W/4, S·16] (frame, then row,
    then column of the patch) it is a 2×2 convolution at stride 1. The kernel keeps the usual shape [8, 8, S, filters].
    """

    def __init__(self, *args: Any, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.scale = scale

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}

    def build(self, input_shape: Sequence[int]) -> None:
        super().build((None, *self.kernel_size, input_shape[-1] // PATCH**2))
        self.input_spec = None  # which is that of images

    def compute_output_shape(self, input_shape: Sequence[int]) -> tuple[int, ...]:
        batch, *sides, _ = input_shape
        return (batch, *(side and side - 1 for side in sides), self.filters)

    def call(self, patches: tf.Tensor) -> tf.Tensor:
        """[B, H/4 − 1, W/4 − 1, filters] of patches [B, H/4, W/4, S·16], not yet scaled; both of the layer's dtype."""
        frames = self.kernel.shape[2]
        # Scaling the kernel instead of the pixels saves a pass over them; integers up to 255 are exact in bfloat16.
        kernel = tf.reshape(self.kernel / self.scale, [2, PATCH, 2, PATCH, frames, self.filters])
        kernel = tf.reshape(tf.transpose(kernel, [0, 2, 4, 1, 3, 5]), [2, 2, frames * PATCH**2, self.filters])
        sums = tf.nn.conv2d(patches, kernel, strides=1, padding="VALID")
        return self.activation(tf.nn.bias_add(sums, tf.convert_to_tensor(self.bias)))


@registered
class ProductConvolution(keras.layers.Conv2D):
    """`Conv2D` at stride 1 without padding, which XLA computes as one matrix product of patches and kernel.

    XLA fuses matrix products with their neighbours; its convolutions with few channels are slow on the CPU.
    """

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, H − k + 1, W − k + 1, filters] of x [B, H, W, channels], with kernels k×k; both of the layer's dtype."""
        if not for_xla.get():
            return super().call(x)
        rows, columns = self.kernel_size
        height, width = x.shape[1] - rows + 1, x.shape[2] - columns + 1
        offsets = [(i, j) for i in range(rows) for j in range(columns)]
        patches = tf.concat([x[:, i : i + height, j : j + width] for i, j in offsets], axis=-1)
        kernel = tf.reshape(tf.convert_to_tensor(self.kernel), [patches.shape[-1], self.filters])
        sums = tf.matmul(tf.reshape(patches, [-1, patches.shape[-1]]), kernel) + tf.convert_to_tensor(self.bias)
        return self.activation(tf.reshape(sums, [-1, height, width, self.filters]))


@registered
class Valid(keras.layers.Layer):
    """Logits [B, A], where −inf stands for those of actions that are not valid; these get no gradient."""

    def call(self, logits: tf.Tensor, legal: tf.Tensor) -> tf.Tensor:
        return tf.where(legal, logits, tf.constant(-np.inf, logits.dtype))


@registered
class EpsilonGreedy(keras.layers.Layer):
    """The ε-greedy probabilities [B, A] in Q [B, A]; among equal Q the first action is the greedy one.

    `epsilon` is an untrained weight, so that it is saved with the others. `legal` [B, A] are the valid actions, among
    which both the greedy and the random ones are; None for all.
    """

    def build(self, input_shape: Sequence[int]) -> None:
        self.epsilon = self.add_weight(shape=(), initializer="ones", trainable=False, name="epsilon")

    def call(self, q: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        count = q.shape[-1]
        if legal is None:
            return self.epsilon / count + (1.0 - self.epsilon) * tf.one_hot(tf.argmax(q, axis=-1), count, dtype=q.dtype)
        best = tf.argmax(tf.where(legal, q, tf.constant(-np.inf, q.dtype)), axis=-1)
        greedy = tf.one_hot(best, count, dtype=q.dtype)
        valid = tf.cast(legal, q.dtype)
        return self.epsilon / tf.reduce_sum(valid, axis=-1, keepdims=True) * valid + (1.0 - self.epsilon) * greedy


@registered
class SharedBias(keras.layers.Layer):
    """Adds the same number to all inputs."""

    def build(self, input_shape: Sequence[int]) -> None:
        self.bias = self.add_weight(shape=(), initializer="zeros", name="bias")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + self.bias


@registered
class Lstm(keras.layers.LSTM):
    """`keras.layers.LSTM`, with its state reset to zeros before some rows. The state is h, then c."""

    def call(self, x: tf.Tensor, state: tf.Tensor, carry: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """(h [B, R, units] of rows x [B, R, D], the state [B, 2 · units] after them), from the `state` before them.

        `carry` [B, R] bool is False where the state is reset to zeros before the row; None stands for True.
        """
        h, c = tf.split(state, 2, axis=1)
        outputs = []
        carried = [None] * x.shape[1] if carry is None else tf.unstack(carry[..., None], axis=1)
        for row, keep in zip(tf.unstack(x, axis=1), carried, strict=True):
            if keep is not None:
                h, c = (tf.where(keep, s, tf.zeros_like(s)) for s in (h, c))
            _, (h, c) = self.cell(row, [h, c])
            outputs.append(h)
        return tf.stack(outputs, axis=1), tf.concat([h, c], axis=1)
