"""Reduction "threads": an update of B trajectories equals B updates of one, to first order in the step size."""

import functools

import numpy as np
import optree
import pytest

from acer_tf.errors import SettingsError
from acer_tf.settings import make_settings
from acer_tf.training.build import make_agent
from acer_tf.training.resolve import resolve
from acer_tf.types import Batch, EnvironmentSpec
from tests import oracles

SPEC = EnvironmentSpec((4,), "float32", stack=1, num_actions=3)
WINDOWS = 16
STEPS = (1.0, 0.3, 0.1)


def agent_of(group, reduction="threads"):
    """With preset paper, changed so that the updates of a group affect each other only to second order.

    Gradients hardly move the accumulator (large ε), and no state is at the trust region's bound, which moves with θ_a.
    """
    given = {
        "env": "CartPole-v1",
        "preset": "paper",
        "trajectories_per_update": group,
        "reduction": reduction,
        "learning_rate": 1.0,
        "rmsprop_epsilon": 1e8,
        "max_gradient_norm": np.inf,
        "average_decay": 0.9,
        "trust_region_delta": 1e6,
    }
    return make_agent(resolve(make_settings(given), SPEC), SPEC)


@functools.cache
def windows():
    return oracles.random_trajectory(np.random.default_rng(0), WINDOWS, 20, num_actions=3, observation_size=4)


def flat(model):
    return np.concatenate([w.ravel() for w in model.get_weights()]).astype(np.float64)


@functools.cache
def changes(group, reduction="threads"):
    """The changes of θ and θ_a in an iteration of all windows, for each of `STEPS`."""
    agent = agent_of(group, reduction)
    trajectories = optree.tree_map(lambda x: x.reshape(-1, group, *x.shape[1:]), windows())
    batch = Batch(trajectories, np.ones((WINDOWS // group, group), np.float32))
    for variable in agent.average.trainable_variables:
        variable.assign(np.random.default_rng(1).normal(size=variable.shape))
    at_first = {name: variable.numpy() for name, variable in agent.variables().items()}
    learning_rate = float(agent.optimizer.learning_rate.numpy())
    models, found = (agent.network, agent.average), []
    for step in STEPS:
        for name, variable in agent.variables().items():
            variable.assign(at_first[name])
        agent.optimizer.learning_rate.assign(step * learning_rate)
        before = [flat(model) for model in models]
        agent.learn(batch, at_most=WINDOWS // group)
        found.append([flat(model) - old for model, old in zip(models, before, strict=True)])
    return found


def relative(change, expected):
    return np.linalg.norm(change - expected) / np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.parametrize("group", [4, 16])
def test_an_iteration_moves_both_networks_as_far_as_the_threads_updates_one_after_another(group):
    differences = []
    for (theta, average), (joined_theta, joined_average) in zip(changes(1), changes(group), strict=True):
        differences.append(relative(joined_theta, theta))
        assert relative(joined_average, average) < 0.02
    # Proportional to the step size, down to 0.
    assert differences[0] > 1.8 * differences[1] > 1.8**2 * differences[2]
    assert differences[2] < 0.02


@pytest.mark.slow
def test_the_mean_over_trajectories_alone_moves_a_fraction_as_far():
    theta, joined = changes(1)[-1][0], changes(4, "sum")[-1][0]
    assert relative(joined, theta / 4) < 0.02


def test_the_accumulator_forgets_as_much_as_by_the_threads_updates():
    joined, single = agent_of(4).optimizer, agent_of(1).optimizer
    assert (single.rho, float(single.learning_rate.numpy())) == (0.99, 1.0)
    assert (joined.rho, float(joined.learning_rate.numpy())) == (pytest.approx(0.99**4), 4.0)


def test_a_batch_by_priority_of_another_size_is_refused():
    given = {"env": "CartPole-v1", "preset": "paper", "replay_priority": "proportional"}
    assert make_settings({**given, "replay_batch": 4}).threads_per_update == 4
    with pytest.raises(SettingsError, match="--replay_batch=32: .*--reduction=threads"):
        make_settings({**given, "replay_batch": 32})
