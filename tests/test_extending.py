"""The pages about a user's own parts: their files, commands and examples work in an empty folder."""

import csv
import importlib.util
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.errors import InvalidEnvironment
from tests.processes import answers_of
from tests.test_readme import EXAMPLES, TEXT

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", "".join(TEXT[page] for page in EXAMPLES), flags=re.DOTALL)
FILES = {code.splitlines()[0].removeprefix("# "): code for kind, code in BLOCKS if code.startswith("# my_")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extending")
    for name, code in FILES.items():
        (folder / name).write_text(code)
    for name in ("minigrid", "envpool"):
        if importlib.util.find_spec(name) is None:
            shutil.copy(ROOT / "tests" / "stand_ins" / f"{name}.py", folder)
    return folder


@pytest.fixture
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_there_is_a_file_of_each_kind_and_the_rule_is_short():
    kinds = (
        "envs",
        "parcels",
        "knapsack",
        "lake",
        "grids",
        "pools",
        "networks",
        "residual",
        "rules",
        "changes",
        "continuous",
        "optimizers",
        "slippery",
        "functions",
    )
    assert set(FILES) == {f"my_{kind}.py" for kind in kinds}
    assert len([line for line in FILES["my_rules.py"].splitlines() if line.strip()]) < 60


@pytest.mark.training
@pytest.mark.parametrize("code", [code for kind, code in BLOCKS if kind == "python" and not code.startswith("# my_")])
def test_an_example_runs(code, inside):
    exec(code, {})


def commands():
    """Those of the pages; of a search, whose runs are processes, one trial, and a shorter evaluated run."""
    lines = "\n".join(code for kind, code in BLOCKS if kind == "sh").replace("\\\n", " ")
    for whole, part in (("--trials=2", "--trials=1"), ("--total_steps=20_000", "--total_steps=4_000")):
        assert whole in lines
        lines = lines.replace(whole, part)
    return [shlex.split(line) for line in lines.splitlines() if line.strip()]


@pytest.mark.process
def test_the_commands_run_one_after_another(folder):
    assert len(commands()) >= 5
    assert all(command[:3] == ["python", "-m", "acer_tf"] for command in commands())
    # XLA must be able to compile what the pages add to a network or an update; the others are faster without it.
    compiled = re.compile(r"=my_(networks|residual|continuous|rules|optimizers):|=my_changes:(SmallQ|TrustInLogits)")
    for xla in ("0", "1"):
        chosen = [command[3:] for command in commands() if bool(compiled.search(" ".join(command))) == (xla == "1")]
        assert len(chosen) >= 5
        for done in answers_of(chosen, folder, PYTHONPATH=str(ROOT), ACER_TF_XLA=xla):
            assert done.status == 0, done.err[-2000:]
    assert last_return(folder / "runs/corridor") > -1, "the shortest path returns 0.4, a random walk about -4"
    assert last_return(folder / "runs/parcels") > 0.6, "the shortest path returns 0.9, a random walk about -1"
    assert last_return(folder / "runs/vtrace") > 100, "a random policy returns 22"
    assert first_return(folder / "runs/slippery") > -1.5, "from the first steps on; a random walk returns about -4"


def test_envpools_frames_are_turned_to_height_width_and_channels(inside):
    make_pong = importlib.import_module("my_pools").make_pong
    vector, again = (envs.make("Pong-v5", 2, 0, factory=make_pong) for _ in range(2))
    assert vector.spec.observation_shape == (84, 84, 4) and vector.spec.observation_dtype == "uint8"
    first, same = vector.reset(), again.reset()
    np.testing.assert_array_equal(first.observation, same.observation)  # the seed is the run's
    step = vector.step(np.zeros(2, np.int32))
    assert step.mask.all() and step.observation.shape == (2, 84, 84, 4)


def test_minigrid_is_taken_without_its_mission_and_symbols_are_divided_by_ten(inside):
    grid = "MiniGrid-Empty-5x5-v0"
    with pytest.raises(InvalidEnvironment, match=r"FilterObservation\(env, \['direction', 'image'\]\)"):
        envs.spec(f"minigrid:{grid}")
    vector = envs.make(f"my_grids:{grid.replace('MiniGrid', 'Symbols')}", 2, 0)
    assert vector.spec.observation_scale == {"direction": 1.0, "image": 10.0}
    assert vector.spec.observation_dtype["image"] == "uint8" and vector.spec.num_actions == 7
    seen, rng = [vector.reset()], np.random.default_rng(0)
    seen += [vector.step(rng.integers(0, 3, 2)) for _ in range(150)]
    assert 2 <= max(step.observation["image"].max() for step in seen) <= 10
    vector.close()


@pytest.mark.parametrize("units", [0, 6])
def test_the_rule_is_v_trace(units, inside):
    """Its gradients equal autodiff of the losses, with targets from the sum in the paper's Eq. 1; also with an LSTM."""
    import my_rules

    from acer_tf.agents.optimizer import RMSProp
    from acer_tf.networks.discrete import Network
    from acer_tf.settings import make_settings
    from acer_tf.types import EnvironmentSpec, RecurrentContext, Trajectory

    spec = EnvironmentSpec((4,), "float32", stack=1, num_actions=3)
    networks = [Network(spec, architecture="mlp", lstm_units=units, seed=1) for _ in range(2)]
    for network in networks:
        for i, variable in enumerate(network.trainable_variables):
            variable.assign(0.4 * np.random.default_rng(i).normal(size=variable.shape))
    given = {"trust_region_delta": np.inf, "gamma": 0.9, "entropy_weight": 0.03, "critic_weight": 0.7}
    given["lstm_units"] = units
    settings = make_settings(env="CartPole-v1", agent="my_rules:VTrace", preset="classic", **given)
    optimizer = RMSProp(1e-3, rho=0.9, epsilon=1e-2, initial_accumulator=1.0)
    agent = my_rules.VTrace(*networks, optimizer, settings)
    rng = np.random.default_rng(0)
    B, T, W = 5, 7, 2 if units else 0
    mask = np.ones((B, T), bool)
    mask[1, 3] = mask[2, 6] = False
    discount = np.ones((B, T), np.float32)
    discount[1, 2] = 0.0  # terminated; the other masked row follows a truncation
    carry = np.concatenate([np.ones((B, W + 1), bool), mask], axis=1)
    memory = RecurrentContext(rng.normal(size=(B, 2 * units)).astype(np.float32), carry)
    trajectory = Trajectory(
        observation=rng.normal(size=(B, W + T + 1, 4)).astype(np.float32),
        age=np.zeros((B, W + T + 1), np.uint8),
        action=rng.integers(0, 3, (B, T)).astype(np.int32),
        reward=rng.normal(size=(B, T)).astype(np.float32),
        discount=discount,
        mask=mask,
        behaviour=rng.dirichlet([2, 2, 2], (B, T)).astype(np.float32),
        memory=memory if units else None,
    )
    gradients, _, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))

    observation = tf.constant(trajectory.observation)
    with tf.GradientTape() as tape:
        state, outputs = tf.constant(memory.state), []
        for row in range(W + T + 1):
            state = tf.stop_gradient(state) if row == W else state
            *output, state = networks[0](observation[:, row], state * tf.cast(carry[:, row, None], tf.float32))
            outputs.append(output)
        pi, q = (tf.stack(x, axis=1) for x in zip(*outputs[W:], strict=True))
        chosen = tf.gather(pi[:, :-1], trajectory.action, batch_dims=2)
        value = tf.reduce_sum(tf.stop_gradient(pi) * q, axis=-1)
        p, v = chosen.numpy(), value.numpy()
        mu = np.take_along_axis(trajectory.behaviour, trajectory.action[..., None], axis=2)[..., 0]
        rho = np.minimum(1, p / mu)
        target = v.copy()  # [B, T+1]
        for b in range(B):
            for s in range(T):
                factor = 1.0
                for t in range(s, T):
                    if not mask[b, t]:
                        break
                    step = 0.9 * discount[b, t]
                    target[b, s] += factor * rho[b, t] * (trajectory.reward[b, t] + step * v[b, t + 1] - v[b, t])
                    factor *= step * rho[b, t]
        advantage = rho * (trajectory.reward + 0.9 * discount * target[:, 1:] - v[:, :-1])
        entropy = -tf.reduce_sum(pi[:, :-1] * tf.math.log(pi[:, :-1]), axis=-1)
        loss = 0.7 * 0.5 * (target[:, :-1] - value[:, :-1]) ** 2 - advantage * tf.math.log(chosen) - 0.03 * entropy
        loss = tf.reduce_mean(tf.boolean_mask(loss, mask))
    for ours, theirs in zip(gradients, tape.gradient(loss, networks[0].trainable_variables), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def an_agent(name, spec, **given):
    """An agent of my_changes.py, with networks whose outputs are not alike."""
    import my_changes

    from acer_tf.agents.optimizer import RMSProp
    from acer_tf.networks.discrete import Network
    from acer_tf.settings import make_settings

    networks = [Network(spec, architecture="mlp", seed=seed) for seed in (1, 2)]
    for network in networks:
        for i, variable in enumerate(network.trainable_variables):
            variable.assign(0.4 * np.random.default_rng(i).normal(size=variable.shape))
    settings = make_settings(env="CartPole-v1", agent=f"my_changes:{name}", preset="classic", **given)
    return getattr(my_changes, name)(*networks, RMSProp(1e-3, rho=0.9, epsilon=1e-2, initial_accumulator=1.0), settings)


@pytest.mark.slow
def test_a_loss_term_adds_its_gradient_and_need_not_touch_every_head(inside):
    from acer_tf.agents.acer import Acer
    from acer_tf.types import EnvironmentSpec

    agent = an_agent("SmallQ", EnvironmentSpec((4,), "float32", stack=1, num_actions=3))
    trajectory = a_trajectory()
    names = [variable.path for variable in agent.network.trainable_variables]
    with tf.GradientTape() as tape:
        term = agent.loss_term(trajectory)
    more = dict(zip(names, tape.gradient(term, agent.network.trainable_variables), strict=True))
    assert [name for name, gradient in more.items() if gradient is None], "the policy's head"
    plain, *_ = Acer.parameter_gradients(agent, trajectory)
    norm = tf.linalg.global_norm([g if more[n] is None else g + more[n] for n, g in zip(names, plain, strict=True)])
    update = agent.update(optree.tree_map(np.asarray, trajectory))
    assert update.diagnostics["loss_term"] == pytest.approx(float(term), rel=1e-4)
    assert update.diagnostics["gradient_norm"] == pytest.approx(float(norm), rel=1e-4)


def test_the_projection_on_logits_keeps_their_constraint(inside):
    from acer_tf.distributions import Categorical
    from acer_tf.types import EnvironmentSpec

    agent = an_agent("TrustInLogits", EnvironmentSpec((4,), "float32", stack=1, num_actions=3), trust_region_delta=0.05)
    rng = np.random.default_rng(3)
    f, average = (Categorical(tf.constant(rng.dirichlet([2, 2, 2], (4, 6)), tf.float32)) for _ in range(2))
    g = tf.constant(rng.normal(size=(4, 6, 3)), tf.float32)
    assert agent.project(g, f, None) is g
    k = f.statistics - average.statistics

    def in_logits(x):
        return f.statistics * (x - tf.reduce_sum(f.statistics * x, axis=-1, keepdims=True))

    before, after = (tf.reduce_sum(k * in_logits(x), axis=-1).numpy() for x in (g, agent.project(g, f, average)))
    assert (before > 0.05).any() and (before < 0.05).any()
    np.testing.assert_allclose(after, np.minimum(before, 0.05), atol=1e-5)


def test_a_replay_of_ones_own_is_the_runs_and_draws_newer_windows(inside):
    import my_changes

    from acer_tf.settings import make_settings
    from acer_tf.training.build import make_replay
    from acer_tf.types import EnvironmentSpec

    spec = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
    given = {"env": "CartPole-v1", "replay_capacity": 100, "replay_start": 20, "preset": "classic"}
    replay = make_replay(make_settings(agent="my_changes:Recent", network="mlp", **given), spec)
    assert type(replay) is my_changes.RecentReplay
    valid, first = np.arange(100), np.full(4_000, 20)
    drawn = replay.draw_starts(valid, first, np.random.default_rng(0))
    assert drawn.min() >= 20 and drawn.mean() == pytest.approx(20 + 80 * 2 / 3, abs=2)


@pytest.mark.parametrize("shared", [True, False])
def test_a_torso_of_ones_own_is_under_policy_value_and_critic_of_continuous_actions(inside, shared):
    from acer_tf.networks.continuous import ContinuousNetwork
    from acer_tf.types import EnvironmentSpec

    spec = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))
    network = ContinuousNetwork(spec, critic="dueling", architecture="my_continuous:NORMED", shared_torso=shared)
    x, actions = tf.constant(np.random.default_rng(0).normal(size=(5, 3)), tf.float32), tf.zeros((5, 2, 1))
    mean, value, advantage = network(x, actions)
    assert (mean.shape, value.shape, advantage.shape) == ((5, 1), (5,), (5, 2))
    assert network.critic.input[0].shape == (None, 64), "the critic reads the torso's features"
    assert network.normalization is not None, "the torso reads normalised observations"
    kernels = [weight.shape for weight in network.trainable_variables if weight.path.endswith("dense1/kernel")]
    assert kernels == [(3, 128)] * (1 if shared else 2)
    assert len({weight.path for weight in network.weights}) == len(network.weights), (
        "a checkpoint names each by its path"
    )
    again = ContinuousNetwork.from_config(network.get_config())
    again.set_weights(network.get_weights())
    np.testing.assert_array_equal(again(x)[0], mean)
    of_another = ContinuousNetwork(spec, critic="none", architecture="my_networks:WIDE")
    assert of_another.normalization is None, "this torso asks for scaled observations"


def test_a_schedule_of_ones_own_sets_the_learning_rate(inside):
    from acer_tf.types import EnvironmentSpec

    agent = an_agent("Warmup", EnvironmentSpec((4,), "float32", stack=1, num_actions=3), learning_rate=0.5)
    rates = []
    for steps in (0, 499, 5_000):
        agent.schedule(steps)
        rates.append(float(agent.optimizer.learning_rate))
    assert rates == pytest.approx([0.0005, 0.25, 0.5])


def a_trajectory(B=5, T=7):
    from acer_tf.types import Trajectory

    rng = np.random.default_rng(0)
    trajectory = Trajectory(
        observation=rng.normal(size=(B, T + 1, 4)).astype(np.float32),
        age=np.zeros((B, T + 1), np.uint8),
        action=rng.integers(0, 3, (B, T)).astype(np.int32),
        reward=rng.normal(size=(B, T)).astype(np.float32),
        discount=np.ones((B, T), np.float32),
        mask=np.ones((B, T), bool),
        behaviour=rng.dirichlet([2, 2, 2], (B, T)).astype(np.float32),
    )
    return optree.tree_map(tf.constant, trajectory)


def returns(run_dir: Path) -> list[float]:
    with (run_dir / "progress.csv").open(newline="") as file:
        return [float(row["mean_return"]) for row in csv.DictReader(file) if row["mean_return"]]


def first_return(run_dir: Path) -> float:
    return returns(run_dir)[0]


def last_return(run_dir: Path) -> float:
    return returns(run_dir)[-1]
