"""The parts that the networks are built with: one initialization rule, one precision and one sequence of seeds."""

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias, get_args

import keras
import numpy as np
import tensorflow as tf

from acer_tf.networks.layers import Lstm, PatchConvolution, ProductConvolution, RunningNormalization, gelu
from acer_tf.networks.torsos import PATCH, USUAL_DENSE, Dense, takes_dense
from acer_tf.types import PerLeaf, leaves_of, map_leaves

Initialization = Literal["orthogonal", "fan_in"]
Precision = Literal["float32", "bfloat16", "tf32"]
Tensor: TypeAlias = keras.KerasTensor
_MOST_SEEDS = 4096  # two for each layer of a torso


def require_choice(name: str, value: str, choices: Any) -> None:
    """Raises ValueError unless `value` is one of those of the type `choices`, a Literal."""
    if value not in get_args(choices):
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(get_args(choices))}")


def part(name: str, like: PerLeaf, build: Callable[[PerLeaf], Any]) -> keras.Model:
    """The model `name` of what `build` makes of an input whose leaves have the shapes and dtypes of those of `like`."""
    inputs = map_leaves(lambda leaf: keras.Input(leaf.shape[1:], dtype=leaf.dtype), like)
    return keras.Model(inputs_of(inputs), build(inputs), name=name)


def inputs_of(leaves: PerLeaf) -> Any:
    """The inputs of a Keras model that has one for each leaf: a name such as "goal/at" could not be one's name."""
    return leaves_of(leaves) if isinstance(leaves, dict) else leaves


def joined(rows: tf.Tensor) -> tf.Tensor:
    """[B, R, ...] to [B · R, ...]."""
    shape = tf.shape(rows)
    return tf.reshape(rows, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))


def normalization_of(
    dense: Dense, architecture: str, shared: RunningNormalization | None
) -> RunningNormalization | None:
    """The layer with the statistics of observations: `shared`, of another network, or a new one.

    None if the torso of `architecture` normalises nothing.
    """
    if not (dense.normalize_inputs and takes_dense(architecture)):
        return None
    if shared is not None:
        return shared
    return RunningNormalization(dtype="float32", name="normalization")


class Layers:
    """Makes the layers of torsos and heads, with one initialization rule, one precision and one sequence of seeds.

    Arguments are those of `Network`, the `scale` of `EnvironmentSpec.observation_scale`, the `normalization` of
    observations, if the network has one, and the leaves that it does not read, the `images`. A torso may also use
    Keras's own layers, with `dtype=layers.dtype_policy`, and those with weights with `**layers.initializers(gain,
    fan_in)`: otherwise the weights do not follow from the run's seed.
    """

    _prefix = ""  # of the layers' names
    _leaf: str | None = None  # whose layers these are

    def __init__(
        self,
        initialization: Initialization,
        precision: Precision,
        seed: int,
        scale: PerLeaf = None,
        dense: Dense = USUAL_DENSE,
        normalization: RunningNormalization | None = None,
        images: Collection[str] = (),
    ) -> None:
        require_choice("initialization", initialization, Initialization)
        require_choice("precision", precision, Precision)
        self._initialization = initialization
        # Under the mixed policy, weights and the optimizer's state stay float32.
        self.dtype_policy = "mixed_bfloat16" if precision == "bfloat16" else "float32"
        self._scale, self._dense = map_leaves(lambda one: one or 1.0, scale), dense
        self._normalization, self._images = normalization, images
        self._normalized: list[frozenset[str]] = []  # the leaves that `normalized` was given, also by way of `of_leaf`
        self._seeds = (int(s) for s in np.random.SeedSequence(seed).generate_state(_MOST_SEEDS))

    @property
    def normalization(self) -> RunningNormalization | None:
        """The layer with the statistics of observations, if a torso built so far reads it."""
        found = self._normalization if self._normalized else None
        return found if found is not None and found.built else None

    def are_normalized(self, leaves: PerLeaf) -> PerLeaf:
        """What is given of the leaves whose statistics `normalization` has."""
        if not isinstance(leaves, dict):
            return leaves
        return {name: leaf for name, leaf in leaves.items() if name in self._normalized[0]}

    def of_leaf(self, name: str) -> "Layers":
        """These layers for the observation's leaf `name`, with names of their own."""
        of_leaf = copy.copy(self)
        of_leaf._scale, of_leaf._prefix = self._scale[name], f"leaf{sorted(self._scale).index(name)}_"
        of_leaf._leaf = name
        return of_leaf

    def scaled(self, x: PerLeaf) -> PerLeaf:
        """x, all leaves or some, divided by their `EnvironmentSpec.observation_scale`; unchanged if there is none."""

        def divided(leaf: Tensor, scale: float) -> Tensor:
            return keras.layers.Rescaling(1 / scale, dtype=leaf.dtype)(leaf)

        return map_leaves(divided, x, {name: self._scale[name] for name in x} if isinstance(x, dict) else self._scale)

    def normalized(self, x: PerLeaf) -> Tensor:
        """[N, D] of observations x [N, ...], by their running mean and variance if the network has these, or scaled.

        x has all leaves or some, whole, the same in each call. Images are scaled, and come last.

        Raises:
            ValueError: an earlier call had other leaves.
        """
        if self._normalization is None:
            return self.flat(self.scaled(x))
        images = {name: leaf for name, leaf in x.items() if name in self._images} if isinstance(x, dict) else {}
        vectors = {name: leaf for name, leaf in x.items() if name not in images} if isinstance(x, dict) else x
        names = frozenset(vectors if isinstance(vectors, dict) else {self._leaf} - {None})
        if self._normalized and self._normalized[0] != names:
            now, before = (", ".join(sorted(each)) for each in (names, self._normalized[0]))
            raise ValueError(f"layers.normalized is given {now}, and before {before}: it takes both at once, in a dict")
        self._normalized[:] = [names]
        if not isinstance(x, dict):
            return self._normalization(self.flat(x))
        parts = [self._normalization(self.flat(vectors))] if vectors else []
        return self.joined([*parts, self.flat(self.scaled(images))] if images else parts)

    def flat(self, x: PerLeaf) -> Tensor:
        """[N, D]: all numbers of x [N, ...], leaf after leaf."""
        return self.joined([keras.layers.Flatten("channels_last", dtype=leaf.dtype)(leaf) for leaf in leaves_of(x)])

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """[N, ΣD] of parts [N, D]."""
        return keras.layers.Concatenate(dtype=parts[0].dtype)(parts) if len(parts) > 1 else parts[0]

    def dense(self, x: Tensor) -> Tensor:
        """The dense layers that `--dense_units` and its companions describe, named dense1, dense2, ..."""
        units, activation = self._dense.units, self._dense.activation
        for number, size in enumerate(units, 1):
            if not self._dense.layer_norm:
                x = self.hidden(size, activation, f"dense{number}", x)
                continue
            x = self.hidden(size, "linear", f"dense{number}", x)
            x = keras.layers.LayerNormalization(dtype=self.dtype_policy, name=f"{self._prefix}normalization{number}")(x)
            function = _activation(activation)
            x = keras.layers.Activation(function, dtype=self.dtype_policy, name=f"{self._prefix}activation{number}")(x)
        return x

    def hidden(self, units: int, activation: str, name: str, x: Tensor, *, bias: bool = True) -> Tensor:
        """A dense layer."""
        options = self.initializers(np.sqrt(2.0), x.shape[-1]) | {"name": self._prefix + name}
        return keras.layers.Dense(units, _activation(activation), bias, **options, dtype=self.dtype_policy)(x)

    def head(self, units: int, gain: float, name: str, x: Tensor, *, bias: bool = True) -> Tensor:
        """A linear layer in float32."""
        initial = self.initializers(gain, x.shape[-1])
        return keras.layers.Dense(units, None, bias, **initial, dtype="float32", name=name)(x)

    def convolution(self, filters: int, size: int, stride: int, name: str, x: Tensor, **options: Any) -> Tensor:
        """A convolution of [H, W, C] images, then ReLU; `options` of `keras.layers.Conv2D`: `activation`, `padding`."""
        return self._convolution(keras.layers.Conv2D, filters, size, stride, name, x.shape[-1], **options)(x)

    def product_convolution(self, filters: int, size: int, name: str, x: Tensor) -> Tensor:
        """`convolution` at stride 1, which XLA computes as one matrix product; for small images."""
        return self._convolution(ProductConvolution, filters, size, 1, name, x.shape[-1])(x)

    def patch_convolution(self, filters: int, name: str, x: Tensor) -> Tensor:
        """8×8 kernels at stride 4 over patches of unscaled pixels, then ReLU."""
        frames = x.shape[-1] // PATCH**2
        return self._convolution(PatchConvolution, filters, 2 * PATCH, PATCH, name, frames, scale=self._scale)(x)

    def _convolution(
        self, kind: Any, filters: int, size: int, stride: int, name: str, channels: int, **options: Any
    ) -> keras.layers.Layer:
        initial = self.initializers(np.sqrt(2.0), size * size * channels)
        given = {"activation": "relu", "data_format": "channels_last", "dtype": self.dtype_policy, **options}
        return kind(filters, size, stride, name=self._prefix + name, **initial, **given)

    def lstm(self, units: int, features: Tensor, name: str) -> Lstm:
        """An LSTM in float32, since rounding would accumulate over the rows.

        The forget gates' bias is 1 whatever the initialization: with 0, a gate of ½ would halve the state in every row
        (Jozefowicz et al. 2015). Recurrent weights are orthogonal.
        """
        kernel = self.initializers(1.0, features.shape[-1])["kernel_initializer"]
        recurrent = keras.initializers.Orthogonal(seed=next(self._seeds))
        lstm = Lstm(units, kernel_initializer=kernel, recurrent_initializer=recurrent, dtype="float32", name=name)
        lstm.build((None, None, features.shape[-1]))
        return lstm

    def initializers(self, gain: float, fan_in: int) -> dict[str, keras.initializers.Initializer]:
        """`kernel_initializer` and `bias_initializer` by the run's rule; the gain counts if that is "orthogonal"."""
        if self._initialization == "orthogonal":
            kernel = keras.initializers.Orthogonal(gain, seed=next(self._seeds))
            return {"kernel_initializer": kernel, "bias_initializer": keras.initializers.Zeros()}
        limit = fan_in**-0.5
        kernel, bias = (keras.initializers.RandomUniform(-limit, limit, seed=next(self._seeds)) for _ in range(2))
        return {"kernel_initializer": kernel, "bias_initializer": bias}


def _activation(name: str) -> Any:
    """What Keras takes for an activation: ours, or the name of one of its own."""
    return gelu if name == "gelu" else name
