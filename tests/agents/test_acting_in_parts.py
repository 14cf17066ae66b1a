"""Acting for a part of the environments: the same actions, statistics and states as for all of them together."""

import numpy as np
import pytest

from acer_tf.agents.acer import Acer
from acer_tf.agents.acer_continuous import AcerContinuous
from tests.agents.test_action_masks import LARGE, SMALL, agent_of
from tests.core import first_in_core

pytestmark = pytest.mark.xla  # whose rounding depends on the number of rows

COUNT = 12


@pytest.fixture(params=first_in_core(["categorical", "masked", "recurrent", "Gaussian"]))
def agent(request, make_continuous):
    if request.param == "Gaussian":
        return make_continuous(AcerContinuous, critic="dueling", num_envs=COUNT)
    spec = LARGE if request.param == "masked" else SMALL
    return agent_of(Acer, spec, 256 if request.param == "recurrent" else 0, num_envs=COUNT)


def test_every_division_of_the_environments_acts_as_one(agent):
    rng = np.random.default_rng(0)
    spec = agent.network.spec
    observation = rng.normal(size=(COUNT, *spec.observation_shape)).astype(np.float32)
    state = rng.normal(size=(COUNT, agent.network.state_size)).astype(np.float32)
    legal = None
    if spec.action_masks:
        legal = rng.random((COUNT, spec.num_actions)) < 0.5
        legal[:, 0] = True
    seed = np.array([3, 8], np.int32)
    together = agent.act(observation, seed, state, legal)
    for size in (1, 2, 3, 4, 6):
        parts = []
        for first in range(0, COUNT, size):
            rows = slice(first, first + size)
            inputs = observation[rows], seed, state[rows], None if legal is None else legal[rows]
            parts.append(agent.act(*inputs, first=np.int32(first)))
        for whole, pieces in zip(together, zip(*parts, strict=True), strict=True):
            np.testing.assert_array_equal(np.concatenate(pieces), whole)
