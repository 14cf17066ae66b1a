"""The network of discrete actions: policy and Q(x, ·) on one torso, with or without an LSTM."""

from functools import partial
from typing import Any, Literal

import keras
import tensorflow as tf

from acer_tf.distributions import Categorical
from acer_tf.networks.building import Initialization, Layers, Precision, joined, part, require_choice
from acer_tf.networks.layers import EpsilonGreedy, RunningNormalization, SharedBias, Valid, registered
from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.networks.torsos import USUAL_DENSE, Dense
from acer_tf.types import EnvironmentSpec, PerLeaf, RecurrentContext, leaves_of

PolicyKind = Literal["softmax", "epsilon_greedy"]


@registered
class Network(PolicyNetwork):
    """A policy f(·|φ(x)) and Q(x, ·) on one torso (paper, §2 and §4; for DQN the policy follows from Q).

    It is called with observations, and by updates with `windows`.

    Where the environment gives action masks, the probabilities are those of a policy over the valid actions, exactly 0
    for the others; Q(x, ·) is of all actions.

    Args:
        spec: the environment's observations and number of actions.
        architecture: a name of `torsos.TORSOS`, or "module:NAME" for a user's torso.
        initialization: "orthogonal": gain √2 in the torso, 0.01 policy head, 1 Q head, zero biases (OpenAI baselines);
            "fan_in": weights and biases uniform in ±1/√fan_in, Torch's default (A3C's).
        precision: dtype of the matrix products of the torso (and of the continuous critic's hidden layers); heads and
            softmax are float32 ("tf32": all products on a GPU).
        lstm_units: units of an LSTM between torso and heads; 0 for none.
        policy: "softmax" of a separate head, or "epsilon_greedy" in Q (`exploration` holds ε).
        evaluation_epsilon: ε of the exported policy, if it is ε-greedy.
        dense: the dense layers of the torsos "mlp" and "combined", or of a user's.
        shared_bias: whether the Q head has one bias for all actions (tuned Double DQN, van Hasselt et al. 2016).
        seed: seed of the initial weights.
        normalization: the layer with the statistics of what these torsos read, if another network already has it and
            `dense` asks for one; None makes one.

    Raises:
        ValueError: the architecture cannot read these observations, or a user's torso cannot be imported.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        *,
        architecture: str,
        initialization: Initialization = "orthogonal",
        precision: Precision = "float32",
        dense: Dense = USUAL_DENSE,
        lstm_units: int = 0,
        policy: PolicyKind = "softmax",
        evaluation_epsilon: float = 0.0,
        shared_bias: bool = False,
        seed: int = 0,
        normalization: RunningNormalization | None = None,
    ) -> None:
        require_choice("policy", policy, PolicyKind)
        super().__init__(
            spec,
            dict(policy=policy, evaluation_epsilon=evaluation_epsilon, shared_bias=shared_bias),
            architecture=architecture,
            initialization=initialization,
            precision=precision,
            dense=dense,
            lstm_units=lstm_units,
            seed=seed,
            normalization=normalization,
        )
        (features,) = self.features
        read = features
        if spec.action_masks:
            read = {"features": features, "legal": keras.KerasTensor((None, spec.num_actions), "bool")}
        self.heads = part("heads", read, partial(_heads, self._builder, spec.num_actions, policy, shared_bias))
        greedy = policy == "epsilon_greedy"
        self.exploration: EpsilonGreedy | None = self.heads.get_layer("exploration") if greedy else None
        self.evaluation_epsilon = evaluation_epsilon

    def call(
        self, observation: PerLeaf, state: tf.Tensor | None = None, legal: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(probabilities [N, A], Q [N, A], the next state [N, U]), float32, of observations [N, *observation_shape].

        `state` [N, U] was returned for the previous observation; None stands for zeros, with which an episode begins.
        `legal` [N, A] bool are the valid actions, None for all; only networks of environments with masks read it.
        """
        count = tf.shape(leaves_of(observation)[0])[0]
        if state is None:
            state = tf.zeros([count, self.state_size])
        (features,), state = self.step(observation, state)
        if self.spec.action_masks and legal is None:
            legal = tf.ones([count, self.spec.num_actions], tf.bool)
        return (*self._read_heads(features, legal), state)

    def distribution(
        self, observation: PerLeaf, state: tf.Tensor, legal: tf.Tensor | None = None
    ) -> tuple[Categorical, tf.Tensor]:
        probabilities, _, state = self(observation, state, legal)
        return Categorical(probabilities, legal), state

    def windows(
        self, planes: PerLeaf, memory: RecurrentContext | None = None, *, legal: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """(probabilities [B, R, A], Q [B, R, A]), float32, of planes [B, R, *plane] and their rows' memory.

        `legal` [B, R, A] bool are the rows' valid actions, as in `Trajectory`: ValueError without them where the
        environment gives masks, since the policy that acted knew them.
        """
        if self.spec.action_masks and legal is None:
            raise ValueError("the environment gives action masks: call windows(..., legal=trajectory.legal)")
        (features,), _ = self.read(planes, memory)
        probabilities, q = self._read_heads(features, None if legal is None else joined(legal))
        lead = tf.shape(leaves_of(planes)[0])
        shape = [lead[0], lead[1], self.spec.num_actions]
        return tf.reshape(probabilities, shape), tf.reshape(q, shape)

    def _read_heads(self, features: tf.Tensor, legal: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        """What the heads make of features [M, F], and of the valid actions [M, A] where there are masks."""
        return self.heads([features, legal] if self.spec.action_masks else features)


def _heads(layers: Layers, num_actions: int, policy: PolicyKind, shared_bias: bool, inputs: PerLeaf) -> tuple[Any, Any]:
    """(probabilities, Q) of features, and of the valid actions where there are masks."""
    features, *masks = leaves_of(inputs)
    if policy == "softmax":
        logits = layers.head(num_actions, 0.01, "policy", features)
        if masks:
            logits = Valid(dtype="float32", name="valid")(logits, *masks)
        probabilities = keras.layers.Softmax(dtype="float32", name="probabilities")(logits)
    q = layers.head(num_actions, 1.0, "q", features, bias=not shared_bias)
    if shared_bias:
        q = SharedBias(dtype="float32", name="q_bias")(q)
    if policy == "epsilon_greedy":
        probabilities = EpsilonGreedy(dtype="float32", name="exploration")(q, *masks)
    return probabilities, q
