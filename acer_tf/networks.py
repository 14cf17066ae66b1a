"""Keras models: torsos (Nature CNN, small CNN, MLP) and their heads.

`Network`: softmax policy and Q(x, ·), whose recurrent form is in `recurrent.py`. `ContinuousNetwork`: Gaussian mean, V
and a critic of actions.

A `Network` reads frames in two stages, so that a training batch touches each frame once:

    frames [B, F, *frame]  ── planes() ──►  [B, R, *plane]  ── model() ──►  probabilities, Q

`planes` prepares each frame once, moved as uint8, and stacks S consecutive ones. Acting, where the environment shows
whole stacks, is `observe`.
"""

from __future__ import annotations

from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from acer_tf.averaging import copy_weights
from acer_tf.distributions import Categorical, Gaussian
from acer_tf.layers import (
    EpsilonGreedy,
    Lstm,
    PatchConvolution,
    ProductConvolution,
    RunningNormalization,
    SharedBias,
)
from acer_tf.torsos import ARCHITECTURES, PATCH, TORSOS, Torso, architecture_of, torso_of
from acer_tf.types import EnvironmentSpec, Memory

Initialization = Literal["orthogonal", "fan_in"]
Precision = Literal["float32", "bfloat16"]
Policy = Literal["softmax", "epsilon_greedy"]
Critic = Literal["dueling", "separate", "none"]


class Network:
    """A policy f(·|φ(x)) and Q(x, ·) on one torso (paper, §2 and §4; DQN has Q alone, and its policy from that).

    Args:
        spec: the environment's observations and number of actions.
        architecture: of `torsos.ARCHITECTURES`, or "module:NAME" of a torso of one's own. All of them scale uint8 to
            [0, 1], and read bool as 0 and 1.
        initialization: "orthogonal": √2 in the torso, 0.01 policy head, 1 Q head, zero biases (OpenAI baselines);
            "fan_in": weights and biases uniform in ±1/√fan_in, Torch's default (A3C's).
        precision: of the torso's products; heads, softmax and all that follows are float32.
        policy: "softmax" of logits by a head of its own, or "epsilon_greedy" in Q (`self.exploration` holds its ε).
        evaluation_epsilon: ε of an ε-greedy policy once it is exported.
        shared_bias: whether the Q head has one bias for all actions (tuned Double DQN, van Hasselt et al. 2016).
        seed: of the initial weights.

    Raises:
        ValueError: the architecture cannot read such observations.
    """

    normalization = None
    state_size = 0  # U: numbers that are carried from one observation to the next

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
            raise ValueError(f"network {architecture!r} is not of class {type(self).__name__}")
        self.spec = spec
        self.architecture = architecture
        self.policy, self.shared_bias, self.evaluation_epsilon = policy, shared_bias, evaluation_epsilon
        layers = Layers(initialization, precision, seed, scale=1 / 255 if spec.observation_dtype == "uint8" else 1.0)
        planes = keras.Input(_plane_shape(self.torso, spec), dtype=precision, name="planes")
        features = self.torso.build(layers, planes)
        self.exploration: EpsilonGreedy | None = None
        self.model = self._assemble(layers, planes, features)

    def distribution(self, observation: tf.Tensor) -> Categorical:
        """f(·|φ(x)) of observations [N, *observation_shape] as the environment shows them."""
        return Categorical(self.observe(observation)[0])

    def twin(self) -> Network:
        """A network of the same function and weights, in float32."""
        twin = type(self)(self.spec, architecture=self.architecture, policy=self.policy, shared_bias=self.shared_bias)
        copy_weights(self.model, twin.model)
        return twin

    def planes(self, frames: tf.Tensor, age: tf.Tensor) -> tf.Tensor:
        """Stacks each row's frame behind the S−1 before it, in the layout that `model` reads.

        Args:
            frames: [B, S−1+R, *frame_shape], consecutive frames of one environment.
            age: [B, R] rows since the episode's first observation: older planes read as zero, as ALE fills them.

        Returns:
            [B, R, *plane] of the torso's dtype, not yet scaled.
        """
        if self.torso.patches:
            batch, count = tf.shape(frames)[0], frames.shape[1]
            patches = _patches(tf.reshape(frames, [batch * count, 1, *frames.shape[2:]]))
            frames = tf.reshape(patches, [batch, count, *patches.shape[1:]])
        if self.spec.stack > 1:
            frames = _stacks(frames, age, self.spec.stack)
        return tf.cast(frames, self.model.inputs[0].dtype)

    def burn_in(self, planes: tf.Tensor, memory: Memory | None, rows: int) -> tuple[Any, ...]:
        """What `__call__` takes to answer the last `rows` rows: here just their planes."""
        return (planes,)

    def __call__(self, planes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(probabilities [B, R, A], Q [B, R, A]) of planes [B, R, *plane]; float32."""
        batch, rows = tf.shape(planes)[0], tf.shape(planes)[1]
        shape = [batch, rows, self.spec.num_actions]
        probabilities, q = self.model(joined(planes))
        return tf.reshape(probabilities, shape), tf.reshape(q, shape)

    def observe(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(probabilities [N, A], Q [N, A]) of observations [N, *observation_shape] as the environment shows them."""
        probabilities, q = self.model(self._shown(observation))
        return probabilities, q

    def _shown(self, observation: tf.Tensor) -> tf.Tensor:
        """The planes [N, *plane] of whole observations."""
        planes = observation
        if self.torso.patches:
            stacks = [tf.shape(observation)[0], self.spec.stack, *self.spec.frame_shape]
            planes = _patches(tf.reshape(observation, stacks))
        return tf.cast(planes, self.model.inputs[0].dtype)

    def _assemble(self, layers: Layers, planes: keras.KerasTensor, features: keras.KerasTensor) -> keras.Model:
        return keras.Model(planes, self._heads(layers, features), name=self.architecture.replace(":", "."))

    def _heads(self, layers: Layers, features: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """(probabilities, Q) of what lies below."""
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
    """The mean φ(x) of a Gaussian policy and V(x) on one torso, and perhaps a critic of actions (§5, Fig. 2).

    Two layers of 256 tanh units carry mean and V. A critic of actions reads a state and m actions at once:

        "dueling":  A(x, a), one layer of 256 on the torso's features and the action ("an additional small network")
        "separate": Q(x, a), two layers of 256 of its own on the observation and the action (ablation, appendix E.4)
        "none":     only the mean and V (A3C, TIS)

    Args:
        spec: the environment's observations and continuous actions.
        critic: see above.
        policy_std: σ > 0, the policy's fixed standard deviation in every component; the network only carries it.
        initialization: as `Network`'s.
        precision: of the torso's products; heads and all that follows are float32.
        normalize: whether observations are normalised by their running mean and variance, which `note` moves.
        seed: of the initial weights.
        normalization: the layer that holds those statistics, where another network has it already.

    Raises:
        ValueError: the observations are stacked frames.
    """

    architecture = "mlp"
    torso = TORSOS["mlp"]  # which it is compiled as
    state_size = 0

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        critic: Critic,
        policy_std: float = 0.3,
        initialization: Initialization = "orthogonal",
        precision: Precision = "float32",
        normalize: bool = True,
        seed: int = 0,
        normalization: RunningNormalization | None = None,
    ) -> None:
        _readable("mlp", spec)
        self.spec, self.policy_std = spec, policy_std
        self.normalization = normalization or (RunningNormalization(name="normalization") if normalize else None)
        layers = Layers(initialization, precision, seed)
        observation = keras.Input(spec.frame_shape, name="observation")
        x = keras.layers.Flatten()(observation)
        if self.normalization is not None:
            x = self.normalization(x)
        features = layers.hidden(256, "tanh", "dense2", layers.hidden(256, "tanh", "dense1", x))
        mean = layers.head(spec.action_size, 0.01, "mean", features)
        value = layers.head(1, 1.0, "value", features)[:, 0]
        self.state = keras.Model(observation, (mean, value, features if critic == "dueling" else x), name="state")
        if critic == "none":
            self.model = self.state
            return
        state, actions = keras.Input(self.state.outputs[2].shape[1:]), keras.Input((None, spec.action_size))
        h = state if critic == "dueling" else layers.hidden(256, "tanh", "critic_torso", state)
        # The state's part is computed once for all of its actions.
        h = layers.hidden(256, "linear", "critic_state", h)[:, None] + layers.hidden(
            256, "linear", "critic_action", actions, bias=False
        )
        of_actions = layers.head(1, 1.0, "critic", keras.layers.Activation("tanh")(h))[..., 0]
        self.critic = keras.Model((state, actions), of_actions, name="critic")
        mean, value, state = self.state(observation)
        self.model = keras.Model(
            (observation, actions), (mean, value, self.critic((state, actions))), name="continuous"
        )

    def __call__(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(mean [..., d], V [...], what the critic reads [..., F]) of observations [..., *observation_shape]."""
        shape = tf.shape(observation)
        lead = shape[: observation.shape.rank - len(self.spec.frame_shape)]
        flat = tf.reshape(observation, [-1, *self.spec.frame_shape])
        return tuple(tf.reshape(output, tf.concat([lead, tf.shape(output)[1:]], axis=0)) for output in self.state(flat))

    def distribution(self, observation: tf.Tensor) -> Gaussian:
        """f(·|φ(x)) of observations [..., *observation_shape]."""
        return Gaussian(self(observation)[0], self.policy_std)

    def of_actions(self, state: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """A(x, a) or Q(x, a) [B, T, m] of states [B, T, F], as `__call__` gives them, and actions [B, T, m, d]."""
        batch, rows = tf.shape(state)[0], tf.shape(state)[1]
        flat = (tf.reshape(t, tf.concat([[batch * rows], tf.shape(t)[2:]], axis=0)) for t in (state, actions))
        return tf.reshape(self.critic(tuple(flat)), [batch, rows, actions.shape[2]])


def joined(rows: tf.Tensor) -> tf.Tensor:
    """[B, R, ...] to [B · R, ...]."""
    shape = tf.shape(rows)
    return tf.reshape(rows, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))


def _readable(architecture: str, spec: EnvironmentSpec) -> Torso:
    torso = torso_of(architecture)
    if not torso.reads(spec):
        recurrent = architecture_of(architecture).recurrent
        fitting = [name for name in ARCHITECTURES if architecture_of(name).recurrent == recurrent]
        raise ValueError(
            f"network {architecture!r} cannot read observations of shape {spec.observation_shape} and dtype "
            f"{spec.observation_dtype}; these can: {[name for name in fitting if torso_of(name).reads(spec)]}"
        )
    return torso


def _plane_shape(torso: Torso, spec: EnvironmentSpec) -> tuple[int, ...]:
    if not torso.patches:
        return spec.frame_shape
    height, width = spec.frame_shape
    return (height // PATCH, width // PATCH, spec.stack * PATCH**2)


def _patches(stacks: tf.Tensor) -> tf.Tensor:
    """uint8 [M, S, H, W] to 4×4 patches [M, H/4, W/4, S·16], of the same dtype."""
    count = tf.shape(stacks)[0]
    stack, height, width = stacks.shape[1], stacks.shape[2] // PATCH, stacks.shape[3] // PATCH
    # The four neighbouring pixels of a patch's row move as one 32-bit word: 6 times faster than tf.nn.space_to_depth.
    words = tf.bitcast(tf.reshape(stacks, [count, stack, height, PATCH, width, PATCH]), tf.int32)
    pixels = tf.bitcast(tf.transpose(words, [0, 2, 4, 1, 3]), tf.uint8)
    return tf.reshape(pixels, [count, height, width, stack * PATCH**2])


def _stacks(frames: tf.Tensor, age: tf.Tensor, stack: int) -> tf.Tensor:
    """[B, S−1+R, H, W, C] to [B, R, H, W, S·C]: each row behind the S−1 frames before it; zero where older than age."""
    blank = frames.shape[1]
    frames = tf.pad(frames, [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    newest = tf.range(stack - 1, blank)
    # Copying whole frames by number is several times faster than selecting pixel by pixel.
    planes = [
        tf.gather(frames, tf.where(tf.cast(age, tf.int32) >= back, newest - back, blank), batch_dims=1)
        for back in range(stack - 1, -1, -1)
    ]
    return tf.concat(planes, axis=-1)


class Layers:
    """What torsos and heads are built of: one initialization rule, one precision and one sequence of seeds.

    Args:
        initialization: see `Network`.
        precision: of the torso.
        seed: of the initial weights.
        scale: of observations to [0, 1]; 1 where they are not pixels.
    """

    def __init__(self, initialization: Initialization, precision: Precision, seed: int, scale: float = 1.0) -> None:
        self._initialization = initialization
        self._policy = _dtype_policy(precision)
        self._scale = scale
        self._seeds = (int(s) for s in np.random.SeedSequence(seed).generate_state(32))

    def scaled(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Pixels to [0, 1]; all else as it is."""
        return keras.layers.Rescaling(self._scale, dtype=self._policy)(x)

    def flat(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.layers.Flatten(dtype=self._policy)(x)

    def hidden(
        self, units: int, activation: str, name: str, x: keras.KerasTensor, *, bias: bool = True
    ) -> keras.KerasTensor:
        """A dense layer."""
        initial = self._initial(np.sqrt(2.0), x.shape[-1])
        return keras.layers.Dense(units, activation, bias, **initial, dtype=self._policy, name=name)(x)

    def convolution(self, filters: int, size: int, stride: int, name: str, x: keras.KerasTensor) -> keras.KerasTensor:
        """A convolution of [H, W, C] images without padding, then ReLU."""
        initial = self._initial(np.sqrt(2.0), fan_in=size * size * x.shape[-1])
        return keras.layers.Conv2D(filters, size, stride, activation="relu", **initial, dtype=self._policy, name=name)(
            x
        )

    def product_convolution(self, filters: int, size: int, name: str, x: keras.KerasTensor) -> keras.KerasTensor:
        """The same at stride 1 as a product of matrices, which XLA fuses; for small images."""
        initial = self._initial(np.sqrt(2.0), fan_in=size * size * x.shape[-1])
        return ProductConvolution(filters, size, **initial, dtype=self._policy, name=name)(x)

    def patch_convolution(self, filters: int, name: str, x: keras.KerasTensor) -> keras.KerasTensor:
        """Kernels of 8×8 pixels at stride 4 over patches of unscaled pixels, then ReLU."""
        initial = self._initial(np.sqrt(2.0), fan_in=8 * 8 * x.shape[-1] // PATCH**2)
        return PatchConvolution(filters, **initial, dtype=self._policy, name=name)(x)

    def head(
        self, units: int, gain: float, name: str, features: keras.KerasTensor, *, bias: bool = True
    ) -> keras.KerasTensor:
        """A linear layer on float32 features, whatever the torso's precision."""
        initial = self._initial(gain, features.shape[-1])
        return keras.layers.Dense(units, None, bias, **initial, dtype="float32", name=name)(features)

    def lstm(self, units: int, features: keras.KerasTensor) -> Lstm:
        """In float32, whatever the torso's precision: rounding would add up over the rows.

        Its recurrent weights are orthogonal and its forget gates' bias is 1 whatever the rule, so that from the start
        the state outlasts some rows: with a bias of 0 a gate of ½ would halve it in each (Jozefowicz et al. 2015).
        """
        kernel = self._initial(1.0, features.shape[-1])["kernel_initializer"]
        recurrent = keras.initializers.Orthogonal(seed=next(self._seeds))
        return Lstm(units, kernel, recurrent, dtype="float32", name="lstm")

    def _initial(self, gain: float, fan_in: int) -> dict[str, keras.initializers.Initializer]:
        if self._initialization == "orthogonal":
            kernel = keras.initializers.Orthogonal(gain, seed=next(self._seeds))
            return {"kernel_initializer": kernel, "bias_initializer": keras.initializers.Zeros()}
        limit = fan_in**-0.5
        kernel, bias = (keras.initializers.RandomUniform(-limit, limit, seed=next(self._seeds)) for _ in range(2))
        return {"kernel_initializer": kernel, "bias_initializer": bias}


def _dtype_policy(precision: Precision) -> str:
    # Weights, and so the optimizer's state, stay float32 under the mixed policy.
    return "mixed_bfloat16" if precision == "bfloat16" else "float32"
