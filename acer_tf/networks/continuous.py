"""The network of continuous actions: a Gaussian's mean, V and a critic of actions."""

import math
from functools import partial
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from acer_tf.distributions import Gaussian
from acer_tf.networks.building import (
    Initialization,
    Layers,
    PolicyNetwork,
    Precision,
    Tensor,
    joined,
    part,
    readable_torso,
)
from acer_tf.networks.layers import RunningNormalization, registered, vectors
from acer_tf.networks.torsos import architecture_of
from acer_tf.references import is_reference
from acer_tf.types import EnvironmentSpec, PerLeaf, leaves_of

Critic = Literal["dueling", "separate", "none"]
UNITS = 256


@registered
class ContinuousNetwork(PolicyNetwork):
    """The mean φ(x) of a Gaussian policy, V(x), and optionally a critic of actions, on one torso (§5, Fig. 2).

    The torso is two layers of 256 tanh units, or a user's; without `shared_torso` the policy has another one. A critic
    reads one state and m actions at a time:

        "dueling":  A(x, a), one layer of 256 on the torso's features and the action ("an additional small network")
        "separate": Q(x, a), two separate layers of 256 on the observation and the action (ablation, appendix E.4)
        "none":     no critic of actions (A3C, TIS)

    Raises ValueError if the torso cannot read the observations, or is not for continuous actions.

    Args:
        architecture: "mlp", or "module:NAME" of a user's `Torso`, which gets observations as vectors.
        policy_std: σ > 0, the policy's fixed standard deviation in every component.
        normalize: whether observations are normalised by their running mean and variance; otherwise they are divided by
            the spec's `observation_scale`.
        normalization: the layer that holds these statistics, if another network already has it; None makes one.
        others: as in `Network`, or see above.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        critic: Critic,
        architecture: str = "mlp",
        shared_torso: bool = True,
        policy_std: float = 0.3,
        initialization: Initialization = "orthogonal",
        precision: Precision = "float32",
        normalize: bool = True,
        seed: int = 0,
        normalization: RunningNormalization | None = None,
    ) -> None:
        torso = readable_torso(architecture, spec)
        if not torso.continuous or architecture_of(architecture).recurrent:
            raise ValueError("must be 'mlp' for continuous actions, or a Torso(..., continuous=True) of your own")
        if normalize and normalization is None:
            normalization = RunningNormalization(dtype="float32", name="normalization")
        parts = dict(critic=critic, shared_torso=shared_torso, policy_std=policy_std, normalize=normalize)
        options = dict(initialization=initialization, precision=precision, seed=seed)
        super().__init__(spec, architecture, options | parts | {"architecture": architecture})
        layers = Layers(initialization, precision, seed)
        x = observation = keras.Input((spec.observation_size,), dtype="float32", name="observation")
        if normalization is not None:
            x = normalization(x)
        elif any(leaves_of(spec.observation_scale)):
            x = keras.layers.Rescaling(_factors(spec), dtype="float32")(x)

        def features_of(name: str) -> Tensor:
            if is_reference(architecture):
                with keras.name_scope(f"{name}_torso"):  # the two torsos' layers have the same names
                    return part(f"{name}_torso", x, partial(torso.build, layers))(x)
            return layers.hidden(UNITS, "tanh", f"{name}2", layers.hidden(UNITS, "tanh", f"{name}1", x))

        features = of_policy = features_of("dense")
        if not shared_torso:
            of_policy = features_of("policy")
        mean = layers.head(spec.action_size, 0.01, "mean", of_policy)
        value = layers.head(1, 1.0, "value", features)[:, 0]
        read = features if critic == "dueling" else x
        self.of_state = keras.Model(observation, (mean, value, read), name="of_state")  # read: the critic's input
        self.critic: keras.Model | None = None if critic == "none" else _critic(layers, critic, read, spec.action_size)
        self.normalization, self.policy_std = normalization, policy_std

    def call(self, observation: PerLeaf, actions: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """(mean [N, d], V [N]) of observations [N, *observation_shape]; for actions [N, m, d] also A or Q [N, m]."""
        mean, value, state = self.of_state(vectors(observation, self.spec.frame_shape))
        return (mean, value) if actions is None or self.critic is None else (mean, value, self.critic((state, actions)))

    def distribution(
        self, observation: PerLeaf, state: tf.Tensor, legal: tf.Tensor | None = None
    ) -> tuple[Gaussian, tf.Tensor]:
        return Gaussian(self.read(observation)[0], self.policy_std), state

    def read(self, observation: PerLeaf) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(mean [..., d], V [...], the critic's input [..., F]) of observations [..., *observation_shape]."""
        x = vectors(observation, self.spec.frame_shape)
        lead, outputs = tf.shape(x)[:-1], self.of_state(tf.reshape(x, [-1, self.spec.observation_size]))
        return tuple(tf.reshape(output, tf.concat([lead, tf.shape(output)[1:]], axis=0)) for output in outputs)

    def of_actions(self, state: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """A(x, a) or Q(x, a) [B, T, m] of the critic's inputs [B, T, F] from `read` and actions [B, T, m, d]."""
        batch, rows = tf.shape(state)[0], tf.shape(state)[1]
        assert self.critic is not None
        return tf.reshape(self.critic((joined(state), joined(actions))), [batch, rows, actions.shape[2]])


def _factors(spec: EnvironmentSpec) -> np.ndarray:
    """[D]: what the numbers of an observation are multiplied by, leaf after leaf."""
    scaled = zip(leaves_of(spec.frame_shape), leaves_of(spec.observation_scale), strict=True)
    return np.concatenate([np.full(math.prod(shape), 1 / (scale or 1.0)) for shape, scale in scaled])


def _critic(layers: Layers, critic: Critic, read: Tensor, action_size: int) -> keras.Model:
    """The model from a critic's input [N, F] and actions [N, m, d] to A or Q [N, m]."""
    state, actions = (keras.Input(shape, dtype="float32") for shape in (read.shape[1:], (None, action_size)))
    h = state if critic == "dueling" else layers.hidden(UNITS, "tanh", "critic_torso", state)
    # The state's contribution is computed once for all m actions.
    of_state = layers.hidden(UNITS, "linear", "critic_state", h)[:, None]
    h = of_state + layers.hidden(UNITS, "linear", "critic_action", actions, bias=False)
    outputs = layers.head(1, 1.0, "critic", keras.layers.Activation("tanh", dtype="float32")(h))[..., 0]
    return keras.Model((state, actions), outputs, name="critic")
