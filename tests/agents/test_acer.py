"""What the discrete ACER agent reads, changes and reports."""

import copy
import dataclasses

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf.agents.acer import Acer
from acer_tf.networks.discrete import Network
from acer_tf.types import EnvironmentSpec, Trajectory
from tests import oracles
from tests.core import first_in_core

FRAMES = EnvironmentSpec((4, 36, 36), "uint8", stack=4, num_actions=3, observation_scale=255.0)


def trajectory_of(seed=0, batch=6, rows=10):
    return oracles.random_trajectory(np.random.default_rng(seed), batch, rows, num_actions=3, observation_size=4)


def tensors(trajectory):
    return optree.tree_map(tf.constant, trajectory)


def gradients_of(agent, trajectory):
    gradients, _, _ = agent.parameter_gradients(tensors(trajectory))
    return {v.path: g.numpy() for v, g in zip(agent.network.trainable_variables, gradients, strict=True)}


def outputs_of(seed, trajectory):
    """Random (probabilities, Q, average probabilities) to replace the networks' outputs, float32."""
    rng = np.random.default_rng(seed)
    batch, rows = trajectory.mask.shape
    probabilities = oracles.softmax(rng.normal(size=[batch, rows + 1, 3]))
    q, average = rng.normal(size=[batch, rows + 1, 3]), oracles.softmax(rng.normal(size=[batch, rows, 3]))
    return [tf.constant(x, tf.float32) for x in (probabilities, q, average)]


def z_of(agent, trajectory, probabilities, q, average):
    """[n, A] z* of the unmasked rows, and the diagnostics."""
    average = average if agent.settings.trust_region else None
    gradients = agent.output_gradients(tensors(trajectory), probabilities, q, average)
    weight = 1 / trajectory.mask.sum()
    return -gradients.policy.numpy()[trajectory.mask] / weight, gradients.diagnostics


def with_settings(agent, **changes):
    """The agent with other hyper-parameters, for uncompiled calls."""
    other = copy.copy(agent)
    other.settings = dataclasses.replace(agent.settings, **changes)
    return other


def weights(model):
    return [w.copy() for w in model.get_weights()]


def assert_equal_weights(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- what is read


@pytest.mark.parametrize("delta", [0.3, np.inf])
@pytest.mark.parametrize("garbage", [-1e6, np.nan])
def test_masked_rows_affect_no_gradient_and_no_diagnostic(make_agent, delta, garbage):
    agent = make_agent(trust_region_delta=delta)
    clean = trajectory_of()
    masked = ~clean.mask
    dirty = optree.tree_map(np.copy, clean)
    dirty.action[masked] = (clean.action[masked] + 1) % 3
    for field in (dirty.reward, dirty.discount, dirty.behaviour):
        field[masked] = garbage
    terminated = np.zeros_like(clean.mask)
    terminated[:, 1:] = (clean.discount[:, :-1] == 0) & clean.mask[:, :-1] & masked[:, 1:]
    assert terminated.any()
    dirty.observation[:, :-1][terminated] = 100.0
    expected, expected_diagnostics, _ = agent.parameter_gradients(tensors(clean))
    gradients, diagnostics, _ = agent.parameter_gradients(tensors(dirty))
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    for name, value in diagnostics.items():
        np.testing.assert_allclose(value, expected_diagnostics[name], rtol=1e-5, err_msg=name)


def test_the_final_observation_of_a_truncated_game_is_read(make_agent):
    agent, clean = make_agent(), trajectory_of()
    truncated = np.zeros_like(clean.mask)
    truncated[:, 1:] = (clean.discount[:, :-1] == 1) & ~clean.mask[:, 1:]
    assert truncated.any()
    other = clean.observation.copy()
    other[:, :-1][truncated] += 1.0
    before, after = gradients_of(agent, clean), gradients_of(agent, clean._replace(observation=other))
    assert np.abs(after["q/kernel"] - before["q/kernel"]).max() > 1e-3


def test_a_window_with_only_masked_rows_changes_nothing(make_agent):
    agent, trajectory = make_agent(), trajectory_of(batch=2, rows=3)
    trajectory.mask[:] = False
    assert not any(g.any() for g in gradients_of(agent, trajectory).values())


def test_a_nan_that_is_read_shows_in_the_diagnostics(make_agent):
    agent, trajectory = make_agent(reward_clip=1.0), trajectory_of()
    trajectory.mask[0, 0] = True
    trajectory.reward[0, 0] = np.nan
    gradients, diagnostics, _ = agent.parameter_gradients(tensors(trajectory))
    assert next(name for name, value in diagnostics.items() if not np.isfinite(value)) == "q_retrace"
    assert np.isnan(tf.linalg.global_norm(gradients))


def test_rewards_are_clipped_for_learning_only_as_told(make_agent):
    agent, trajectory = make_agent(reward_clip=0.5), trajectory_of()
    clipped = trajectory._replace(reward=np.clip(trajectory.reward, -0.5, 0.5))
    raw = gradients_of(with_settings(agent, reward_clip=np.inf), clipped)
    for path, gradient in gradients_of(agent, trajectory).items():
        np.testing.assert_array_equal(gradient, raw[path])
    assert (gradients_of(with_settings(agent, reward_clip=np.inf), trajectory)["q/bias"] != raw["q/bias"]).any()


# ---- what each loss changes


@pytest.mark.parametrize("delta", [0.3, np.inf])
def test_each_loss_changes_only_the_torso_and_its_own_head(make_agent, delta):
    agent, trajectory = make_agent(trust_region_delta=delta), trajectory_of()
    averages = weights(agent.average)
    policy_only = gradients_of(with_settings(agent, critic_weight=0.0), trajectory)
    both = gradients_of(with_settings(agent, critic_weight=2.0), trajectory)
    for path in both:
        critic = both[path] - policy_only[path]
        if path.startswith("policy"):
            np.testing.assert_array_equal(critic, 0.0)
        else:
            assert np.abs(critic).max() > 1e-3, path
        if path.startswith("q/"):
            np.testing.assert_array_equal(policy_only[path], 0.0)
        else:
            assert np.abs(policy_only[path]).max() > 1e-3, path
    assert_equal_weights(weights(agent.average), averages)


# ---- the entropy and the trust region


@pytest.mark.parametrize("delta", [0.3, np.inf])
def test_entropy_outside_the_trust_region_adds_its_own_gradient_whether_or_not_it_binds(make_agent, delta):
    trajectory = trajectory_of()
    outputs = outputs_of(0, trajectory)
    agent = make_agent(entropy_weight=0.0, entropy_in_trust_region=False, trust_region_delta=delta)
    without, diagnostics = z_of(agent, trajectory, *outputs)
    if np.isfinite(delta):
        assert 0.1 < diagnostics["trust_region_active"] < 0.9
    entropy_weight = 0.5
    total, _ = z_of(with_settings(agent, entropy_weight=entropy_weight), trajectory, *outputs)
    for phi, change in zip(outputs[0].numpy()[:, :-1][trajectory.mask], total - without, strict=True):
        logits = np.log(phi.astype(np.float64))
        entropy_gradient = oracles.finite_differences(
            lambda x: -oracles.softmax(x) @ np.log(oracles.softmax(x)), logits
        )
        in_logits = oracles.softmax_jacobian(phi) @ change
        np.testing.assert_allclose(in_logits, entropy_weight * entropy_gradient, rtol=1e-3, atol=1e-5)


def test_entropy_inside_acts_along_the_boundary_where_the_trust_region_binds_and_fully_where_not(make_agent):
    trajectory = trajectory_of()
    outputs = outputs_of(0, trajectory)
    agent = make_agent(entropy_weight=0.0, trust_region_delta=0.3)
    without, _ = z_of(agent, trajectory, *outputs)
    total, _ = z_of(with_settings(agent, entropy_weight=0.1), trajectory, *outputs)
    g, _ = z_of(with_settings(agent, trust_region_delta=np.inf), trajectory, *outputs)
    phi, average = (x.numpy().astype(np.float64)[:, :10][trajectory.mask] for x in outputs[::2])
    k, entropy_gradient = -average / phi, -(np.log(phi) + 1)
    inside, outside = 0, 0
    for i in range(len(g)):
        excess = np.array([k[i] @ g[i], k[i] @ (g[i] + 0.1 * entropy_gradient[i])]) - 0.3
        if (excess > 0).all():
            projector = np.eye(3) - np.outer(k[i], k[i]) / (k[i] @ k[i])
            np.testing.assert_allclose(total[i] - without[i], 0.1 * projector @ entropy_gradient[i], atol=2e-5)
            inside += 1
        elif (excess < 0).all():
            np.testing.assert_allclose(total[i] - without[i], 0.1 * entropy_gradient[i], atol=1e-5)
            outside += 1
    assert inside > 5
    assert outside > 5


@pytest.mark.parametrize("inside", [True, False])
def test_entropy_acts_without_a_trust_region(make_agent, inside):
    trajectory = trajectory_of()
    outputs = outputs_of(0, trajectory)
    agent = make_agent(entropy_weight=0.0, entropy_in_trust_region=inside, trust_region_delta=np.inf)
    without, _ = z_of(agent, trajectory, *outputs)
    total, _ = z_of(with_settings(agent, entropy_weight=0.1), trajectory, *outputs)
    phi = outputs[0].numpy()[:, :-1][trajectory.mask]
    np.testing.assert_allclose(total - without, -0.1 * (np.log(phi) + 1), atol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_duplicating_the_batch_leaves_z_per_state_unchanged(make_agent, reduction):
    trajectory = trajectory_of()
    outputs = outputs_of(0, trajectory)
    agent = make_agent(trust_region_delta=0.3, reduction=reduction)
    once = agent.output_gradients(tensors(trajectory), *outputs)
    twice = agent.output_gradients(
        optree.tree_map(lambda x: tf.concat([x, x], axis=0), trajectory),
        *(tf.concat([x, x], axis=0) for x in outputs),
    )
    assert 0.1 < once.diagnostics["trust_region_active"] < 0.9
    # Twice the states at half the weight: the reduction comes after the projection.
    np.testing.assert_allclose(2 * twice.policy[:6], once.policy, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(twice.policy[6:], twice.policy[:6])
    np.testing.assert_allclose(2 * twice.q[:6], once.q, rtol=1e-5)
    for name, value in once.diagnostics.items():
        np.testing.assert_allclose(twice.diagnostics[name], value, rtol=1e-4, err_msg=name)


# ---- the step


@pytest.mark.parametrize("bound", first_in_core([0.25, 4.0, np.inf]))
def test_a_step_is_rmsprop_on_the_clipped_gradient_and_the_average_follows(make_agent, bound):
    trajectory = trajectory_of()
    gradients = list(gradients_of(make_agent(), trajectory).values())
    norm = np.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in gradients))
    agent = make_agent(average_decay=0.9, max_gradient_norm=bound * norm)
    theta, average = weights(agent.network), weights(agent.average)
    assert agent.update(trajectory).diagnostics["gradient_norm"] == pytest.approx(norm, rel=1e-4)
    moved = weights(agent.network)
    for before, after, g in zip(theta, moved, gradients, strict=True):
        g = min(1.0, bound) * g
        step = 1e-3 * g / np.sqrt(0.9 + 0.1 * g**2 + 1e-2)
        np.testing.assert_allclose(after - before, -step, rtol=1e-2, atol=2e-7)
    for before, after, online in zip(average, weights(agent.average), moved, strict=True):
        np.testing.assert_allclose(after, 0.9 * before + 0.1 * online, rtol=1e-5, atol=1e-7)


def test_the_average_starts_as_a_copy_that_the_optimizer_does_not_change(make_agent):
    made = make_agent()
    agent = Acer(made.network, made.average, made.optimizer, made.settings)
    assert_equal_weights(weights(agent.average), weights(agent.network))
    slots = [v for v in agent.optimizer.variables if v.path.endswith("_velocity")]
    assert len(slots) == len(agent.network.trainable_variables)
    assert not {id(v) for v in agent.average.variables} & {id(v) for v in agent.network.variables}


def test_the_average_stays_the_same_without_a_trust_region(make_agent):
    agent = make_agent(trust_region_delta=np.inf)
    before = weights(agent.average)
    diagnostics = agent.update(trajectory_of()).diagnostics
    assert_equal_weights(weights(agent.average), before)
    assert not {"kl_average", "k_norm", "k_dot_g", "trust_region_active"} & set(diagnostics)


@pytest.mark.xla
@pytest.mark.slow
@pytest.mark.parametrize(("delta", "c"), [(0.3, 10.0), (0.3, 0.0), (np.inf, 10.0), (np.inf, np.inf)])
def test_repeated_updates_stay_finite_lower_the_critic_loss_and_compile_once(make_agent, delta, c):
    agent = make_agent(trust_region_delta=delta, importance_truncation=c)
    trajectory = trajectory_of()
    losses = []
    for _ in range(60):
        diagnostics = agent.update(trajectory).diagnostics
        assert np.isfinite(list(diagnostics.values())).all()
        losses.append(diagnostics["critic_loss"])
    assert losses[-1] < 0.7 * losses[0]
    assert all(np.isfinite(w).all() for model in (agent.network, agent.average) for w in weights(model))
    agent.update(trajectory_of(seed=1))
    assert len(agent._learn.traces) == 1


@pytest.mark.slow
def test_acting_follows_the_seed_and_compiles_once(make_agent):
    agent = make_agent()
    observation = np.random.default_rng(0).normal(size=[64, 4]).astype(np.float32)
    none = np.zeros((64, 0), np.float32)
    action, probabilities, state = agent.act(observation, np.array([1, 2], np.int32), none)
    again, *_ = agent.act(observation, np.array([1, 2], np.int32), none)
    other, *_ = agent.act(observation, np.array([1, 3], np.int32), none)
    assert state.shape == (64, 0)
    np.testing.assert_array_equal(action, again)
    assert (action != other).any()
    assert len(agent._act.traces) == 1
    assert (action.dtype, action.shape, probabilities.dtype) == (np.int32, (64,), np.float32)
    np.testing.assert_allclose(probabilities, agent.network(tf.constant(observation))[0], rtol=1e-5)
    assert probabilities.std() > 0.1
    agent.update(trajectory_of())
    _, moved, _ = agent.act(observation, np.array([1, 2], np.int32), none)
    assert (moved != probabilities).any()  # the live weights


@pytest.mark.parametrize("precision", first_in_core(["float32", "bfloat16"]))
def test_frames_before_the_episode_change_nothing_and_stacks_learn_in_either_precision(make_agent, precision):
    agent = make_agent(lambda: Network(FRAMES, architecture="nature", precision=precision), scale=0.05, gamma=0.0)
    rng = np.random.default_rng(0)
    flat = trajectory_of(batch=2, rows=5)
    age = np.array([[0, 1, 2, 3, 3, 3], [2, 3, 3, 0, 1, 2]], np.uint8)
    frames = rng.integers(256, size=[2, 3 + 6, 36, 36]).astype(np.uint8)
    trajectory = flat._replace(observation=frames, age=age)
    other = frames.copy()
    other[0, :3] = 255 - other[0, :3]  # before the episode's first frame
    other[1, 0] = 255 - other[1, 0]
    before, after = gradients_of(agent, trajectory), gradients_of(agent, trajectory._replace(observation=other))
    for path, gradient in before.items():
        np.testing.assert_allclose(after[path], gradient, rtol=1e-5, atol=1e-7)
        assert gradient.any()
    other[1, 1] = 255 - other[1, 1]
    assert (gradients_of(agent, trajectory._replace(observation=other))["conv1/kernel"] != before["conv1/kernel"]).any()
    losses = [agent.update(trajectory).diagnostics["critic_loss"] for _ in range(20)]
    assert losses[-1] < losses[0]
    assert len(agent._learn.traces) == 1


def test_every_variable_has_its_own_name_and_the_next_agent_of_the_process_the_same_ones(make_agent):
    agent = make_agent()
    variables = agent.variables()
    models = [*agent.network.variables, *agent.average.variables, *agent.optimizer.variables]
    assert {id(v) for v in variables.values()} == {id(v) for v in models}
    assert len(variables) == len(models)
    assert {name.split("/")[0] for name in variables} == {"online", "average", "optimizer"}
    assert make_agent().variables().keys() == variables.keys()


# ---- diagnostics


def test_diagnostics_of_a_case_worked_by_hand(make_agent):
    agent = make_agent(
        gamma=0.5, importance_truncation=1.5, trust_region_delta=1.0, entropy_weight=0.0, critic_weight=3.0
    )
    nan = np.nan
    trajectory = Trajectory(
        observation=tf.zeros([1, 4, 4]),
        age=tf.zeros([1, 4], tf.uint8),
        action=tf.constant([[0, 1, 0]]),
        reward=tf.constant([[1.0, -13.0, nan]]),
        discount=tf.constant([[0.0, 1.0, 1.0]]),  # a life lost, a time limit
        mask=tf.constant([[True, True, False]]),
        behaviour=tf.constant([[[0.25, 0.75], [0.8, 0.2], [0.001, 0.999]]]),
    )
    probabilities = tf.constant([[[0.5, 0.5], [0.8, 0.2], [0.3, 0.7], [nan, nan]]])
    q = tf.constant([[[2.0, 0.0], [1.0, -4.0], [0.0, 10.0], [nan, nan]]])
    average = tf.constant([[[0.5, 0.5], [0.6, 0.4], [0.001, 0.999]]])
    result = agent.output_gradients(trajectory, probabilities, q, average)
    # Row 0: V 1, ρ 2, Q_ret 1, g [¼, 0], k [−1, −1].  Row 1: V 0, ρ 1, Q_ret −13 + ½·7, g [0, −47.5], k [−¾, −2].
    expected = {
        "value": 0.5,
        "importance_weight_mean": 1.5,
        "importance_weight_max": 2.0,
        "importance_weight_truncated": 0.5,
        "q_retrace": -4.25,
        "critic_loss": 0.5 * (0.5 * 1.0**2 + 0.5 * 5.5**2),
        "explained_variance": 1 - 2.25**2 / 5.25**2,
        "entropy": 0.5 * (np.log(2) - 0.8 * np.log(0.8) - 0.2 * np.log(0.2)),
        "g_norm": 0.5 * (0.25 + 47.5),
        "kl_average": 0.5 * (0.6 * np.log(0.6 / 0.8) + 0.4 * np.log(0.4 / 0.2)),
        "k_norm": 0.5 * (np.sqrt(2) + np.sqrt(0.75**2 + 2**2)),
        "k_dot_g": 0.5 * (-0.25 + 95),
        "trust_region_active": 0.5,
    }
    assert set(result.diagnostics) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(result.diagnostics[name], value, rtol=1e-5, err_msg=name)
    for changes, name, share in (
        ({"importance_truncation": 0.9}, "importance_weight_truncated", 1.0),
        ({"importance_truncation": 2.0}, "importance_weight_truncated", 0.0),
        ({"trust_region_delta": 94.9}, "trust_region_active", 0.5),
        ({"trust_region_delta": 95.1}, "trust_region_active", 0.0),
    ):
        other = with_settings(agent, **changes).output_gradients(trajectory, probabilities, q, average)
        assert other.diagnostics[name] == share
    multiplier = (95 - 1) / (0.75**2 + 2**2)
    z = np.array([[0.25, 0.0], [0.75 * multiplier, -47.5 + 2 * multiplier], [0.0, 0.0]])
    np.testing.assert_allclose(result.policy[0], -z / 2, rtol=1e-5)
    np.testing.assert_allclose(result.q, [[3.0 * 1.0 / 2, 3.0 * 5.5 / 2, 0.0]], rtol=1e-5)


def test_explained_variance_is_1_for_a_perfect_critic_and_0_for_targets_that_do_not_vary(make_agent):
    agent, trajectory = make_agent(gamma=0.0), trajectory_of()
    probabilities, q, average = outputs_of(0, trajectory)
    perfect = tf.concat([tf.tile(trajectory.reward[..., None], [1, 1, 3]), q[:, -1:]], axis=1)
    perfect = agent.output_gradients(tensors(trajectory), probabilities, perfect, average)
    assert float(perfect.diagnostics["explained_variance"]) == pytest.approx(1.0, abs=1e-5)
    constant = trajectory._replace(reward=np.ones_like(trajectory.reward))
    constant = agent.output_gradients(tensors(constant), probabilities, q, average)
    assert constant.diagnostics["explained_variance"] == 0.0
