"""`learn`: several updates in one compiled call equal the same updates in separate calls."""

import threading

import keras
import numpy as np
import optree
import pytest

from acer_tf.agents.acer_continuous import AcerContinuous
from acer_tf.agents.actor_critic import ActorCritic
from acer_tf.networks.discrete import Network
from acer_tf.types import Batch, EnvironmentSpec
from tests import oracles

pytestmark = pytest.mark.slow
BATCH, ROWS = 2, 6
FRAMES = EnvironmentSpec((4, 36, 36), "uint8", stack=4, num_actions=3, observation_scale=255.0)
IMAGES = EnvironmentSpec((5, 5, 2), "bool", stack=1, num_actions=3)


def observed(make_observation):
    def trajectories(seed):
        rng = np.random.default_rng(seed)
        flat = oracles.random_trajectory(rng, BATCH, ROWS, num_actions=3, observation_size=4)
        return flat._replace(observation=make_observation(rng))

    return trajectories


def flat_of(seed):
    return oracles.random_trajectory(np.random.default_rng(seed), BATCH, ROWS, num_actions=3, observation_size=4)


def continuous_of(seed):
    return oracles.random_continuous_trajectory(np.random.default_rng(seed), BATCH, ROWS, 2, 4)


images_of = observed(lambda rng: rng.random((BATCH, ROWS + 1, 5, 5, 2)) < 0.3)
frames_of = observed(lambda rng: rng.integers(256, size=(BATCH, 3 + ROWS + 1, 36, 36)).astype(np.uint8))


@pytest.fixture(params=["mlp", "small", "nature", "acer_continuous", "trust_tis"])
def pair(request, make_agent, make_continuous):
    """Two equal agents, and a function that makes batches for them."""
    discrete = {
        "mlp": (lambda: make_agent(), flat_of),
        "small": (lambda: make_agent(lambda: Network(IMAGES, architecture="small"), scale=0.1), images_of),
        "nature": (lambda: make_agent(lambda: Network(FRAMES, architecture="nature"), scale=0.05), frames_of),
    }
    if request.param in discrete:
        make, batch_of = discrete[request.param]
        return make(), make(), batch_of
    kind, critic, given = {
        "acer_continuous": (AcerContinuous, "dueling", {}),
        "trust_tis": (ActorCritic, "none", {"trajectory_weights": True}),
    }[request.param]
    return *(make_continuous(kind, critic=critic, **given) for _ in range(2)), continuous_of


def stacked(batches):
    return optree.tree_map(lambda *arrays: np.stack(arrays), *batches)


def test_updates_in_one_call_equal_updates_in_separate_calls_and_are_weighted(pair):
    together, alone, batch_of = pair
    names = together.prepare(Batch(stacked([batch_of(0)] * 5), np.ones((5, BATCH), np.float32)))
    done = 0
    for count in (3, 5, 1):  # at most five
        batches = [batch_of(seed) for seed in range(done, done + count)]
        weight = np.random.default_rng(count).uniform(0.5, 2, (count, BATCH)).astype(np.float32)
        found = together.learn(Batch(stacked(batches), weight), 5)
        for update, batch, w in zip(found, batches, weight, strict=True):
            expected = alone.update(batch, w)
            assert list(update.diagnostics) == list(expected.diagnostics) == names
            for name, value in expected.diagnostics.items():
                assert update.diagnostics[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
            np.testing.assert_allclose(update.errors, expected.errors, rtol=1e-3, atol=1e-5)
        done += count
        for name, variable in together.variables().items():
            np.testing.assert_allclose(variable.numpy(), alone.variables()[name].numpy(), rtol=1e-3, atol=1e-5)
    assert len(together._learn.traces) == 1, "one trace for any number of updates"
    assert int(together.optimizer.iterations.numpy()) == done
    moved = max(
        np.abs(a - b).max()
        for a, b in zip(*(n.get_weights() for n in (together.network, pair[1].average)), strict=True)
    )
    assert moved > 1e-2, "the updates changed the weights"

    # The gradient is weighted. Here, since another pair would be traced anew.
    batch, weight = batch_of(0), np.array([0.0, 1.5], np.float32)
    changed = batch._replace(reward=batch.reward + np.array([[1.0], [0.0]], np.float32))  # where the weight is 0
    before, norms = {name: array.copy() for name, array in alone.arrays().items()}, []
    for given, factors in ((batch, weight), (changed, 2 * weight)):
        alone.restore(before)
        norms.append(alone.update(given, factors).diagnostics["gradient_norm"])
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-3)
    assert norms[0] > 0


def test_padding_after_the_last_update_of_a_call_is_not_read(make_agent):
    agents = [make_agent() for _ in range(2)]
    for agent, padding in zip(agents, (0.0, np.nan), strict=True):
        unread = optree.tree_map(lambda a, p=padding: np.full_like(a, p if a.dtype.kind == "f" else 0), flat_of(1))
        agent._learn(stacked([flat_of(1), flat_of(1), unread]), np.ones((3, BATCH), np.float32), np.int32(2))
    for name, variable in agents[0].variables().items():
        assert np.array_equal(variable.numpy(), agents[1].variables()[name].numpy()), name
    assert int(agents[0].optimizer.iterations.numpy()) == 2


def test_an_agent_takes_any_keras_optimizer_and_restores_it(make_agent):
    agent, other = (make_agent(optimizer=keras.optimizers.Adam(1e-3)) for _ in range(2))  # numbered by Keras
    before = agent.network.get_weights()
    agent.update(flat_of(0))
    moved = [np.abs(a - b).max() for a, b in zip(agent.network.get_weights(), before, strict=True)]
    np.testing.assert_allclose(moved, 1e-3, rtol=1e-3)  # Adam's first step
    other.restore(agent.arrays())
    for a in (agent, other):
        a.update(flat_of(1))
    assert all(map(np.array_equal, agent.network.get_weights(), other.network.get_weights()))


@pytest.mark.xla
def test_a_small_image_torso_learns_the_same_from_many_rows_which_xla_does_not_compile(make_agent):
    batch = images_of(0)
    windows = {True: 8, False: 16}  # of 20 rows, in the run's updates
    agents = {
        xla: make_agent(lambda: Network(IMAGES, architecture="small"), scale=0.1, trajectories_per_update=count)
        for xla, count in windows.items()
    }
    norms = [agent.update(batch).diagnostics["gradient_norm"] for agent in agents.values()]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)
    for xla, agent in agents.items():
        (trace,) = agent._learn.traces.values()
        assert trace.function_def.attr["_XlaMustCompile"].b == xla
    for name, variable in agents[True].variables().items():
        np.testing.assert_allclose(variable.numpy(), agents[False].variables()[name].numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.xla
def test_prepare_compiles_beside_its_caller_and_close_waits_for_it(make_agent):
    agent, batch = make_agent(), Batch(*stacked([(flat_of(0), np.ones(BATCH, np.float32))]))
    weights = agent.network.get_weights()
    agent.prepare(batch)
    assert [thread.name for thread in threading.enumerate()].count("compile") == 1
    agent.close()
    assert "compile" not in [thread.name for thread in threading.enumerate()]
    for before, now in zip(weights, agent.network.get_weights(), strict=True):
        np.testing.assert_array_equal(before, now)


def test_acting_weights_do_not_change_with_updates(make_agent):
    """Actors act by them while updates, which write in place, run."""
    agent, actor = make_agent(), make_agent()
    weights = agent.acting_weights()
    kept = [weight.numpy().copy() for weight in weights]
    agent.update(flat_of(0))
    assert any((now.numpy() != before).any() for now, before in zip(agent.network.weights, kept, strict=True))
    actor.act_as(weights, 0)
    for weight, before, taken in zip(weights, kept, actor.network.weights, strict=True):
        np.testing.assert_array_equal(weight, before)
        np.testing.assert_array_equal(taken.value, before)
