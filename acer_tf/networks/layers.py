"""Keras layers that Keras does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from acer_tf.networks.torsos import PATCH


class RunningNormalization(keras.layers.Layer):
    """(x − mean) / standard deviation over all vectors seen so far, clipped to ±10; at first the identity.

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

    def note(self, x: tf.Tensor) -> None:
        """Updates the statistics with x [..., D], by the formula for the moments of a union (Chan et al. 1979)."""
        x = tf.reshape(tf.cast(x, tf.float32), [-1, self.size])
        count, (mean, variance) = tf.cast(tf.shape(x)[0], tf.float32), tf.nn.moments(x, axes=[0])
        share, offset = count / (self.count + count), mean - self.mean
        self.variance.assign((1 - share) * self.variance + share * variance + share * (1 - share) * offset**2)
        self.mean.assign(self.mean + share * offset)
        self.count.assign(self.count + count)


class _Convolution(keras.layers.Layer):
    """The weights of a convolution: a kernel [size, size, channels, filters] and a bias."""

    def __init__(self, filters: int, size: int, kernel_initializer: Any, bias_initializer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._filters, self._size = filters, size
        self._initializers = (kernel_initializer, bias_initializer)

    def _channels(self, input_shape: Sequence[int]) -> int:
        return input_shape[-1]

    def build(self, input_shape: Sequence[int]) -> None:
        kernel, bias = self._initializers
        shape = (self._size, self._size, self._channels(input_shape), self._filters)
        self.kernel = self.add_weight(shape=shape, initializer=kernel, name="kernel")
        self.bias = self.add_weight(shape=(self._filters,), initializer=bias, name="bias")


class PatchConvolution(_Convolution):
    """A convolution of 8×8 kernels at stride 4 without padding, then ReLU, over frames given as 4×4 patches.

    It equals the convolution over [H, W, S] images scaled to [0, 1]. In the layout [H/4, W/4, S·16] (frame, then row,
    then column of the patch) it is a 2×2 convolution at stride 1. The kernel keeps the usual shape [8, 8, S, filters].
    """

    def _channels(self, input_shape: Sequence[int]) -> int:
        return input_shape[-1] // PATCH**2

    def call(self, patches: tf.Tensor) -> tf.Tensor:
        """[B, H/4 − 1, W/4 − 1, filters] of patches [B, H/4, W/4, S·16], not yet scaled; both of the layer's dtype."""
        frames = self.kernel.shape[2]
        # Scaling the kernel instead of the pixels saves a pass over them; integers up to 255 are exact in bfloat16.
        kernel = tf.reshape(self.kernel / 255.0, [2, PATCH, 2, PATCH, frames, self._filters])
        kernel = tf.reshape(tf.transpose(kernel, [0, 2, 4, 1, 3, 5]), [2, 2, frames * PATCH**2, self._filters])
        sums = tf.nn.conv2d(patches, kernel, strides=1, padding="VALID")
        return tf.nn.relu(tf.nn.bias_add(sums, tf.convert_to_tensor(self.bias)))


class ProductConvolution(_Convolution):
    """A convolution at stride 1 without padding, then ReLU, as one matrix product of patches and kernel.

    XLA fuses matrix products with their neighbours; its convolutions with few channels are slow on the CPU.
    """

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, H − k + 1, W − k + 1, filters] of x [B, H, W, channels], with kernels k×k; both of the layer's dtype."""
        height, width = (side - self._size + 1 for side in x.shape[1:3])
        offsets = [(i, j) for i in range(self._size) for j in range(self._size)]
        patches = tf.concat([x[:, i : i + height, j : j + width] for i, j in offsets], axis=-1)
        kernel = tf.reshape(tf.convert_to_tensor(self.kernel), [patches.shape[-1], self._filters])
        sums = tf.matmul(tf.reshape(patches, [-1, patches.shape[-1]]), kernel) + tf.convert_to_tensor(self.bias)
        return tf.nn.relu(tf.reshape(sums, [-1, height, width, self._filters]))


class EpsilonGreedy(keras.layers.Layer):
    """The ε-greedy probabilities [B, A] in Q [B, A]; among equal Q the first action is the greedy one.

    `epsilon` is an untrained weight, so that it is saved with the others.
    """

    def build(self, input_shape: Sequence[int]) -> None:
        self.epsilon = self.add_weight(shape=(), initializer="ones", trainable=False, name="epsilon")

    def call(self, q: tf.Tensor) -> tf.Tensor:
        count = q.shape[-1]
        return self.epsilon / count + (1.0 - self.epsilon) * tf.one_hot(tf.argmax(q, axis=-1), count)


class SharedBias(keras.layers.Layer):
    """Adds the same number to all inputs."""

    def build(self, input_shape: Sequence[int]) -> None:
        self.bias = self.add_weight(shape=(), initializer="zeros", name="bias")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + self.bias


class Lstm(keras.layers.Layer):
    """`keras.layers.LSTMCell` over rows, with its state reset to zeros before some of them. The state is h, then c."""

    def __init__(self, units: int, kernel_initializer: Any, recurrent_initializer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        initializers = {"kernel_initializer": kernel_initializer, "recurrent_initializer": recurrent_initializer}
        self.cell = keras.layers.LSTMCell(units, **initializers, dtype=self.dtype_policy, name="cell")

    def build(self, x_shape: Sequence[int], state_shape: Sequence[int], carry_shape: Sequence[int]) -> None:
        self.cell.build((None, x_shape[-1]))

    def call(self, x: tf.Tensor, state: tf.Tensor, carry: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(h [B, R, units] of each row, the state [B, 2 · units] after the last).

        Args:
            x: [B, R, D], with R known when tracing.
            state: [B, 2 · units] before the first row.
            carry: [B, R] bool: False resets the state to zeros before the row.
        """
        h, c = tf.split(state, 2, axis=1)
        outputs = []
        for row, keep in zip(tf.unstack(x, axis=1), tf.unstack(carry[..., None], axis=1), strict=True):
            h, c = (tf.where(keep, s, tf.zeros_like(s)) for s in (h, c))
            _, (h, c) = self.cell(row, [h, c])
            outputs.append(h)
        return tf.stack(outputs, axis=1), tf.concat([h, c], axis=1)
