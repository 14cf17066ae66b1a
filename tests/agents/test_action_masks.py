"""Updates with action masks: with constant ones they are those of fewer actions, with random ones those of the sums."""

import dataclasses
import functools

import gymnasium
import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.agents.acer import Acer
from acer_tf.agents.dqn import Dqn
from acer_tf.agents.optimizer import RMSProp
from acer_tf.distributions import Categorical
from acer_tf.networks.discrete import Network
from acer_tf.training.actor import Actor, LocalActors
from acer_tf.training.build import make_replay
from acer_tf.training.collector import Collector
from acer_tf.training.loop import Loop
from acer_tf.types import EnvironmentSpec, RecurrentContext
from tests import oracles
from tests.agents.conftest import settings_of

SIZE, VALID, ALL = 4, np.array([1, 2, 4]), 6  # the actions of a small environment, and their places in a larger one
SMALL = EnvironmentSpec((SIZE,), "float32", 1, num_actions=len(VALID))
LARGE = EnvironmentSpec((SIZE,), "float32", 1, num_actions=ALL, action_masks=True)
ROWS, BATCH = 7, 5


def agent_of(kind, spec, lstm_units=0, seed=0, architecture="mlp", **given):
    rng = np.random.default_rng(seed)
    policy = {"policy": "epsilon_greedy"} if kind is Dqn else {}
    networks = [Network(spec, architecture=architecture, lstm_units=lstm_units, **policy) for _ in range(2)]
    optimizer = RMSProp(1e-2, rho=0.9, epsilon=1e-2, initial_accumulator=1.0)
    agent = kind(*networks, optimizer, settings_of(kind, **given))
    for network in networks:
        for variable in network.trainable_variables:
            variable.assign(0.4 * rng.normal(size=variable.shape))
    return agent


def widened(variable, small, seed):
    """The weights of a small network in a larger one: those of actions in their places, with noise in the others'."""
    if variable.shape == small.shape:
        return small
    wide = np.random.default_rng(seed).normal(size=variable.shape).astype(np.float32)
    wide[..., VALID] = small
    return wide


def pair_of(kind, lstm_units=0, small=SMALL, **given):
    """An agent of the small environment, and one of the larger with its weights."""
    small, large = (agent_of(kind, spec, lstm_units, **given) for spec in (small, LARGE))
    for ours, theirs in ((large.network, small.network), (large.average, small.average)):
        for number, (variable, other) in enumerate(zip(ours.weights, theirs.weights, strict=True)):
            variable.assign(widened(variable, other.numpy(), number))
    return small, large


def in_large(trajectory):
    """A trajectory of the small environment as the larger one, whose other actions are never valid, shows it."""
    legal = np.zeros((*trajectory.mask.shape[:-1], trajectory.mask.shape[-1] + 1, ALL), bool)
    legal[..., VALID] = True
    behaviour = np.zeros((*trajectory.mask.shape, ALL), np.float32)
    behaviour[..., VALID] = trajectory.behaviour
    action = VALID.astype(np.int32)[trajectory.action]
    return trajectory._replace(legal=legal, behaviour=behaviour, action=action)


def trajectory_of(rng, state_size=0, burn_in=2, rows=ROWS):
    found = oracles.random_trajectory(rng, BATCH, rows, len(VALID), SIZE)
    if not state_size:
        return found
    before = rng.normal(size=(BATCH, burn_in, SIZE)).astype(np.float32)
    carry = np.concatenate([np.ones((BATCH, burn_in + 1), bool), found.mask], axis=1)
    return found._replace(
        observation=np.concatenate([before, found.observation], axis=1),
        age=np.zeros((BATCH, burn_in + rows + 1), np.uint8),
        memory=RecurrentContext(rng.normal(size=(BATCH, state_size)).astype(np.float32), carry),
    )


# A3C and Trust-A3C are the update of ACER on what was just collected.
CASES = {
    "acer": (Acer, 0, {}),
    "acer, bound": (Acer, 0, {"trust_region_delta": 0.05, "entropy_weight": 0.3}),
    "without trust region": (Acer, 0, {"trust_region_delta": np.inf, "entropy_in_trust_region": True}),
    "recurrent": (Acer, 256, {}),
    "dqn": (Dqn, 0, {"double_q": False}),
    "double dqn": (Dqn, 0, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_updates_with_a_constant_mask_are_those_of_the_environment_without_the_other_actions(name):
    kind, lstm_units, given = CASES[name]
    small, large = pair_of(kind, lstm_units, **given)
    rng = np.random.default_rng(1)
    before = [variable.numpy() for variable in large.network.weights]
    for _ in range(2):
        trajectory = trajectory_of(rng, small.network.state_size, rows=1 if kind is Dqn else ROWS)
        (expected, errors), (found, ours) = updated(small, trajectory), updated(large, in_large(trajectory))
        # Sums over more actions may be added in another order.
        for diagnostic, value in expected.items():
            assert found[diagnostic].numpy() == pytest.approx(value.numpy(), rel=1e-4, abs=1e-5), diagnostic
        np.testing.assert_allclose(ours, errors, rtol=1e-4, atol=1e-5)
    others = np.delete(np.arange(ALL), VALID)
    for variable, other, old in zip(large.network.weights, small.network.weights, before, strict=True):
        there, name = variable.numpy(), variable.path
        if variable.shape != other.shape:
            np.testing.assert_array_equal(there[..., others], old[..., others], err_msg=name)
            there = there[..., VALID]
        np.testing.assert_allclose(there, other.numpy(), rtol=1e-4, atol=2e-6, err_msg=name)
    assert max(np.abs(v.numpy() - old).max() for v, old in zip(large.network.weights, before, strict=True)) > 1e-3


def updated(agent, trajectory):
    """The diagnostics and errors of one update, which is not compiled."""
    gradients, diagnostics, errors = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    agent._apply(gradients, tf.linalg.global_norm(gradients))
    return diagnostics, errors


@pytest.mark.parametrize(("kind", "lstm_units"), [(Acer, 0), (Acer, 256), (Dqn, 0)])
def test_actions_with_a_constant_mask_are_those_of_the_environment_without_the_others(kind, lstm_units):
    small, large = pair_of(kind, lstm_units, small=dataclasses.replace(SMALL, action_masks=True))
    if kind is Dqn:
        for agent in (small, large):
            agent.network.exploration.epsilon.assign(0.3)
    rng, count = np.random.default_rng(0), 500
    legal = np.zeros((count, ALL), bool)
    legal[:, VALID] = True
    observation = rng.normal(size=(count, SIZE)).astype(np.float32)
    state = rng.normal(size=(count, small.network.state_size)).astype(np.float32)
    for seed in (np.array([3, row], np.int32) for row in range(3)):
        # With masks that allow all, since draws without masks are others.
        expected, phi, after = small.act(observation, seed, state, np.ones((count, len(VALID)), bool))
        action, statistics, state_there = large.act(observation, seed, state, legal)
        np.testing.assert_array_equal(action, VALID[expected])
        np.testing.assert_allclose(statistics[:, VALID], phi, rtol=1e-5, atol=1e-7)
        assert not statistics[:, ~legal[0]].any()
        np.testing.assert_allclose(state_there, after, rtol=1e-5, atol=1e-6)


class Walk(gymnasium.Env):
    """A walk of SIZE coordinates, which the action's place among `actions` steers; all others are never valid."""

    observation_space = gymnasium.spaces.Box(-100, 100, (SIZE,), np.float32)

    def __init__(self, actions, valid):
        self.action_space, self._valid = gymnasium.spaces.Discrete(actions), list(valid)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._steps = self.np_random.normal(size=SIZE).astype(np.float32), 0
        return self._place, self._info()

    def step(self, action):
        self._steps += 1
        self._place = (0.8 * self._place + self.np_random.normal(size=SIZE)).astype(np.float32)
        self._place[self._valid.index(action)] += 1
        over = self._place[3] > 1.5
        return self._place, float(self._place[1] - self._place[0]), over, self._steps > 6, self._info()

    def _info(self):
        mask = np.zeros(self.action_space.n, np.int8)
        mask[self._valid] = 1
        return {"action_mask": mask}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Acer, Dqn])
def test_a_run_with_a_constant_mask_is_that_of_the_environment_without_the_other_actions(kind):
    """Acting, replay and compiled updates together; draws with masks are others than without, so both have some."""
    runs = []
    for agent, actions, valid in zip(
        pair_of(kind, small=dataclasses.replace(SMALL, action_masks=True), num_envs=2, replay_start=10),
        (len(VALID), ALL),
        (range(len(VALID)), VALID),
        strict=True,
    ):
        env = envs.make("walk", 2, 0, factory=functools.partial(Walk, actions, valid))
        replay = make_replay(agent.settings, env.spec)
        loop = Loop(Collector(LocalActors([Actor(env, agent.act, 3)]), replay), agent, replay, agent.settings)
        unrolls = []
        collect = loop.collector.collect
        loop.collector.collect = lambda rows, unrolls=unrolls, collect=collect: (
            unrolls.append(collect(rows)) or unrolls[-1]
        )
        for _ in range(20):
            loop.iterate()
        runs.append((unrolls, loop.updates, agent))
    (small, updates, agent), (large, same, other) = runs
    assert updates == same and updates["replay"] > 20
    for one, another in zip(small, large, strict=True):
        for name in ("mask", "reward", "discount", "last"):
            np.testing.assert_array_equal(getattr(one, name), getattr(another, name), err_msg=name)
        acted = one.mask  # nothing is read of the others, where all actions are valid
        np.testing.assert_array_equal(VALID[one.action[acted]], another.action[acted])
        np.testing.assert_allclose(another.behaviour[acted][:, VALID], one.behaviour[acted], rtol=1e-3, atol=1e-6)
    for variable, wide in zip(agent.network.weights, other.network.weights, strict=True):
        there = wide.numpy() if wide.shape == variable.shape else wide.numpy()[..., VALID]
        np.testing.assert_allclose(there, variable.numpy(), rtol=1e-3, atol=1e-5, err_msg=variable.path)


def test_draws_have_the_policy_s_frequencies_and_depend_on_the_seed():
    phi = np.array([0.5, 0.0, 0.2, 0.3, 0.0], np.float32)
    policy = Categorical(np.tile(phi, (40_000, 1)), np.tile(phi > 0, (40_000, 1)))
    drawn = policy.sample(np.array([1, 2], np.int32)).numpy()
    assert np.abs(np.bincount(drawn, minlength=5) / 40_000 - phi).max() < 0.01
    assert np.bincount(drawn, minlength=5)[[1, 4]].sum() == 0 and drawn.dtype == np.int32
    assert np.array_equal(drawn, policy.sample(np.array([1, 2], np.int32)))
    assert (drawn != policy.sample(np.array([1, 3], np.int32)).numpy()).mean() > 0.3


def masked(trajectory, rng, actions):
    """A trajectory with random masks, by which each row's behaviour and action are valid."""
    legal = rng.random((BATCH, ROWS + 1, actions)) < 0.6
    first = np.where(legal[..., :-1, :].any(-1), legal[..., :-1, :].argmax(-1), 0)
    legal[:, :-1][np.arange(BATCH)[:, None], np.arange(ROWS), first] = True
    legal[:, -1, 2] = True
    behaviour = np.where(legal[:, :-1], trajectory.behaviour, 0)
    behaviour = (behaviour / behaviour.sum(-1, keepdims=True)).astype(np.float32)
    cumulative = behaviour.cumsum(-1)
    action = (rng.random((BATCH, ROWS, 1)) * cumulative[..., -1:] < cumulative).argmax(-1).astype(np.int32)
    return trajectory._replace(legal=legal, behaviour=behaviour, action=action)


def gradient_by_enumeration(agent, trajectory, actions):
    """∇ of the loss by finite differences in float64; every sum runs over the list of a state's valid actions."""
    h = agent.settings
    flat, flat_average = (
        np.concatenate([v.numpy().ravel() for v in network.trainable_variables]).astype(np.float64)
        for network in (agent.network, agent.average)
    )
    sizes = np.cumsum([SIZE * actions, actions, SIZE * actions])

    def outputs(parameters, x):
        w, b, w_q, b_q = np.split(parameters, sizes)
        return x @ w.reshape(SIZE, actions) + b, x @ w_q.reshape(SIZE, actions) + b_q

    def policy(parameters, b, t):
        """{action: probability} of the valid actions."""
        logits, valid = outputs(parameters, trajectory.observation[b, t])[0], np.flatnonzero(trajectory.legal[b, t])
        largest = max(logits[a] for a in valid)
        weights = {a: np.exp(logits[a] - largest) for a in valid}
        return {a: weight / sum(weights.values()) for a, weight in weights.items()}

    value = np.zeros((BATCH, ROWS + 1))
    q_taken, rho_taken, rho = np.zeros((BATCH, ROWS)), np.zeros((BATCH, ROWS)), {}
    for b in range(BATCH):
        for t in range(ROWS + 1):
            f, q = policy(flat, b, t), outputs(flat, trajectory.observation[b, t])[1]
            value[b, t] = sum(f[a] * q[a] for a in f)
            if t < ROWS:
                rho[b, t] = {a: f[a] / trajectory.behaviour[b, t, a] for a in f}
                q_taken[b, t], rho_taken[b, t] = q[trajectory.action[b, t]], rho[b, t][trajectory.action[b, t]]
    row = trajectory.reward, trajectory.discount, trajectory.mask
    q_ret = oracles.off_policy_return(
        *row, q_taken, value[:, :-1], value[:, -1], np.minimum(rho_taken, 1), gamma=h.gamma
    )

    c, rows = h.importance_truncation, [(b, t) for b, t in np.ndindex(BATCH, ROWS) if trajectory.mask[b, t]]
    directions = {}
    for b, t in rows:
        f, average = policy(flat, b, t), policy(flat_average, b, t)
        q, taken = outputs(flat, trajectory.observation[b, t])[1], trajectory.action[b, t]
        valid = list(f)

        def climbed(x, b=b, t=t, f=f, q=q, taken=taken, valid=valid):
            gain = min(c, rho[b, t][taken]) * np.log(x[valid.index(taken)]) * (q_ret[b, t] - value[b, t])
            for i, a in enumerate(valid):
                gain += max(0, 1 - c / rho[b, t][a]) * f[a] * np.log(x[i]) * (q[a] - value[b, t])
            return gain - h.entropy_weight * sum(x * np.log(x))

        def divergence(x, average=average):
            return sum(p * np.log(p / one) for p, one in zip(average.values(), x, strict=True))

        at = np.array([*f.values()])
        g, k = oracles.finite_differences(climbed, at), oracles.finite_differences(divergence, at)
        directions[b, t] = oracles.projection(g, k, h.trust_region_delta)

    def loss(parameters):
        total = 0.0
        for b, t in rows:
            error = q_ret[b, t] - outputs(parameters, trajectory.observation[b, t])[1][trajectory.action[b, t]]
            total += h.critic_weight * 0.5 * error**2 - directions[b, t] @ [*policy(parameters, b, t).values()]
        return total / len(rows)

    return oracles.finite_differences(loss, flat)


@pytest.mark.parametrize("delta", [0.1, np.inf])
@pytest.mark.parametrize("c", [0.7, np.inf])
def test_the_gradient_with_random_masks_is_that_of_sums_over_valid_actions(delta, c):
    actions = 5
    spec = dataclasses.replace(LARGE, num_actions=actions)
    agent = agent_of(
        Acer,
        spec,
        architecture="tests.agents.test_acer_gradients:LINEAR",
        trust_region_delta=delta,
        importance_truncation=c,
        entropy_weight=0.2,
        gamma=0.9,
    )
    rng = np.random.default_rng(2)
    trajectory = masked(oracles.random_trajectory(rng, BATCH, ROWS, actions, SIZE), rng, actions)
    gradients, diagnostics, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    ours = np.concatenate([np.ravel(g) for g in gradients])
    if np.isfinite(delta):
        assert 0.1 < diagnostics["trust_region_active"] < 0.9
    np.testing.assert_allclose(ours, gradient_by_enumeration(agent, trajectory, actions), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_no_logit_of_an_action_that_is_not_valid_is_read_or_gets_a_gradient(poison):
    agent = agent_of(Acer, LARGE, trust_region_delta=0.1)
    trajectory = optree.tree_map(tf.constant, in_large(trajectory_of(np.random.default_rng(0))))
    clean, *_ = agent.parameter_gradients(trajectory)
    others = np.delete(np.arange(ALL), VALID)
    for network in (agent.network, agent.average):
        _, bias = network.heads.get_layer("policy").weights
        bias.assign(np.where(np.isin(np.arange(ALL), others), poison, bias.numpy()))
    found, *_ = agent.parameter_gradients(trajectory)
    names = [variable.path for variable in agent.network.trainable_variables]
    for name, gradient, expected in zip(names, found, clean, strict=True):
        np.testing.assert_array_equal(gradient, expected, err_msg=name)
        if name.startswith(("policy/", "q/")):
            assert not gradient.numpy()[..., others].any(), name
            assert gradient.numpy()[..., VALID].any(), name


def test_statistics_and_gradients_of_actions_that_are_not_valid_are_zero():
    legal = np.array([[True, False, True, False], [False, True, False, False]])
    phi, average = np.array([[0.7, 0, 0.3, 0], [0, 1, 0, 0]], np.float32), np.array([[0.4, 0, 0.6, 0], [0, 1, 0, 0]])
    policy, other = Categorical(phi, legal), Categorical(average.astype(np.float32), legal)
    for gradient in (policy.entropy_gradient(), policy.kl_gradient(other), policy.score(np.array([0, 1]))):
        assert not gradient.numpy()[~legal].any() and np.isfinite(gradient).all()
    np.testing.assert_allclose(policy.entropy(), [-0.7 * np.log(0.7) - 0.3 * np.log(0.3), 0], atol=1e-6)
    np.testing.assert_allclose(policy.kl_from(other), [0.4 * np.log(0.4 / 0.7) + 0.6 * np.log(0.6 / 0.3), 0], atol=1e-6)


@pytest.mark.parametrize("double_q", [True, False])
def test_dqn_s_targets_and_actions_are_among_the_valid(double_q):
    agent, rng = agent_of(Dqn, LARGE, double_q=double_q, error_clip=np.inf), np.random.default_rng(4)
    trajectory = oracles.random_trajectory(rng, 40, 1, ALL, SIZE)
    legal = rng.random((40, 2, ALL)) < 0.4
    legal[..., 3] |= ~legal.any(-1)
    trajectory = trajectory._replace(legal=legal)
    *_, errors = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    rows = trajectory.observation
    online, target = (network(rows[:, 1])[1].numpy() for network in (agent.network, agent.target))
    q, expected = agent.network(rows[:, 0])[1].numpy(), []
    for i in range(40):
        choice = online if double_q else target
        best = max(np.flatnonzero(legal[i, 1]), key=lambda a, i=i, choice=choice: choice[i, a])
        upcoming = agent.settings.gamma * trajectory.discount[i, 0] * target[i, best]
        expected.append(abs(trajectory.reward[i, 0] + upcoming - q[i, trajectory.action[i, 0]]))
    expected = np.where(trajectory.mask[:, 0], expected, 0)
    np.testing.assert_allclose(errors, expected, rtol=1e-4, atol=1e-5)
    assert any(choice[i].argmax() not in np.flatnonzero(legal[i, 1]) for i in range(40))

    agent.network.exploration.epsilon.assign(0.4)
    probabilities = agent.network(rows[:, 0], None, legal[:, 0])[0].numpy()
    for i in range(40):
        valid = np.flatnonzero(legal[i, 0])
        wanted = np.where(legal[i, 0], 0.4 / len(valid), 0)
        wanted[max(valid, key=lambda a, i=i: q[i, a])] += 0.6
        np.testing.assert_allclose(probabilities[i], wanted, atol=1e-6)


def test_windows_without_the_masks_of_their_rows_are_refused_and_observations_alone_allow_all_actions():
    network = Network(LARGE, architecture="mlp")
    observation = np.zeros((3, SIZE), np.float32)
    with pytest.raises(ValueError, match="legal"):
        network.windows(network.planes(tf.zeros((3, 2, SIZE)), tf.zeros((3, 2), tf.uint8)))
    everything = network(observation, None, np.ones((3, ALL), bool))[0]
    np.testing.assert_array_equal(network(observation)[0], everything)
    assert (everything.numpy() > 0).all()
