"""Optimizers by name, their schedules, and rewards that are scaled or normalized in learning."""

import dataclasses
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.agents.acer import Acer
from acer_tf.agents.acer_continuous import AcerContinuous
from acer_tf.agents.actor_critic import ActorCritic
from acer_tf.agents.dqn import Dqn
from acer_tf.agents.optimizer import RMSProp, make_optimizer
from acer_tf.agents.rewards import RewardNormalization
from acer_tf.networks.discrete import Network
from acer_tf.types import Unroll
from tests.agents import test_acer_continuous, test_dqn
from tests.agents.conftest import SPEC, settings_of
from tests.agents.test_acer import tensors, trajectory_of

HALF = 5_000_000  # of the default 10 M steps


def agent_of(**given):
    settings = settings_of(Acer, **given)
    made = [Network(SPEC, architecture="mlp") for _ in range(2)]
    return Acer(*made, Acer.make_optimizer(settings), settings)


def plain_sgd(rate):
    return keras.optimizers.SGD(rate)


def no_optimizer(rate):
    return rate


def failing(rate):
    raise RuntimeError("its own error")


def scheduled(rate):
    return keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(rate, 10))


def test_optimizers_are_those_that_are_named():
    assert type(make_optimizer(settings_of(Acer))) is RMSProp
    assert type(make_optimizer(settings_of(Acer, optimizer="adam", learning_rate=2e-4))) is keras.optimizers.Adam
    own = make_optimizer(settings_of(Acer, optimizer="tests.agents.test_schedules:plain_sgd", learning_rate=0.5))
    assert type(own) is keras.optimizers.SGD and float(own.learning_rate) == 0.5


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_optimizer", "must give a keras.optimizers.Optimizer"),
        ("failing", "RuntimeError: its own error"),
        ("missing", "cannot be imported"),
    ],
)
def test_what_is_no_optimizer_is_refused(name, reason):
    with pytest.raises(ValueError, match=reason):
        make_optimizer(settings_of(Acer, optimizer=f"tests.agents.test_schedules:{name}"))


def test_two_schedules_of_one_rate_are_refused():
    given = {"optimizer": "tests.agents.test_schedules:scheduled"}
    make_optimizer(settings_of(Acer, **given))
    with pytest.raises(ValueError, match="--learning_rate_final"):
        make_optimizer(settings_of(Acer, **given, learning_rate_final=0.0))


@pytest.mark.parametrize("joined", ["mean", "threads"])
def test_the_learning_rate_falls_linearly(joined):
    agent = agent_of(learning_rate=0.4, learning_rate_final=0.0, reduction=joined, trajectories_per_update=4)
    whole = agent.settings.update_learning_rate
    assert whole == (1.6 if joined == "threads" else 0.4)
    for steps, share in ((0, 1.0), (HALF, 0.5), (10_000_000, 0.0), (20_000_000, 0.0)):
        agent.schedule(steps)
        assert float(agent.optimizer.learning_rate) == pytest.approx(share * whole, abs=1e-7)


@pytest.mark.slow
@pytest.mark.xla
def test_a_compiled_update_reads_the_rate_of_the_moment():
    agent, trajectory = agent_of(learning_rate_final=0.0), trajectory_of()
    for steps, moves in ((10_000_000, False), (0, True)):
        agent.schedule(steps)
        before = agent.network.get_weights()
        agent.update(trajectory)
        assert any((old != new).any() for old, new in zip(before, agent.network.get_weights(), strict=True)) == moves


def test_the_entropy_weight_changes_linearly_in_one_trace():
    trajectory = tensors(trajectory_of())
    changing = agent_of(entropy_weight=0.0, entropy_weight_final=0.6, trust_region_delta=np.inf)
    for steps, weight in ((0, 0.0), (HALF, 0.3)):
        same = agent_of(entropy_weight=weight, trust_region_delta=np.inf)
        for agent in (same, changing):
            for variable in agent.network.trainable_variables:
                variable.assign(0.3 * np.random.default_rng(1).normal(size=variable.shape))
        changing.schedule(steps)
        (ours, *_), (theirs, *_) = (agent.parameter_gradients(trajectory) for agent in (changing, same))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_rewards_are_scaled_before_they_are_clipped():
    agent = agent_of(reward_scale=0.1, reward_clip=1.0)
    np.testing.assert_allclose(agent.learning_reward(tf.constant([-100.0, 2.0, 20.0])), [-1.0, 0.2, 1.0], rtol=1e-6)


@pytest.mark.parametrize("kind", [Acer, AcerContinuous, ActorCritic, Dqn])
def test_every_rule_learns_from_the_scaled_rewards(kind, make_agent, make_continuous):
    def gradients_of(scale, factor):
        if kind is Acer:
            agent, trajectory = make_agent(reward_scale=scale), trajectory_of()
        elif kind is Dqn:
            agent, trajectory = test_dqn.agent_of(reward_scale=scale), test_dqn.transitions()
        else:
            critic = "none" if kind is ActorCritic else "dueling"
            agent = make_continuous(kind, critic=critic, reward_scale=scale)
            trajectory = test_acer_continuous.trajectory_of()
        return agent.parameter_gradients(tensors(trajectory._replace(reward=factor * trajectory.reward)))[0]

    for ours, theirs in zip(gradients_of(0.5, 1), gradients_of(1.0, 0.5), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def unroll_of(reward, mask, last):
    blank = dict.fromkeys(Unroll._fields)
    known = {"reward": np.float32(reward), "mask": np.array(mask), "last": np.array(last)}
    return Unroll(**blank | known | {"discount": np.ones_like(known["reward"])})


def test_rewards_are_divided_by_the_spread_of_returns():
    rng = np.random.default_rng(0)
    rewards, lasts = rng.normal(3.0, 5.0, size=(2, 60)), rng.random((2, 60)) < 0.1
    masks = np.ones_like(lasts)
    masks[:, 1:] = ~lasts[:, :-1]
    lasts &= masks
    rewards[~masks] = 0.0
    returns = []
    for reward, mask, last in zip(rewards, masks, lasts, strict=True):  # from the sums, episode by episode
        episode = []
        for r, m, end in zip(reward, mask, last, strict=True):
            if m:
                episode.append(r)
                returns.append(sum(0.9**i * x for i, x in enumerate(reversed(episode))))
            if end or not m:
                episode = []
    normalization = RewardNormalization(0.9)
    assert float(normalization.standard_deviation()) == pytest.approx(1.0)
    for first in range(0, 60, 20):
        normalization.update(unroll_of(*(a[:, first : first + 20] for a in (rewards, masks, lasts))))
    count, mean, variance = normalization.statistics.numpy()
    assert count == masks.sum() == len(returns)
    assert mean == pytest.approx(np.mean(returns), rel=1e-5)
    assert variance == pytest.approx(np.var(returns), rel=1e-5)

    agent = agent_of(normalize_rewards=True, gamma=0.9, reward_scale=2.0)
    agent.observe_rewards(unroll_of(rewards, masks, lasts))
    expected = 2.0 / np.std(returns)
    np.testing.assert_allclose(agent.learning_reward(tf.constant([1.0, -3.0])), [expected, -3 * expected], rtol=1e-5)


def test_a_row_that_was_given_up_begins_a_new_return_and_masked_rows_are_not_counted():
    """A given-up episode ends in a masked row of discount 0."""
    normalization, no = RewardNormalization(0.9), [[False] * 3]
    rows = unroll_of([[1.0, 0.0, 2.0]], [[True, False, True]], no)
    normalization.update(rows._replace(discount=np.float32([[1, 0, 1]])))
    np.testing.assert_allclose(normalization.statistics, [2, 1.5, 0.25], rtol=1e-6)  # of the returns 1 and 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        normalization.update(unroll_of([[0.0] * 3], no, no))
    np.testing.assert_allclose(normalization.statistics, [2, 1.5, 0.25], rtol=1e-6)
    normalization.update(unroll_of([[1.0]], [[True]], [[False]]))
    np.testing.assert_allclose(normalization.statistics[:2], [3, (1 + 2 + 2.8) / 3], rtol=1e-6)


def test_equal_returns_have_no_spread_to_divide_by_and_one_reward_does_not_end_learning():
    normalization, one = RewardNormalization(0.9), [[True, True]]
    for _ in range(3):
        normalization.update(unroll_of([[5.0, 5.0]], one, one))
        assert float(normalization.standard_deviation()) == 1.0
    normalization.update(unroll_of([[5.0, 6.0]], one, one))
    spread = float(normalization.standard_deviation())
    assert spread == pytest.approx(np.std([5.0] * 7 + [6.0]), rel=1e-5)
    normalization.update(unroll_of([[1e30, 0.0]], one, one))
    assert float(normalization.standard_deviation()) == spread
    small = RewardNormalization(0.9)
    small.update(unroll_of([[1e-3, 2e-3]], one, one))
    assert float(small.standard_deviation()) == pytest.approx(np.sqrt(0.5e-3**2 + 1e-8), rel=1e-4)


def test_the_statistics_of_rewards_are_in_the_checkpoint():
    agent, other = agent_of(normalize_rewards=True), agent_of(normalize_rewards=True)
    agent.observe_rewards(unroll_of([[1.0, 5.0]], [[True, True]], [[False, False]]))
    other.restore({name: np.array(array) for name, array in agent.arrays().items()})
    np.testing.assert_array_equal(other.learning_reward(tf.ones(1)), agent.learning_reward(tf.ones(1)))
    assert float(agent.learning_reward(tf.ones(1))[0]) != 1.0


def test_weights_that_a_loss_does_not_touch_stay():
    class Half(Acer):
        def parameter_gradients(self, trajectory, weight=None):
            gradients, *rest = super().parameter_gradients(trajectory, weight)
            return [None, *gradients[1:]], *rest

    base = agent_of()
    agent = Half(base.network, base.average, RMSProp(0.1), dataclasses.replace(base.settings, entropy_weight=0.0))
    before = agent.network.trainable_variables[0].numpy()
    agent.update(trajectory_of())
    np.testing.assert_array_equal(agent.network.trainable_variables[0], before)
    assert (agent.network.trainable_variables[1].numpy() != 0).any()
