"""Keras models: a torso (Nature CNN, small CNN, MLP) with heads.

`Network` has a softmax policy and Q(x, ·); its recurrent form is in `recurrent.py`. `ContinuousNetwork` has a Gaussian
mean, V and a critic of actions.

A `Network` reads a training batch in two stages, so that each frame is prepared once, as uint8:

    frames [B, F, *frame]  ── planes() ──►  [B, R, *plane]  ── model() ──►  probabilities, Q

When acting, the environment returns whole stacks: see `observe`.
"""

from __future__ import annotations

from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from acer_tf.distributions import Categorical, Gaussian
from acer_tf.networks.averaging import copy_weights
from acer_tf.networks.layers import (
    EpsilonGreedy,
    Lstm,
    PatchConvolution,
    ProductConvolution,
    RunningNormalization,
    SharedBias,
)
from acer_tf.networks.torsos import ARCHITECTURES, PATCH, TORSOS, Torso, architecture_of, torso_of
from acer_tf.types import EnvironmentSpec, RecurrentContext

Initialization = Literal["orthogonal", "fan_in"]
Precision = Literal["float32", "bfloat16", "tf32"]
Policy = Literal["softmax", "epsilon_greedy"]
Critic = Literal["dueling", "separate", "none"]
_MOST_SEEDS = 4096  # two for each layer of a torso


class Network:
    """A policy f(·|φ(x)) and Q(x, ·) on one torso (paper, §2 and §4; for DQN the policy follows from Q).

    Args:
        spec: the environment's observations and number of actions.
        architecture: of `torsos.ARCHITECTURES`, or "module:NAME" of a user's torso.
        initialization: "orthogonal": gain √2 in the torso, 0.01 policy head, 1 Q head, zero biases (OpenAI baselines);
            "fan_in": weights and biases uniform in ±1/√fan_in, Torch's default (A3C's).
        precision: of the torso's matrix products; heads and softmax are float32 ("tf32" is of all products on a GPU).
        policy: "softmax" of a separate head, or "epsilon_greedy" in Q (`self.exploration` holds ε).
        evaluation_epsilon: ε of the exported policy, if it is ε-greedy.
        shared_bias: whether the Q head has one bias for all actions (tuned Double DQN, van Hasselt et al. 2016).
        seed: of the initial weights.

    Raises:
        ValueError: the architecture cannot read these observations, is recurrent where this class is not or the
            reverse, or a user's torso cannot be imported.
    """

    normalization = None  # see `ContinuousNetwork`
    state_size = 0  # U, the length of the recurrent state

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        architecture: str,
        initialization: Initialization = "orthogonal",
        precision: Precision = "float32",
        policy: Policy = "softmax",
        evaluation_epsilon: float = 0.0,
        shared_bias: bool = False,
        seed: int = 0,
    ) -> None:
        self.torso = _readable(architecture, spec)
        if architecture_of(architecture).recurrent != (self.state_size > 0):
            raise ValueError(f"{type(self).__name__} does not support network {architecture!r}")
        self.spec = spec
        self.architecture = architecture
        self._model_name = architecture.replace(":", ".")  # scopes allow no colon
        self.policy, self.shared_bias, self.evaluation_epsilon = policy, shared_bias, evaluation_epsilon
        layers = Layers(initialization, precision, seed, scale=1 / 255 if spec.observation_dtype == "uint8" else 1.0)
        plane = spec.frame_shape
        if self.torso.patches:
            plane = (plane[0] // PATCH, plane[1] // PATCH, spec.stack * PATCH**2)
        elif spec.stack > 1:
            plane = (*plane, spec.stack)
        planes = keras.Input(plane, dtype=layers.compute_dtype, name="planes")
        features = self.torso.build(layers, planes)
        self.exploration: EpsilonGreedy | None = None
        self.model = self._assemble(layers, planes, features)

    def distribution(self, observation: tf.Tensor, state: tf.Tensor) -> tuple[Categorical, tf.Tensor]:
        """(f(·|φ(x)), the next state [N, U]); arguments as in `observe`."""
        probabilities, _, state = self.observe(observation, state)
        return Categorical(probabilities), state

    def twin(self) -> Network:
        """A copy of the network in float32."""
        twin = type(self)(self.spec, architecture=self.architecture, policy=self.policy, shared_bias=self.shared_bias)
        copy_weights(self.model, twin.model)
        return twin

    def planes(self, frames: tf.Tensor, age: tf.Tensor) -> tf.Tensor:
        """Stacks the S frames up to each row, in the layout that `model` reads.

        Args:
            frames: [B, S−1+R, *frame_shape], consecutive frames of one environment.
            age: [B, R] rows since the episode's first observation; older frames are read as zeros, as ALE fills them.

        Returns:
            [B, R, *plane] of the torso's dtype, not yet scaled.
        """
        if self.torso.patches:
            batch, count = tf.shape(frames)[0], frames.shape[1]
            patches = _patches(tf.reshape(frames, [batch * count, 1, *frames.shape[2:]]))
            frames = tf.reshape(patches, [batch, count, *patches.shape[1:]])
        elif self.spec.stack > 1:
            frames = frames[..., None]
        if self.spec.stack > 1:
            frames = _stacks(frames, age, self.spec.stack)
        return tf.cast(frames, self.model.inputs[0].dtype)

    def burn_in(
        self, planes: tf.Tensor, memory: RecurrentContext | None, rows: int
    ) -> tuple[tf.Tensor, RecurrentContext | None]:
        """Arguments of `__call__` for the last `rows` rows, after this network has read the W rows before them.

        Takes planes [B, W+rows, *plane] and the memory of all rows, None if the network is not recurrent.
        """
        return planes, memory

    def __call__(self, planes: tf.Tensor, memory: RecurrentContext | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """(probabilities [B, R, A], Q [B, R, A]), float32, of planes [B, R, *plane] and what `burn_in` returns."""
        return self._by_row(planes, self.model(joined(planes)))

    def observe(self, observation: tf.Tensor, state: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(probabilities [N, A], Q [N, A], the next state [N, U]), float32.

        Args:
            observation: [N, *observation_shape].
            state: [N, U] returned for the previous observation; None for zeros, with which an episode begins.
        """
        planes = observation
        if self.torso.patches:
            stacks = [tf.shape(observation)[0], self.spec.stack, *self.spec.frame_shape]
            planes = _patches(tf.reshape(observation, stacks))
        elif self.spec.stack > 1:
            planes = tf.transpose(observation, [0, 2, 3, 1])
        if state is None:
            state = tf.zeros([tf.shape(observation)[0], self.state_size])
        return self._step(tf.cast(planes, self.model.inputs[0].dtype), state)

    def _step(self, planes: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return (*self.model(planes), state)

    def _by_row(self, rows: tf.Tensor, outputs: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Outputs [B · R, A] as [B, R, A], with B and R as in `rows` [B, R, ...]."""
        shape = [tf.shape(rows)[0], tf.shape(rows)[1], self.spec.num_actions]
        probabilities, q = outputs
        return tf.reshape(probabilities, shape), tf.reshape(q, shape)

    def _assemble(self, layers: Layers, planes: keras.KerasTensor, features: keras.KerasTensor) -> keras.Model:
        return keras.Model(planes, self._heads(layers, features), name=self._model_name)

    def _heads(self, layers: Layers, features: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """(probabilities, Q)."""
        if self.policy == "softmax":
            logits = layers.head(self.spec.num_actions, 0.01, "policy", features)
            probabilities = keras.layers.Softmax(dtype="float32", name="probabilities")(logits)
        q = layers.head(self.spec.num_actions, 1.0, "q", features, bias=not self.shared_bias)
        if self.shared_bias:
            q = SharedBias(dtype="float32", name="q_bias")(q)
        if self.policy == "epsilon_greedy":
            self.exploration = EpsilonGreedy(dtype="float32", name="exploration")
            probabilities = self.exploration(q)
        return probabilities, q


class ContinuousNetwork:
    """The mean φ(x) of a Gaussian policy, V(x), and optionally a critic of actions, on one torso (§5, Fig. 2).

    The torso is two layers of 256 tanh units; without `shared_torso` the policy has another one. A critic reads one
    state and m actions at a time:

        "dueling":  A(x, a), one layer of 256 on the torso's features and the action ("an additional small network")
        "separate": Q(x, a), two separate layers of 256 on the observation and the action (ablation, appendix E.4)
        "none":     no critic of actions (A3C, TIS)

    Other arguments are as in `Network`.

    Args:
        critic: see above.
        shared_torso: whether the mean is read from the torso of V and the critic.
        policy_std: σ > 0, the policy's fixed standard deviation in every component.
        normalize: whether observations are normalised by their running mean and variance.
        normalization: the layer that holds these statistics, if another network already has it.

    Raises:
        ValueError: the observations are stacked frames.
    """

    architecture = "mlp"
    torso = TORSOS["mlp"]  # decides how the network is compiled
    state_size = 0

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        critic: Critic,
        shared_torso: bool = True,
        policy_std: float = 0.3,
        initialization: Initialization = "orthogonal",
        precision: Precision = "float32",
        normalize: bool = True,
        seed: int = 0,
        normalization: RunningNormalization | None = None,
    ) -> None:
        _readable("mlp", spec)
        self.spec, self.shared_torso, self.policy_std = spec, shared_torso, policy_std
        if normalization is None and normalize:
            normalization = RunningNormalization(dtype="float32", name="normalization")
        self.normalization = normalization
        layers = Layers(initialization, precision, seed)
        observation = keras.Input(spec.frame_shape, name="observation")
        x = keras.layers.Flatten("channels_last", dtype="float32")(observation)
        if self.normalization is not None:
            x = self.normalization(x)
        features = of_policy = layers.hidden(256, "tanh", "dense2", layers.hidden(256, "tanh", "dense1", x))
        if not shared_torso:
            of_policy = layers.hidden(256, "tanh", "policy2", layers.hidden(256, "tanh", "policy1", x))
        mean = layers.head(spec.action_size, 0.01, "mean", of_policy)
        value = layers.head(1, 1.0, "value", features)[:, 0]
        self.state = keras.Model(observation, (mean, value, features if critic == "dueling" else x), name="state")
        if critic == "none":
            self.model = self.state
            return
        state, actions = keras.Input(self.state.outputs[2].shape[1:]), keras.Input((None, spec.action_size))
        h = state if critic == "dueling" else layers.hidden(256, "tanh", "critic_torso", state)
        # The state's contribution is computed once for all m actions.
        of_state = layers.hidden(256, "linear", "critic_state", h)[:, None]
        h = of_state + layers.hidden(256, "linear", "critic_action", actions, bias=False)
        of_actions = layers.head(1, 1.0, "critic", keras.layers.Activation("tanh", dtype="float32")(h))[..., 0]
        self.critic = keras.Model((state, actions), of_actions, name="critic")
        mean, value, state = self.state(observation)
        outputs = (mean, value, self.critic((state, actions)))
        self.model = keras.Model((observation, actions), outputs, name="continuous")

    def __call__(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(mean [..., d], V [...], the critic's input [..., F]) of observations [..., *observation_shape]."""
        shape = tf.shape(observation)
        lead = shape[: observation.shape.rank - len(self.spec.frame_shape)]
        flat = tf.reshape(observation, [-1, *self.spec.frame_shape])
        return tuple(tf.reshape(output, tf.concat([lead, tf.shape(output)[1:]], axis=0)) for output in self.state(flat))

    def distribution(self, observation: tf.Tensor, state: tf.Tensor) -> tuple[Gaussian, tf.Tensor]:
        """(f(·|φ(x)), state) of observations [N, *observation_shape]; the state [N, 0] is as in `Network`."""
        return Gaussian(self(observation)[0], self.policy_std), state

    def of_actions(self, state: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """A(x, a) or Q(x, a) [B, T, m] of the critic's inputs [B, T, F] from `__call__` and actions [B, T, m, d]."""
        batch, rows = tf.shape(state)[0], tf.shape(state)[1]
        return tf.reshape(self.critic((joined(state), joined(actions))), [batch, rows, actions.shape[2]])


def joined(rows: tf.Tensor) -> tf.Tensor:
    """[B, R, ...] to [B · R, ...]."""
    shape = tf.shape(rows)
    return tf.reshape(rows, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))


def _readable(architecture: str, spec: EnvironmentSpec) -> Torso:
    torso = torso_of(architecture)
    if not torso.reads(spec):
        recurrent = architecture_of(architecture).recurrent
        alike = [name for name in ARCHITECTURES if architecture_of(name).recurrent == recurrent]
        able = [name for name in alike if torso_of(name).reads(spec)]
        raise ValueError(
            f"network {architecture!r} cannot read observations of shape {spec.observation_shape} and dtype "
            f"{spec.observation_dtype}; {'take ' + ' or '.join(able) if able else 'none can'}"
        )
    return torso


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


class Layers:
    """Makes the layers of torsos and heads, with one initialization rule, one precision and one sequence of seeds.

    Arguments are those of `Network`, and a factor `scale` that brings pixels to [0, 1]. A torso may also use Keras's
    own layers, with `dtype=layers.dtype_policy`, and those with weights with `**layers.initializers(gain, fan_in)`:
    otherwise the weights do not follow from the run's seed.
    """

    def __init__(self, initialization: Initialization, precision: Precision, seed: int, scale: float = 1.0) -> None:
        self._initialization = initialization
        self.compute_dtype = "bfloat16" if precision == "bfloat16" else "float32"
        # Under the mixed policy, weights and the optimizer's state stay float32.
        self.dtype_policy = "mixed_bfloat16" if precision == "bfloat16" else "float32"
        self._scale = scale
        self._seeds = (int(s) for s in np.random.SeedSequence(seed).generate_state(_MOST_SEEDS))

    def scaled(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Pixels scaled to [0, 1]; other observations unchanged."""
        return keras.layers.Rescaling(self._scale, dtype=self.dtype_policy)(x)

    def flat(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.layers.Flatten("channels_last", dtype=self.dtype_policy)(x)

    def hidden(
        self, units: int, activation: str, name: str, x: keras.KerasTensor, *, bias: bool = True
    ) -> keras.KerasTensor:
        """A dense layer."""
        initial = self.initializers(np.sqrt(2.0), x.shape[-1])
        return keras.layers.Dense(units, activation, bias, **initial, dtype=self.dtype_policy, name=name)(x)

    def convolution(
        self,
        filters: int,
        size: int,
        stride: int,
        name: str,
        x: keras.KerasTensor,
        *,
        activation: str = "relu",
        padding: str = "valid",
    ) -> keras.KerasTensor:
        """A convolution of [H, W, C] images."""
        initial = self.initializers(np.sqrt(2.0), fan_in=size * size * x.shape[-1])
        options = {**initial, "dtype": self.dtype_policy, "name": name, "activation": activation}
        return keras.layers.Conv2D(filters, size, stride, padding, "channels_last", **options)(x)

    def product_convolution(self, filters: int, size: int, name: str, x: keras.KerasTensor) -> keras.KerasTensor:
        """`convolution` at stride 1 as one matrix product, which XLA fuses; for small images."""
        initial = self.initializers(np.sqrt(2.0), fan_in=size * size * x.shape[-1])
        return ProductConvolution(filters, size, **initial, dtype=self.dtype_policy, name=name)(x)

    def patch_convolution(self, filters: int, name: str, x: keras.KerasTensor) -> keras.KerasTensor:
        """8×8 kernels at stride 4 over patches of unscaled pixels, then ReLU."""
        initial = self.initializers(np.sqrt(2.0), fan_in=8 * 8 * x.shape[-1] // PATCH**2)
        return PatchConvolution(filters, 2 * PATCH, **initial, dtype=self.dtype_policy, name=name)(x)

    def head(
        self, units: int, gain: float, name: str, features: keras.KerasTensor, *, bias: bool = True
    ) -> keras.KerasTensor:
        """A linear layer in float32."""
        initial = self.initializers(gain, features.shape[-1])
        return keras.layers.Dense(units, None, bias, **initial, dtype="float32", name=name)(features)

    def lstm(self, units: int, features: keras.KerasTensor) -> Lstm:
        """An LSTM in float32, since rounding would accumulate over the rows.

        The forget gates' bias is 1 whatever the initialization: with 0, a gate of ½ would halve the state in every row
        (Jozefowicz et al. 2015). Recurrent weights are orthogonal.
        """
        kernel = self.initializers(1.0, features.shape[-1])["kernel_initializer"]
        recurrent = keras.initializers.Orthogonal(seed=next(self._seeds))
        return Lstm(units, kernel, recurrent, dtype="float32", name="lstm")

    def initializers(self, gain: float, fan_in: int) -> dict[str, keras.initializers.Initializer]:
        """`kernel_initializer` and `bias_initializer` by the run's rule; the gain counts if that is "orthogonal"."""
        if self._initialization == "orthogonal":
            kernel = keras.initializers.Orthogonal(gain, seed=next(self._seeds))
            return {"kernel_initializer": kernel, "bias_initializer": keras.initializers.Zeros()}
        limit = fan_in**-0.5
        kernel, bias = (keras.initializers.RandomUniform(-limit, limit, seed=next(self._seeds)) for _ in range(2))
        return {"kernel_initializer": kernel, "bias_initializer": bias}
