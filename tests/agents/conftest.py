"""Agents with random weights: policies far from uniform, and average networks far from the online ones."""

import math

import numpy as np
import pytest

from acer_tf.agents.acer import Acer
from acer_tf.agents.optimizer import RMSProp
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.settings import make_settings
from acer_tf.types import EnvironmentSpec


def settings_of(kind, *, trajectory_weights=False, **given):
    """Settings for an agent of class `kind`, with its usual preset."""
    if kind.__name__ in ("Acer", "Dqn"):
        agent, preset = {"Acer": ("acer", "baselines"), "Dqn": ("dqn", "ddqn_tuned")}[kind.__name__]
        return make_settings({"env": "CartPole-v1", "agent": agent, "preset": preset, **given})
    bounded = math.isfinite(given.setdefault("trust_region_delta", 1.0))
    name = "acer_continuous"
    if kind.__name__ == "ActorCritic":
        name = ("trust_" if bounded else "") + ("tis" if trajectory_weights else "a3c")
    return make_settings(
        {"env": "Pendulum-v1", "agent": name, "preset": "paper_continuous", "max_gradient_norm": 10.0, **given}
    )


SPEC = EnvironmentSpec((4,), "float32", stack=1, num_actions=3)


@pytest.fixture
def make_agent():
    def make(make_network=lambda: Network(SPEC, architecture="mlp"), *, seed=0, scale=0.4, optimizer=None, **given):
        rng = np.random.default_rng(seed)
        network, average = make_network(), make_network()
        optimizer = optimizer or RMSProp(1e-3, rho=0.9, epsilon=1e-2, initial_accumulator=1.0)
        agent = Acer(network, average, optimizer, settings_of(Acer, **given))
        for model in (network, average):
            for variable in model.trainable_variables:
                variable.assign(scale * rng.normal(size=variable.shape))
        return agent

    return make


CONTINUOUS = EnvironmentSpec((4,), "float32", 1, 0, action_low=(-1.0, -2.0), action_high=(1.0, 2.0))


@pytest.fixture
def make_continuous():
    """Makes an agent of `kind` on a network with the given critic."""

    def make(kind, *, critic, shared_torso=True, lstm_units=0, seed=0, scale=0.3, spec=CONTINUOUS, **given):
        rng = np.random.default_rng(seed)
        options = {"critic": critic, "shared_torso": shared_torso, "lstm_units": lstm_units}
        network = ContinuousNetwork(spec, **options)
        average = ContinuousNetwork(spec, **options, normalization=network.normalization)
        optimizer = RMSProp(1e-3, rho=0.9, epsilon=1e-2, initial_accumulator=1.0)
        agent = kind(network, average, optimizer, settings_of(kind, **given))
        for model in (network, average):
            for variable in model.trainable_variables:
                # So that the units of wide layers do not all saturate.
                variable.assign(scale * rng.normal(size=variable.shape) / max(1.0, variable.shape[0] / 16) ** 0.5)
        return agent

    return make
