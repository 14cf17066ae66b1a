"""The network of continuous actions: a Gaussian's mean, V and a critic of actions, with or without an LSTM."""

from typing import Literal

import keras
import tensorflow as tf

from acer_tf.distributions import Gaussian
from acer_tf.networks.building import (
    Initialization,
    Layers,
    Precision,
    Tensor,
    inputs_of,
    joined,
    part,
    require_choice,
)
from acer_tf.networks.layers import RunningNormalization, registered
from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.networks.torsos import Dense, torso_of
from acer_tf.types import EnvironmentSpec, PerLeaf, RecurrentContext, leaves_of, map_leaves

Critic = Literal["dueling", "separate", "none"]
UNITS = 256
_DENSE = Dense((UNITS, UNITS), normalize_inputs=True)


@registered
class ContinuousNetwork(PolicyNetwork):
    """The mean φ(x) of a Gaussian policy, V(x), and optionally a critic of actions, on one torso (§5, Fig. 2).

    Without `shared_torso` the policy has a torso of its own, and an LSTM of its own. A critic reads one state and m
    actions at a time:

        "dueling":  A(x, a), one layer of 256 on the torso's features and the action ("an additional small network")
        "separate": Q(x, a), two separate layers of 256 on the observation and the action (ablation, appendix E.4)
        "none":     no critic of actions (A3C, TIS)

    Args:
        policy_std: σ > 0, the policy's fixed standard deviation in every component.
        others: as in `Network`, or see above. What a "separate" critic reads is normalised as what the torso reads.

    Raises:
        ValueError: as `PolicyNetwork`.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        critic: Critic,
        architecture: str = "mlp",
        lstm_units: int = 0,
        shared_torso: bool = True,
        policy_std: float = 0.3,
        initialization: Initialization = "orthogonal",
        precision: Precision = "float32",
        dense: Dense = _DENSE,
        seed: int = 0,
        normalization: RunningNormalization | None = None,
    ) -> None:
        require_choice("critic", critic, Critic)
        if not policy_std > 0:
            raise ValueError(f"policy_std={policy_std}: must be above 0")
        super().__init__(
            spec,
            dict(critic=critic, shared_torso=shared_torso, policy_std=policy_std),
            torsos=("torso",) if shared_torso else ("torso", "policy_torso"),
            architecture=architecture,
            initialization=initialization,
            precision=precision,
            dense=dense,
            lstm_units=lstm_units,
            seed=seed,
            normalization=normalization,
        )
        layers = self._builder
        read = [keras.Input(one.shape[1:], dtype=one.dtype) for one in self.features]
        mean = layers.head(spec.action_size, 0.01, "mean", read[-1])
        value = layers.head(1, 1.0, "value", read[0])[:, 0]
        self.heads = keras.Model(read, (mean, value), name="heads")
        self.critic: keras.Model | None = None
        self.critic_vectors: keras.Model | None = None  # from planes to what a separate critic reads
        critic_input = self.features[0]
        if critic == "separate":
            self.critic_vectors = part(
                "critic_vectors",
                self.plane,
                # Images have no statistics, and those of patches would be in another order.
                (lambda x: layers.flat(layers.scaled(x))) if torso_of(architecture).images else layers.normalized,
            )
            critic_input = self.critic_vectors.output
            self.normalization = self._found_normalization()  # which it may be alone to read
        if critic != "none":
            self.critic = _critic(layers, critic, critic_input, spec.action_size)
        self.policy_std = policy_std

    def call(self, observation: PerLeaf, actions: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """(mean [N, d], V [N]) of observations [N, *observation_shape] that begin episodes.

        For actions [N, m, d] also A or Q [N, m].
        """
        count = tf.shape(leaves_of(observation)[0])[0]
        planes = map_leaves(lambda leaf: self.preprocessing(leaf)[:, None], observation)
        memory = RecurrentContext(tf.zeros([count, self.state_size]), tf.ones([count, 1], tf.bool))
        mean, value, critic_input = self.windows(planes, memory)
        if actions is None or self.critic is None:
            return mean[:, 0], value[:, 0]
        return mean[:, 0], value[:, 0], self.of_actions(critic_input, actions[:, None])[:, 0]

    def answer(self, observation: PerLeaf, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(mean [N, d], V [N], the next state [N, U]) of observations [N, *observation_shape] and the state [N, U]."""
        features, state = self.step(observation, state)
        return (*self.heads(features), state)

    def distribution(
        self, observation: PerLeaf, state: tf.Tensor, legal: tf.Tensor | None = None
    ) -> tuple[Gaussian, tf.Tensor]:
        mean, _, state = self.answer(observation, state)
        return Gaussian(mean, self.policy_std), state

    def windows(
        self, planes: PerLeaf, memory: RecurrentContext | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(mean [B, R, d], V [B, R], what the critic reads [B, R, F]) of planes [B, R, *plane] and the rows' memory."""
        features, _ = self.read(planes, memory)
        critic_input = features[0]
        if self.critic_vectors is not None:
            critic_input = self.critic_vectors(inputs_of(map_leaves(joined, planes)))
        lead = tf.shape(leaves_of(planes)[0])[:2]
        outputs = (*self.heads(features), critic_input)
        return tuple(tf.reshape(output, tf.concat([lead, output.shape[1:]], axis=0)) for output in outputs)

    def of_actions(self, critic_input: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """A(x, a) or Q(x, a) [B, R, m] of what the critic reads [B, R, F] and actions [B, R, m, d]."""
        batch, rows = tf.shape(critic_input)[0], tf.shape(critic_input)[1]
        assert self.critic is not None
        return tf.reshape(self.critic((joined(critic_input), joined(actions))), [batch, rows, actions.shape[2]])


def _critic(layers: Layers, critic: Critic, read: Tensor, action_size: int) -> keras.Model:
    """The model from a critic's input [N, F] and actions [N, m, d] to A or Q [N, m]."""
    state, actions = (keras.Input(shape, dtype="float32") for shape in (read.shape[1:], (None, action_size)))
    h = state if critic == "dueling" else layers.hidden(UNITS, "tanh", "critic_torso", state)
    # The state's contribution is computed once for all m actions.
    of_state = layers.hidden(UNITS, "linear", "critic_state", h)[:, None]
    h = of_state + layers.hidden(UNITS, "linear", "critic_action", actions, bias=False)
    outputs = layers.head(1, 1.0, "critic", keras.layers.Activation("tanh", dtype="float32")(h))[..., 0]
    return keras.Model((state, actions), outputs, name="critic")
