"""What the networks of both kinds of actions have in common: torsos with or without an LSTM, and how rows are read."""

import dataclasses
import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import keras
import tensorflow as tf

from acer_tf.networks.building import (
    Initialization,
    Layers,
    Precision,
    Tensor,
    inputs_of,
    joined,
    normalization_of,
    part,
)
from acer_tf.networks.layers import Planes, RunningNormalization, vectors
from acer_tf.networks.torsos import Dense, image_leaves, readable_torso
from acer_tf.types import EnvironmentSpec, PerLeaf, RecurrentContext, leaves_of, map_leaves


class PolicyNetwork(keras.Model):
    """A Keras model of observations, which also says how agents act and learn with it.

    An agent's update reads windows of R consecutive rows, so that each frame is prepared once, in its own dtype:

        observation [N, *observation_shape] ── preprocessing ──► [N, *plane] ── torsos ──► [N, F] ── heads ──► outputs
        frames [B, F, *frame] ── planes() ──► [B, R, *plane] ── windows() ──► outputs of [B, R] rows

    Between a torso and the heads, a recurrent architecture has an LSTM, which reads row by row (A3C-LSTM, Mnih et al.
    2016). The state is those of the LSTMs, one after another.

    Its configuration is `spec` and `options`, the arguments of the subclass, so that Keras saves, loads and clones it;
    all its layers are built when it is made.

    Args:
        spec: the environment's observations and actions.
        own: the arguments that only the subclass has.
        torsos: their names; all are alike, each with weights, and an LSTM, of its own.
        others: as in `discrete.Network`.

    Attributes:
        normalization: the layer with the statistics of what the torsos read, if they normalise it.
        state_size: U, the length of the recurrent state; 0 without one.
        plane: what the torsos read, as Keras tensors [N, *plane].
        features: what the heads read after each torso, as Keras tensors [N, F].

    Raises:
        ValueError: the torso cannot read these observations, or a user's cannot be imported.
    """

    windows: Callable[..., tuple[tf.Tensor, ...]]  # (φ [B, R, A or d], ...) of planes and the rows' memory

    def __init__(
        self,
        spec: EnvironmentSpec,
        own: dict[str, Any],
        *,
        torsos: Sequence[str] = ("torso",),
        architecture: str,
        initialization: Initialization,
        precision: Precision,
        dense: Dense,
        lstm_units: int,
        seed: int,
        normalization: RunningNormalization | None,
    ) -> None:
        torso = readable_torso(architecture, spec)
        dense = Dense(*dense)._replace(units=tuple(dense[0]))  # lists, if Keras has read it from a file
        normalization = normalization_of(dense, architecture, normalization)
        images = image_leaves(architecture, spec)
        layers = Layers(initialization, precision, seed, spec.observation_scale, dense, normalization, images)
        scope = re.sub(r"^_|[^0-9A-Za-z_.]", ".", architecture)  # what TensorFlow allows
        super().__init__(name=scope, dtype="float32")
        self.spec, self.architecture, self._builder = spec, architecture, layers
        options = dict(initialization=initialization, precision=precision, seed=seed, lstm_units=lstm_units)
        self._options = {"architecture": architecture, **options, "dense": tuple(dense), **own}
        # Normalization needs all digits of the numbers.
        plane_dtype = layers.dtype_policy if normalization is None else "float32"
        self.preprocessing = Planes(spec.stack, torso.patches, dtype=plane_dtype, name="planes")
        seen = spec.observation_shape, spec.observation_dtype
        inputs = map_leaves(lambda shape, dtype: keras.Input(shape, dtype=dtype), *seen)
        planes = map_leaves(self.preprocessing, inputs)
        first, *others = torsos
        build = partial(torso.build, layers)
        self.torsos = [part(first, planes, build)]
        for name in others:
            with keras.name_scope(name):  # their layers have the names of the first's
                self.torsos.append(part(name, planes, build))
        self.lstms = []
        self.plane, features = planes, [one.output for one in self.torsos]
        if len(shape := features[0].shape) != 2:
            raise ValueError(f"its torso gives features of shape {shape}; must be [N, F], as layers.flat makes them")
        if lstm_units:
            names = [name.replace("torso", "lstm") for name in torsos]
            self.lstms = [layers.lstm(lstm_units, *each) for each in zip(features, names, strict=True)]
            features = [keras.KerasTensor((None, lstm_units), "float32")] * len(torsos)
        self.state_size = 2 * lstm_units * len(torsos)  # h and c of each
        self.features: list[Tensor] = features
        self.normalization = self._found_normalization()
        self.built = True

    def get_config(self) -> dict[str, Any]:
        return {"spec": dataclasses.asdict(self.spec), **self._options}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        module, colon, _ = config.get("architecture", "").partition(":")
        if colon and module not in sys.modules:  # like Keras, which imports no module that only a file names
            raise ValueError(f"the network's torso is one of {module}: import it first")
        return cls(**config | {"spec": EnvironmentSpec.of(config["spec"])})

    def in_float32(self) -> Self:
        """A copy of the network that computes in float32."""
        copy = self.from_config(self.get_config() | {"precision": "float32"})
        copy.set_weights(self.get_weights())
        return copy

    def distribution(
        self, observation: PerLeaf, state: tf.Tensor, legal: tf.Tensor | None = None
    ) -> tuple[Any, tf.Tensor]:
        """(f(·|φ(x)), the next state [N, U]) of observations [N, *observation_shape] and the state [N, U].

        `legal` [N, A] bool are the valid actions, None for all.
        """
        raise NotImplementedError

    def planes(self, frames: PerLeaf, age: tf.Tensor) -> PerLeaf:
        """[B, R, *plane], as the torsos read them; see `Planes.of_frames` for the arguments."""
        return map_leaves(lambda leaf: self.preprocessing.of_frames(leaf, age), frames)

    def burn_in(
        self, planes: PerLeaf, memory: RecurrentContext | None, rows: int
    ) -> tuple[PerLeaf, RecurrentContext | None]:
        """Arguments of `windows` for the last `rows` rows, after this network has read the W before them with memory.

        Takes planes [B, W+rows, *plane] and the memory of all rows; None if the network is not recurrent.
        """
        if memory is None:
            return planes, None
        state, before = memory.state, memory.carry.shape[1] - rows
        if before:
            first = map_leaves(lambda leaf: leaf[:, :before], planes)
            _, state = self.read(first, RecurrentContext(state, memory.carry[:, :before]))
        read = map_leaves(lambda leaf: leaf[:, before:], planes)
        return read, RecurrentContext(state, memory.carry[:, before:])

    def read(self, planes: PerLeaf, memory: RecurrentContext | None) -> tuple[list[tf.Tensor], tf.Tensor | None]:
        """(what the heads read [B · R, F] after each torso, the state [B, U] after the last row).

        Raises ValueError if there is no memory for an LSTM.
        """
        inputs = inputs_of(map_leaves(joined, planes))
        features = [torso(inputs) for torso in self.torsos]
        if not self.lstms:
            return features, None
        if memory is None:
            raise ValueError("the network has an LSTM: call windows(*inputs) with those of update_inputs(trajectory)")
        rows = memory.carry.shape[1]
        hidden, state = self._recur([tf.reshape(f, [-1, rows, f.shape[-1]]) for f in features], *memory)
        return [joined(h) for h in hidden], state

    def step(self, observation: PerLeaf, state: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        """(what the heads read [N, F] after each torso, the next state [N, U]) of one row of N environments."""
        inputs = inputs_of(map_leaves(self.preprocessing, observation))
        features = [torso(inputs) for torso in self.torsos]
        if not self.lstms:
            return features, state
        hidden, state = self._recur([f[:, None] for f in features], state)
        return [h[:, 0] for h in hidden], state

    def update_normalization(self, observation: PerLeaf) -> None:
        """Updates the statistics by which observations are normalised by new ones [..., *frame_shape]."""
        assert self.normalization is not None
        self.normalization.update(vectors(*map(self._builder.are_normalized, (observation, self.spec.frame_shape))))

    def _found_normalization(self) -> RunningNormalization | None:
        """The layer with the statistics that parts built so far read; ValueError if they gave it parts of leaves."""
        if (found := self._builder.normalization) is not None:
            whole = sum(math.prod(shape) for shape in leaves_of(self._builder.are_normalized(self.spec.frame_shape)))
            if found.size != whole:
                raise ValueError(
                    f"network {self.architecture!r}: layers.normalized is given {found.size} of {whole} numbers: it "
                    "takes whole leaves, and parts can be taken of what it gives"
                )
        return found

    def _recur(
        self, features: Sequence[tf.Tensor], state: tf.Tensor, carry: tf.Tensor | None = None
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """([B, R, units] of each LSTM, the state [B, U] after them) of features [B, R, F]; `carry` as in `Lstm`."""
        each = zip(self.lstms, features, tf.split(state, len(self.lstms), axis=1), strict=True)
        hidden, after = zip(*(lstm(x, own, carry) for lstm, x, own in each), strict=True)
        return list(hidden), tf.concat(after, axis=1)
