"""An interruption changes nothing: no bit of what is learned from the same rows, and no target at its seam."""

from __future__ import annotations

import json
import re

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf import equations
from acer_tf.agents.agent import Agent
from acer_tf.errors import Mismatch
from acer_tf.runs.checkpoint import Checkpoints, Snapshot
from acer_tf.settings import make_settings
from acer_tf.training.build import make_agent, make_replay
from acer_tf.training.loop import Loop
from acer_tf.types import Unroll
from tests.replay.twin import World, sample, spec_of
from tests.training.scripted import SPEC, Row, ScriptedEnvironment, act, collector_of, replay_of

N = 12  # iterations before the interruption, and after it


def settings_of(**given):
    small = {"num_envs": 2, "unroll_length": 5, "replay_capacity": 100, "replay_start": 10, "replay_ratio": 2.0}
    small |= {"total_steps": 2 * 2 * N * 5}
    usual = {"env": "CartPole-v1", "preset": "baselines", "network": "mlp", "precision": "float32"}
    return make_settings({**usual, **small, **given})


class Tape:
    """An actor with recorded rows, the same for every run that reads it."""

    spec = spec_of(stack=1, num_actions=3, frame=(4,), dtype="float32")

    def __init__(self, rows: int) -> None:
        world = World(self.spec, 2, seed=11)
        self._first = self._scaled(world.reset())
        self._rows = []
        for row in range(rows):
            # Every episode ends where the run is interrupted: a run that goes on begins new ones.
            world.game_over = {N * 5 - 2: 0.0, N * 5 - 1: 1.0}.get(row % (N * 5), 0.15)
            self._rows.append((*world.act(), self._scaled(world.step())))
        self._states = np.zeros((2, 2, 0), np.float32)

    @staticmethod
    def _scaled(step):
        return step._replace(observation=step.observation / 255)

    def collect(self, replay, rows):
        if not replay.rows:
            replay.reset(self._first.observation, self._first.age)
        unroll = Unroll.of_rows(self.spec, self._first, self._rows[replay.rows : replay.rows + rows], *self._states)
        replay.append(unroll)
        return unroll

    def steps(self, rows):
        return int(sum(answer.mask.sum() for *_, answer in self._rows[:rows]))


class Player:
    """Has a collector's interface; its steps are those of the rows in its replay, also of one that was restored."""

    def __init__(self, tape, replay):
        self._tape, self._replay = tape, replay

    def collect(self, rows):
        return self._tape.collect(self._replay, rows)

    @property
    def steps(self):
        return self._tape.steps(self._replay.rows)


class Half:
    """The objects of one process, with other seeds than the run that it may resume."""

    def __init__(self, tape, preset, seed, agent=None):
        settings = settings_of(preset=preset, seed=seed)
        self.agent = agent or make_agent(settings, tape.spec)
        self.replay = make_replay(settings, tape.spec)
        self.loop = Loop(Player(tape, self.replay), self.agent, self.replay, settings)

    def iterate(self, count):
        for _ in range(count):
            self.loop.iterate()
        return self

    def result(self):
        """Everything that the interruption must not change."""
        weights = {unnumbered(name): array.copy() for name, array in self.agent.arrays().items()}
        state = self.loop.state()
        return weights | {"state": json.dumps(state), "draw": sample(self.replay).reward}


def unnumbered(name):
    """Keras numbers the optimizers of a process."""
    return re.sub(r"adam_\d+", "adam", name)


def equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def tape():
    return Tape(2 * N * 5)


@pytest.fixture(scope="module", params=["baselines", "classic"])
def preset(request):
    """The second has statistics of rewards and observations, Adam, and a learning rate that changes."""
    return request.param


@pytest.fixture(scope="module")
def uninterrupted(tape, preset):
    whole = Half(tape, preset, seed=1).iterate(2 * N)
    assert whole.loop.updates["replay"] > N
    return whole.result()


@pytest.fixture(scope="module")
def interrupted(tape, preset, tmp_path_factory):
    """A checkpoint after N iterations, and the objects of another process."""
    folder = tmp_path_factory.mktemp("resume")
    first = Half(tape, preset, seed=1).iterate(N)
    Checkpoints(folder).save(Snapshot(first.agent.arrays(), {"loop": first.loop.state()}), first.replay, 1)
    return folder, make_agent(settings_of(preset=preset, seed=2), tape.spec)


@pytest.mark.training
def test_n_updates_a_resume_and_n_updates_equal_2n_updates_bit_for_bit(tape, preset, uninterrupted, interrupted):
    folder, agent = interrupted
    second = Half(tape, preset, 2, agent)
    snapshot = Checkpoints(folder).restore(second.replay)
    agent.restore(snapshot.arrays)
    second.loop.restore(snapshot.state["loop"])
    assert second.loop.updates["on_policy"] == N
    assert equal(second.iterate(N).result(), uninterrupted)


@pytest.mark.training
@pytest.mark.parametrize(
    ("preset", "forgotten"),
    [("baselines", name) for name in ("online/", "average/", "_velocity", "iteration", "loop", "replay's generator")]
    + [("classic", name) for name in ("rewards/", "/normalization/", "_momentum")],
    indirect=["preset"],
)
def test_anything_missing_from_the_checkpoint_would_show(tape, preset, uninterrupted, interrupted, forgotten):
    """The test above can fail: each part of the state matters."""
    folder, agent = interrupted
    fresh = {unnumbered(n): v for n, v in make_agent(settings_of(preset=preset, seed=2), tape.spec).variables().items()}
    second = Half(tape, preset, 2, agent)
    own = second.replay._generator
    snapshot = Checkpoints(folder).restore(second.replay)
    names = [name for name in snapshot.arrays if forgotten in name]
    assert bool(names) == (forgotten not in ("loop", "replay's generator"))
    agent.restore(snapshot.arrays | {name: np.asarray(fresh[unnumbered(name)].value) for name in names})
    if forgotten != "loop":
        second.loop.restore(snapshot.state["loop"])
    if forgotten == "replay's generator":
        second.replay._generator = own
    assert not equal(second.iterate(N).result(), uninterrupted)


def test_every_variable_of_the_agent_comes_back_by_its_name(tmp_path):
    agent = make_agent(settings_of(), SPEC)
    variables = agent.variables()
    layers = [f"{layer}/{part}" for layer in ("dense1", "dense2", "policy", "q") for part in ("kernel", "bias")]
    assert {f"{group}/{layer}" for group in ("online", "average") for layer in layers} < set(variables)
    optimizer = [name for name in variables if name.startswith("optimizer/")]
    assert sum(name.endswith("_velocity") for name in optimizer) == len(layers)
    assert any(name.endswith("/iteration") for name in optimizer)
    tracked = {id(v) for m in (agent.network, agent.average, agent.optimizer) for v in m.variables}
    assert {id(v) for v in variables.values()} == tracked

    generator = np.random.default_rng(0)
    values = {n: generator.integers(1, 1000, v.shape).astype(v.dtype) for n, v in variables.items()}
    for name, variable in variables.items():
        variable.assign(values[name])
    Checkpoints(tmp_path).save(Snapshot(agent.arrays(), {}), None, 1)
    other = make_agent(settings_of(seed=3), SPEC)
    other.restore(Checkpoints(tmp_path).restore(None).arrays)
    for name, variable in other.variables().items():
        assert np.array_equal(np.asarray(variable.value), values[name]), name
    assert int(other.optimizer.iterations) == values["optimizer/rmsprop/iteration"]


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_variables_of_other_code_are_refused_and_none_is_assigned(change):
    agent = make_agent(settings_of(), SPEC)
    arrays = {name: array + 1 for name, array in agent.arrays().items()}
    before = [w.copy() for w in agent.network.get_weights()]
    if change == "missing":
        arrays.popitem()
    elif change == "extra":
        arrays["online/more"] = np.zeros(1)
    else:
        arrays["online/q/bias"] = np.zeros(7)
    with pytest.raises(Mismatch):
        agent.restore(arrays)
    assert all(np.array_equal(a, b) for a, b in zip(before, agent.network.get_weights(), strict=True))


ROWS = [Row(1.0), Row(-0.5), Row(2.0), Row(0.25), Row(0.5), Row(3.0)]
LATER = [Row(1.5), Row(0.75), Row(-2.0), Row(1.0), Row(0.1)]
LAST = len(ROWS) - 1  # the last row before the interruption


def collected(end):
    """The rows of episodes that end in this way at row LAST."""
    replay = replay_of(2)
    script = [*ROWS[:-1], ROWS[-1]._replace(end=end), *LATER]
    collector_of(ScriptedEnvironment([script] * 2), act, replay, seed=4).collect(len(ROWS) + 1 + len(LATER))
    return replay


@pytest.fixture(scope="module")
def across_a_seam(tmp_path_factory):
    """The same rows from two processes: the second one's environments start where the first one's would reset."""
    folder = tmp_path_factory.mktemp("seam")
    before, after = replay_of(2), replay_of(2, seed=1)
    first = collector_of(ScriptedEnvironment([ROWS] * 2), act, before, seed=4)
    first.collect(len(ROWS))
    after.restore(folder, before.save(folder))
    second = collector_of(ScriptedEnvironment([LATER] * 2, first=len(ROWS) + 1), act, after, seed=4)
    second.restore(first.state())
    second.collect(len(LATER))
    return after


@pytest.fixture(scope="module")
def agent():
    return make_agent(settings_of(num_envs=2), SPEC)


def window(replay, start):
    return replay._windows(np.full(2, start), np.arange(2))


STARTS = range(len(ROWS) + 1 + len(LATER) - 4 + 1)


def gradients(agent, trajectory):
    tensors, diagnostics, _ = agent.parameter_gradients(optree.tree_map(tf.constant, trajectory))
    return [t.numpy() for t in tensors], {name: float(value) for name, value in diagnostics.items()}


@pytest.mark.parametrize("start", STARTS)
def test_a_window_across_the_seam_is_that_of_a_truncation(across_a_seam, agent, start):
    seam, cut = window(across_a_seam, start), window(collected("cut"), start)
    for name, a, b in zip(seam._fields, seam, cut, strict=True):
        if name in ("action", "behaviour"):  # not chosen by the policy on the masked row, and not read
            a, b = a[seam.mask], b[cut.mask]
        assert np.array_equal(a, b), name
    (ours, our_diagnostics), (theirs, their_diagnostics) = gradients(agent, seam), gradients(agent, cut)
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert our_diagnostics == their_diagnostics


def test_a_termination_there_would_give_other_gradients(across_a_seam, agent):
    for start in range(LAST - 3, LAST + 1):
        ours, theirs = (
            gradients(agent, window(across_a_seam, start)),
            gradients(agent, window(collected("over"), start)),
        )
        assert not all(np.array_equal(a, b) for a, b in zip(ours[0], theirs[0], strict=True))


def test_the_last_row_before_the_seam_bootstraps_from_the_observation_pending_there(across_a_seam, agent):
    trajectory = window(across_a_seam, LAST - 1)
    assert trajectory.mask.tolist() == [[True, True, False, True]] * 2
    probabilities, q = agent.network.windows(tf.constant(trajectory.observation))
    values = equations.state_value(q, probabilities)
    q_ret = equations.off_policy_return(
        tf.constant(trajectory.reward),
        tf.constant(trajectory.discount),
        tf.constant(trajectory.mask),
        tf.gather(q[:, :-1], trajectory.action, batch_dims=2),
        values[:, :-1],
        values[:, -1],
        tf.ones_like(trajectory.reward),
        gamma=0.9,
        lambda_=1.0,
    ).numpy()
    pending = np.array([[i, len(ROWS)] for i in range(2)], np.float32)
    f, q_pending, _ = agent.network(tf.constant(pending))
    expected = ROWS[LAST].reward + 0.9 * np.sum(f.numpy() * q_pending.numpy(), axis=-1)
    np.testing.assert_allclose(q_ret[:, 1], expected, rtol=1e-5)


def test_layers_without_a_name_may_have_another_number_in_another_process():
    def agent(*names):
        made = Agent.__new__(Agent)
        variables = {name: tf.Variable(tf.zeros(2)) for name in names}
        made.variables = lambda: variables
        return made

    slots = "optimizer/rmsprop/dense_2_bias_velocity", "optimizer/rmsprop/dense_bias_velocity"
    arrays = {"online/dense_2/bias": np.ones(2), "average/dense_3/bias": np.full(2, 2.0), slots[0]: np.full(2, 3.0)}
    again = agent("online/dense/bias", "average/dense_1/bias", slots[1])
    again.restore(arrays)
    assert [variable.numpy()[0] for variable in again.variables().values()] == [1.0, 2.0, 3.0]
    for other in (agent("average/dense/bias", "online/dense_1/bias"), agent("online/dense/bias")):
        with pytest.raises(Mismatch):
            other.restore(arrays)
