"""The policy of a network in training answers as its export does, at every time."""

from __future__ import annotations

import numpy as np
import pytest

from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.policies.current import CurrentPolicy
from acer_tf.policies.policy import load_policy
from acer_tf.types import EnvironmentSpec
from tests.core import first_in_core
from tests.policies.test_export import make_metadata

VECTOR = EnvironmentSpec((3,), "float32", 1, 4)
ARM = EnvironmentSpec((3,), "float32", 1, 0, action_low=(-2.0, 0.0), action_high=(2.0, 1.0))
MAKERS = {
    "softmax": lambda: Network(VECTOR, architecture="mlp", seed=1),
    "ε-greedy": lambda: Network(VECTOR, architecture="mlp", seed=1, policy="epsilon_greedy", evaluation_epsilon=0.25),
    "recurrent": lambda: Network(VECTOR, architecture="mlp", lstm_units=256, seed=1),
    "continuous": lambda: ContinuousNetwork(ARM, critic="none", seed=1),
    "continuous recurrent": lambda: ContinuousNetwork(ARM, critic="dueling", seed=1, lstm_units=8),
}


@pytest.mark.parametrize("kind", first_in_core(MAKERS))
def test_it_follows_the_network_and_equals_its_export(kind, tmp_path):
    network, steps = MAKERS[kind](), [10]
    policy = CurrentPolicy(network, lambda: steps[0], lambda: make_metadata("CartPole-v1", steps=steps[0]))
    observation = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    state = policy.initial_state(5)
    assert state.shape == (5, policy.state_size)
    before = policy.answer(observation, state)
    for weight in network.trainable_variables:
        weight.assign(weight + 0.3)
    steps[0] = 20
    policy.export(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    now, expected = policy.answer(observation, state), loaded.answer(observation, loaded.initial_state(5))
    assert now.keys() == expected.keys()
    name = "mean" if "continuous" in kind else "q"
    assert not np.array_equal(before[name], now[name])
    for name in now.keys() - {"action"}:  # sampled
        np.testing.assert_array_equal(now[name], expected[name], name)
    assert (policy.metadata, policy.spec, policy.state_size) == (loaded.metadata, loaded.spec, loaded.state_size)
    if kind == "ε-greedy":
        assert float(network.exploration.epsilon.value) == 1  # that of the training is its own
        assert set(now["probabilities"].flatten()) == {np.float32(0.25 / 4), np.float32(0.75 + 0.25 / 4)}


def test_nothing_is_made_before_it_is_used():
    network = MAKERS["softmax"]()
    network.in_float32 = lambda: pytest.fail("a copy was made")
    policy = CurrentPolicy(network, lambda: 0, lambda: pytest.fail("it was described"))
    assert policy.spec is network.spec
