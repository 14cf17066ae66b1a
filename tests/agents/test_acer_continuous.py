"""What the continuous agents read, change and report."""

import dataclasses

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf.agents.acer_continuous import AcerContinuous
from acer_tf.agents.actor_critic import ActorCritic
from tests import oracles

KINDS = {
    "acer": (AcerContinuous, "dueling"),
    "tis": (ActorCritic, "none"),
}


@pytest.fixture(params=KINDS)
def agent(request, make_continuous):
    kind, critic = KINDS[request.param]
    return make_continuous(kind, critic=critic)


def trajectory_of(seed=1, batch=6, rows=8):
    return oracles.random_continuous_trajectory(np.random.default_rng(seed), batch, rows, 2, 4)


def test_actions_are_drawn_around_the_mean_by_the_seed(agent):
    observation = np.random.default_rng(0).normal(size=[3000, 4]).astype(np.float32)
    none = np.zeros((len(observation), 0), np.float32)
    action, mean, _ = agent.act(observation, np.array([1, 2], np.int32), none)
    assert action.shape == mean.shape == (3000, 2)
    assert action.dtype == mean.dtype == np.float32
    np.testing.assert_allclose((action - mean).std(axis=0), 0.3, rtol=0.05)
    np.testing.assert_allclose((action - mean).mean(axis=0), 0.0, atol=0.02)
    assert np.array_equal(agent.act(observation, np.array([1, 2], np.int32), none)[0], action)
    assert not np.array_equal(agent.act(observation, np.array([1, 3], np.int32), none)[0], action)


@pytest.mark.slow
def test_an_update_changes_every_weight_and_reports_finite_numbers(agent):
    before = {name: v.numpy().copy() for name, v in agent.variables().items()}
    diagnostics = agent.update(trajectory_of()).diagnostics
    assert all(np.isfinite(list(diagnostics.values())))
    after = {name: v.numpy().copy() for name, v in agent.variables().items()}
    still = {name for name in before if np.array_equal(before[name], after[name])}
    assert {name.split("/")[-2] for name in still if "normalization" not in name and "optimizer" not in name} <= {
        "critic"
    }
    assert any("normalization" in name for name in still), "an update does not change the normalisation"
    agent.update(trajectory_of(2))
    assert len(agent._learn.traces) == 1


def test_masked_rows_are_not_read(agent):
    trajectory = trajectory_of()
    poisoned = optree.tree_map(np.copy, trajectory)
    masked = ~trajectory.mask
    assert masked.any()
    for name in ("action", "reward", "discount", "behaviour"):
        getattr(poisoned, name)[masked] = 7.0 if name != "discount" else 0.0
    gradients = [
        [g.numpy() for g in agent.parameter_gradients(optree.tree_map(tf.constant, t))[0]]
        for t in (trajectory, poisoned)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_same_update_again_draws_other_actions(make_continuous):
    agent = make_continuous(AcerContinuous, critic="dueling", importance_truncation=0.1)
    trajectory = optree.tree_map(tf.constant, trajectory_of())
    first, again = (agent.parameter_gradients(trajectory)[0][-1].numpy() for _ in range(2))
    assert np.array_equal(first, again), "the draw depends on the number of updates"
    agent.optimizer.iterations.assign_add(1)
    assert not np.array_equal(agent.parameter_gradients(trajectory)[0][-1].numpy(), first)
    agent.optimizer.iterations.assign_sub(1)
    agent.settings = dataclasses.replace(agent.settings, seed=2**31 - 1)
    assert not np.array_equal(agent.parameter_gradients(trajectory)[0][-1].numpy(), first), (
        "the draw depends on the seed"
    )


def test_the_normalization_counts_every_observation_once(agent):
    trajectories = [trajectory_of(seed, batch=3, rows=7) for seed in range(4)]
    layer = agent.network.normalization
    assert agent.average.normalization is layer
    x = tf.constant(trajectories[0].observation[:, 0])
    np.testing.assert_allclose(layer(x), x, rtol=1e-6)
    for trajectory in trajectories:
        agent.update_normalization(trajectory.observation[:, :-1])
    seen = np.concatenate([t.observation[:, :-1].reshape(-1, 4) for t in trajectories]).astype(np.float64)
    assert float(layer.count) == len(seen)
    np.testing.assert_allclose(layer.mean, seen.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(layer.variance, seen.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(layer(x), (x - seen.mean(axis=0)) / seen.std(axis=0), rtol=1e-3, atol=1e-4)


def test_dueling_averages_out_over_the_policy(make_continuous):
    """E_{u ~ f} Q̃(x, u) = V(x) (§5): the mean of Q̃(x, u) over independent u and u_i."""
    from acer_tf import equations
    from acer_tf.distributions import Gaussian

    agent = make_continuous(AcerContinuous, critic="dueling", scale=1.0)
    observation = tf.constant(np.random.default_rng(5).normal(size=[1, 3, 4]), tf.float32)
    mean, value, state = agent.network.windows(observation)
    count, n = 4000, 5
    u = Gaussian(mean, 0.3).sample(tf.constant([1, 2]), count * (n + 1))
    of_actions = agent.network.of_actions(state, tf.transpose(u, [1, 2, 0, 3]))
    of_actions = tf.reshape(of_actions, [1, 3, count, n + 1])
    q = equations.dueling_q(
        tf.repeat(value[..., None], count, axis=-1), of_actions[..., 0], of_actions[..., 1:]
    ).numpy()
    error = q.std(axis=-1) / np.sqrt(count)
    assert (q.std(axis=-1) > 0.01).all(), "A depends on the action"
    assert (np.abs(q.mean(axis=-1) - value) < 4 * error).all()


@pytest.mark.parametrize(("kind", "critic", "part"), [(AcerContinuous, "dueling", "q"), (ActorCritic, "none", "value")])
def test_errors_are_the_critics_mean_absolute_ones_of_each_trajectory(make_continuous, kind, critic, part):
    agent = make_continuous(kind, critic=critic, critic_weight=1.0, reduction="mean", importance_truncation=1.5)
    trajectory, made = trajectory_of(), []
    assert len(set(trajectory.mask.sum(axis=1))) > 1
    output_gradients = agent.output_gradients
    agent.output_gradients = lambda *given: made.append(output_gradients(*given)) or made[0]
    *_, errors = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    rows = np.abs(getattr(made[0], part)) * trajectory.mask.sum()  # the critic's gradient is −error / unmasked rows
    np.testing.assert_allclose(errors, rows.sum(axis=1) / trajectory.mask.sum(axis=1), rtol=1e-5)


def reported(agent, trajectory):
    values = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))[1]
    return {name: float(value) for name, value in values.items()}


def ratios(agent, trajectory):
    """ρ [B, T] and V [B, T+1] in float64."""
    mean, value, _ = (x.numpy().astype(np.float64) for x in agent.network.windows(tf.constant(trajectory.observation)))
    logs = (oracles.gaussian_log_density(trajectory.action, x, 0.3) for x in (mean[:, :-1], trajectory.behaviour))
    return np.exp(next(logs) - next(logs)), value


def test_the_diagnostics_of_continuous_acer(make_continuous):
    agent = make_continuous(AcerContinuous, critic="dueling", retrace=True, importance_truncation=1.5, gamma=0.0)
    trajectory = trajectory_of()
    m, (rho, value) = trajectory.mask, ratios(agent, trajectory)
    found = reported(agent, trajectory)
    wanted = {
        "importance_weight_mean": rho[m].mean(),
        "importance_weight_max": rho[m].max(),
        "importance_weight_truncated": (rho[m] > 1.5).mean(),
        "value": value[:, :-1][m].mean(),
        "q_opc": trajectory.reward[m].mean(),  # γ = 0
        "q_retrace": trajectory.reward[m].mean(),
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    agent.settings = dataclasses.replace(agent.settings, gamma=0.95)
    found = reported(agent, trajectory)
    assert abs(found["q_opc"] - found["q_retrace"]) > 1e-3


def test_the_diagnostics_of_tis(make_continuous):
    agent = make_continuous(ActorCritic, critic="none", trajectory_weights=True, importance_truncation=2.0, gamma=0.0)
    trajectory = trajectory_of(seed=3)
    m, (rho, value) = trajectory.mask, ratios(agent, trajectory)
    weight = oracles.trajectory_weight(rho, trajectory.discount, m, 2.0)[m]
    wanted = {
        "trajectory_weight_mean": weight.mean(),
        "trajectory_weight_truncated": (weight == 2.0).mean(),
        "value": value[:, :-1][m].mean(),
        "return": trajectory.reward[m].mean(),
    }
    found = reported(agent, trajectory)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_a3c_clips_rewards(make_continuous):
    agent, trajectory = make_continuous(ActorCritic, critic="none", reward_clip=0.5), trajectory_of(seed=3)
    assert (np.abs(trajectory.reward[trajectory.mask]) > 0.5).any()
    clipped = trajectory._replace(reward=np.clip(trajectory.reward, -0.5, 0.5))
    found = (agent.parameter_gradients(optree.tree_map(tf.constant, t))[0] for t in (trajectory, clipped))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
