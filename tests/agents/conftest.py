"""Agents for tests, of random weights: no policy is near uniform, and the average is far from the online network."""

import numpy as np
import pytest

from acer_tf.agents.acer import Acer, AcerHyperparameters
from acer_tf.agents.optimizer import rmsprop
from acer_tf.networks import Network
from acer_tf.types import EnvironmentSpec

SPEC = EnvironmentSpec((4,), "float32", stack=1, num_actions=3)


@pytest.fixture
def make_agent():
    def make(make_network=lambda: Network(SPEC, architecture="mlp"), *, seed=0, scale=0.4, **hyperparameters):
        rng = np.random.default_rng(seed)
        network, average = make_network(), make_network()
        optimizer = rmsprop(network.model, learning_rate=1e-3, decay=0.9, epsilon=1e-2, initial_accumulator=1.0)
        agent = Acer(network, average, optimizer, AcerHyperparameters(**hyperparameters))
        for model in (network.model, average.model):
            for variable in model.trainable_variables:
                variable.assign(scale * rng.normal(size=variable.shape))
        return agent

    return make
