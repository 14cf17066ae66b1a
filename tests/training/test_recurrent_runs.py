"""A recurrent state in acting, replay, checkpoint, export and evaluation."""

from __future__ import annotations

import json
import mmap
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.errors import CheckpointError, PolicyError, SettingsError
from acer_tf.networks.discrete import Network
from acer_tf.policies import evaluation
from acer_tf.policies.evaluation import evaluate
from acer_tf.policies.export import export_policy
from acer_tf.policies.policy import load_policy
from acer_tf.replay import TrajectoryReplay
from acer_tf.runs.checkpoint import Checkpoints, Snapshot
from acer_tf.settings import make_settings
from acer_tf.training.build import make_agent, make_replay, replay_bytes, replay_rows, require_memory
from acer_tf.training.export_run import export_run
from acer_tf.training.loop import Loop
from acer_tf.training.train import train
from tests.core import first_in_core
from tests.policies import test_evaluation
from tests.policies.test_export import make_metadata
from tests.replay.checks import check_valid
from tests.replay.twin import World, latest, sample
from tests.training.scripted import SPEC, Row, ScriptedEnvironment, act, collector_of, rows_of

UNITS = 256
SIZE = 2 * UNITS
SMALL = {
    "env": "CartPole-v1",
    "network": "mlp",
    "lstm_units": UNITS,
    "precision": "float32",
    "num_envs": 2,
    "unroll_length": 5,
    "burn_in": 3,
    "replay_start": 20,
    "replay_capacity": 60,
    "total_steps": 300,
    "log_interval": 100,
}
CONTINUOUS = {"env": "Pendulum-v1", "agent": "acer_continuous", "preset": "classic_continuous"}
# Episodes of a few steps.
SHORT = {**CONTINUOUS, "env": "tests.learning.memory:Aim-v0"}
SHORT |= {"normalize_observations": False, "trajectories_per_update": 0}


def settings_of(**given: Any) -> Any:
    return make_settings(SMALL | given)


# Acting


def test_the_state_is_reset_after_a_masked_row_and_never_at_a_lost_life() -> None:
    """Here a state counts the rows of its episode, including the masked one."""
    seen: list[list[float]] = []

    def counting(observation: np.ndarray, seed: np.ndarray, state: np.ndarray, legal: None) -> tuple[np.ndarray, ...]:
        seen.append(state[:, 0].tolist())
        action, behaviour, _ = act(observation, seed, state)
        return action, behaviour, state + 1

    scripts = [
        [Row(), Row(1.0, "life"), Row(), Row(1.0, "over"), Row(), Row(), Row()],
        [Row(), Row(0.0, "cut"), Row(), Row(), Row(), Row(), Row(1.0, "over")],
    ]
    replay = TrajectoryReplay(SPEC, 2, 40, 4, 0, state_size=1, burn_in=2)
    collector = collector_of(ScriptedEnvironment(scripts), counting, replay, seed=0)
    collector.collect(4)
    first = latest(replay)
    collector.collect(4)
    assert [row[0] for row in seen] == [0, 1, 2, 3, 4, 0, 1, 2]
    assert [row[1] for row in seen] == [0, 1, 2, 0, 1, 2, 3, 4]
    assert first.memory.state[:, 0].tolist() == [0, 0]
    assert first.memory.carry.tolist() == [[True] * 5, [True, True, True, False, True]]
    rows = latest(replay)
    assert rows.memory.state[:, 0].tolist() == [4, 1]
    assert rows.memory.carry.tolist() == [[True, False, True, True, True], [True] * 5]
    collector.collect(4)
    drawn = sample(replay)  # of the only two starts followed by 2 + 4 rows
    assert drawn.memory.carry.shape == (2, 7)
    assert drawn.memory.state[0, 0] in (0, 4)


def test_a_resumed_actor_begins_with_a_zero_state(tmp_path: Path) -> None:
    def counting(observation: np.ndarray, seed: np.ndarray, state: np.ndarray, legal: None) -> tuple[np.ndarray, ...]:
        action, behaviour, _ = act(observation, seed, state)
        return action, behaviour, state + 1

    before = TrajectoryReplay(SPEC, 1, 40, 4, 0, state_size=1, burn_in=2)
    collector_of(ScriptedEnvironment([[]]), counting, before, 0).collect(4)
    after = TrajectoryReplay(SPEC, 1, 40, 4, 0, state_size=1, burn_in=2)
    after.restore(tmp_path, before.save(tmp_path))
    collector_of(ScriptedEnvironment([[]]), counting, after, 0).collect(4)
    assert latest(after).memory.state.tolist() == [[0]]
    window = sample(after)  # 4 rows, the seam, then the first of the new episode
    assert window.memory.carry.tolist() == [[True, True, True, True, True, False, True]]
    assert window.mask.tolist() == [[True, True, False, True]]


@pytest.mark.parametrize("burn_in", first_in_core([3, 0]))
@pytest.mark.parametrize(
    ("given", "head"), first_in_core([({}, "policy"), (SHORT, "mean"), ({**SHORT, "shared_torso": False}, "mean")])
)
def test_what_acting_recorded_is_what_the_update_computes(given: dict[str, Any], head: str, burn_in: int) -> None:
    """φ of the behaviour policy, row by row across episodes, equals φ of whole windows from the stored states."""
    settings = settings_of(burn_in=burn_in, num_envs=3, **given)
    env = envs.make(settings.env, 3, 0)
    agent, replay = make_agent(settings, env.spec), make_replay(settings, env.spec)
    kernel = agent.network.heads.get_layer(head).kernel
    kernel.assign(1000 * kernel)
    collector = collector_of(env, agent.act, replay, seed=0)
    for _ in range(12):
        collector.collect(5)
    env.close()
    windows = [latest(replay), *(sample(replay) for _ in range(20))]
    inner = [~window.memory.carry[:, -5:] for window in windows]
    assert any(cleared.any() for cleared in inner)
    for window in windows:
        planes = agent.network.planes(tf.constant(window.observation), tf.constant(window.age))
        statistics, *_ = agent.network.windows(*agent.network.burn_in(planes, window.memory, 6))
        np.testing.assert_allclose(statistics[:, :-1], window.behaviour, rtol=1e-4, atol=1e-4)
    assert windows[1].behaviour.std() > 0.01


# Checkpoints


def test_stored_states_come_back_from_a_checkpoint(tmp_path: Path) -> None:
    settings = settings_of()
    env = envs.make(settings.env, 2, 0)
    agent, replay = make_agent(settings, env.spec), make_replay(settings, env.spec)
    collector, checkpoints = collector_of(env, agent.act, replay, seed=0), Checkpoints(tmp_path)
    for count in range(1, 31):  # past the ring's end
        collector.collect(5)
        if count % 10 == 0:
            checkpoints.save(Snapshot({}, {}), replay, count)
    env.close()
    restored = make_replay(settings, env.spec)
    Checkpoints(tmp_path).restore(restored)
    check_valid(restored)
    for _ in range(10):
        for ours, expected in zip(
            optree.tree_leaves(sample(restored)), optree.tree_leaves(sample(replay)), strict=True
        ):
            np.testing.assert_array_equal(ours, expected)
    assert np.abs(sample(replay).memory.state).min(axis=1).any()
    other = make_replay(settings_of(lstm_units=0), env.spec)
    with pytest.raises(CheckpointError, match="state_size is 512 there, 0 here"):
        Checkpoints(shutil.copytree(tmp_path, tmp_path.with_name("copy"))).restore(other)


@pytest.mark.training
@pytest.mark.parametrize("given", [{}, CONTINUOUS])
def test_an_interrupted_run_continues(given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, iterate, left = settings_of(**given), Loop.iterate, [15]

    def interrupted(self: Loop) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        iterate(self)

    monkeypatch.setattr(Loop, "iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "run", checkpoint_minutes=0.0, quiet=True)
    export_run(tmp_path / "run", tmp_path / "halfway")
    (first, *_) = rows_of(tmp_path / "run")
    policy = load_policy(train(settings, tmp_path / "run", quiet=True))
    assert policy.state_size == load_policy(tmp_path / "halfway").state_size == SIZE
    rows = rows_of(tmp_path / "run")
    assert rows[0] == first, "its seconds too: it did not begin anew"
    assert int(rows[-1]["steps"]) >= 300
    assert int(rows[-1]["replay_updates"]) > 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["burn_in"] == 3
    result = evaluate(policy, episodes=3, num_envs=2)
    assert result.episodes == 3
    assert evaluate(policy, episodes=3, num_envs=2) == result


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
def test_a3c_trains_with_an_lstm_and_keeps_no_rows_for_a_burn_in(tmp_path: Path) -> None:
    a3c, trust_a3c = (settings_of(agent=agent, total_steps=100, burn_in=10) for agent in ("a3c", "trust_a3c"))
    assert replay_rows(a3c, envs.spec("CartPole-v1")) == replay_rows(trust_a3c, envs.spec("CartPole-v1")) == 2 * 5
    train(a3c, tmp_path / "run", quiet=True)
    assert rows_of(tmp_path / "run")[-1]["replay_updates"] == "0"


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
def test_each_environment_has_its_updates_from_its_state(tmp_path: Path) -> None:
    settings = settings_of(trajectories_per_update=1, num_envs=3, replay_ratio=2.0)
    env = envs.make(settings.env, 3, 0)
    agent, replay = make_agent(settings, env.spec), make_replay(settings, env.spec)
    collector = collector_of(env, agent.act, replay, seed=0)
    collector.collect(5)
    collector.collect(5)
    env.close()
    every = latest(replay)
    assert np.abs(np.diff(every.memory.state, axis=0)).max(axis=1).all()
    for number in range(3):
        one = replay.batch(np.array([True]), np.array([[number]])).trajectory
        for ours, of_all in zip(optree.tree_leaves(one), optree.tree_leaves(every), strict=True):
            np.testing.assert_array_equal(ours, of_all[None, number : number + 1])
    train(settings, tmp_path / "run", quiet=True)
    last = rows_of(tmp_path / "run")[-1]
    # Masked rows are not steps.
    assert int(last["on_policy_updates"]) % 3 == 0 and int(last["on_policy_updates"]) >= int(last["steps"]) / 5
    assert int(last["replay_updates"]) > int(last["on_policy_updates"])


# Policies


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path]:
    network = Network(envs.spec("CartPole-v1"), architecture="mlp", lstm_units=256, seed=1)
    head = network.heads.get_layer("policy")
    head.kernel.assign(100 * head.kernel)
    directory = tmp_path_factory.mktemp("recurrent") / "policy"
    export_policy(network, directory, make_metadata("CartPole-v1"))
    return network, directory


def games_by(network: Network, observations: np.ndarray) -> list[np.ndarray]:
    """φ [N, A] of rows [R, N, 4] of one episode each."""
    state, found = tf.zeros([observations.shape[1], SIZE]), []
    for observation in observations:
        probabilities, _, state = network(tf.constant(observation), state)
        found.append(probabilities.numpy())
    return found


def test_an_exported_policy_carries_its_state_for_any_batch_size(exported: tuple[Network, Path]) -> None:
    network, directory = exported
    policy = load_policy(directory)
    assert policy.metadata["state_size"] == policy.state_size == SIZE
    for count in (1, 3):
        observations = np.random.default_rng(count).normal(size=(6, count, 4)).astype(np.float32)
        state = policy.initial_state(count)
        assert (state.shape, state.dtype, state.any()) == ((count, SIZE), np.float32, False)
        for observation, expected in zip(observations, games_by(network, observations), strict=True):
            answer = policy.answer(observation, state)
            np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
            state = answer["state"]
        assert set(answer) == {"action", "greedy_action", "probabilities", "q", "state"}


def test_a_missing_or_misshapen_state_is_refused(exported: tuple[Network, Path]) -> None:
    policy, observation = load_policy(exported[1]), np.zeros((2, 4), np.float32)
    for call in (policy, policy.answer, policy.probabilities, policy.q):
        with pytest.raises(ValueError, match=r"\(2, 512\).*none.*initial_state"):
            call(observation)
    with pytest.raises(ValueError, match=r"\(2, 512\).*\(1, 512\)"):
        policy.answer(observation, policy.initial_state(1))


def test_a_policy_whose_metadata_do_not_match_its_state_is_refused(
    exported: tuple[Network, Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(exported[1], tmp_path / "policy"))
    metadata = json.loads((copy / "metadata.json").read_text())
    (copy / "metadata.json").write_text(json.dumps(metadata | {"state_size": 0}))
    with pytest.raises(PolicyError, match="state.*metadata.json"):
        load_policy(copy)


@pytest.mark.parametrize(("observations", "states"), [(1, 3), (3, 1)])
def test_a_raw_client_needs_as_many_states_as_observations(
    observations: int, states: int, exported: tuple[Network, Path]
) -> None:
    signature = tf.saved_model.load(str(exported[1])).signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="states"):
        signature(observation=tf.zeros((observations, 4)), state=tf.zeros((states, SIZE)))


def test_a_feed_forward_policy_has_no_state(tmp_path: Path) -> None:
    export_policy(Network(envs.spec("CartPole-v1"), architecture="mlp"), tmp_path / "p", make_metadata("CartPole-v1"))
    policy, observation = load_policy(tmp_path / "p"), np.zeros((3, 4), np.float32)
    assert policy.metadata["state_size"] == 0
    assert policy.initial_state(3).shape == (3, 0)
    assert set(policy.answer(observation, policy.initial_state(3))) == set(policy.answer(observation))
    assert "state" not in policy.answer(observation)


WITHOUT_ACER_TF = """
import sys
sys.modules["acer_tf"] = None  # any import of it now fails
import numpy as np, tensorflow as tf
signatures = tf.saved_model.load(sys.argv[1]).signatures
observations, found = np.load(sys.argv[2]), []
state = signatures["initial_state"](count=tf.constant(3))["state"]
for observation in observations:
    answer = signatures["serving_default"](observation=tf.constant(observation), state=state)
    state = answer["state"]
    found.append(answer["probabilities"].numpy())
np.save(sys.argv[3], found)
"""


@pytest.mark.process
def test_tensorflow_alone_runs_an_episode_with_it(exported: tuple[Network, Path], tmp_path: Path) -> None:
    network, directory = exported
    observations = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    np.save(tmp_path / "rows.npy", observations)
    command = [sys.executable, "-c", WITHOUT_ACER_TF, str(directory), "rows.npy", "found.npy"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = np.load(tmp_path / "found.npy", allow_pickle=False)
    np.testing.assert_allclose(found, games_by(network, observations), atol=1e-5)


def test_evaluation_begins_each_episode_with_the_initial_state(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    class Counting(test_evaluation.FakePolicy):
        def initial_state(self, count: int) -> np.ndarray:
            return np.zeros((count, 1), np.float32)

        def answer(self, observation: np.ndarray, state: np.ndarray, action_mask: None) -> dict[str, np.ndarray]:
            seen.append(state[:, 0])
            return super().answer(observation) | {"state": state + 1}

    monkeypatch.setattr(evaluation.envs, "make", lambda *_, **__: test_evaluation.ScriptedEnvironment([2, 3]))
    evaluate(Counting("Any-v0"), episodes=4, num_envs=2)
    # Episodes of 2 and 3 steps, in which lives are lost, each followed by its masked row.
    assert [row[0] for row in seen[:7]] == [0, 1, 2, 0, 1, 2, 0]
    assert [row[1] for row in seen[:7]] == [0, 1, 2, 3, 0, 1, 2]


# What is refused, and what is counted


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"agent": "dqn", "preset": "dqn"}, "--lstm_units=256: --agent .*dqn"),
        ({"replay_priority": "rank"}, "--replay_priority=rank: .*--lstm_units=256"),
        ({"burn_in": -1}, "--burn_in=-1"),
        ({"replay_capacity": 12, "replay_start": 10}, "--replay_capacity=12: .*--unroll_length=5 .*--burn_in"),
    ],
)
def test_settings_that_recurrent_networks_do_not_support_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=f"^{complaint}"):
        settings_of(**given)


@pytest.mark.parametrize(("given", "lstms"), [({}, 1), (CONTINUOUS, 1), ({**CONTINUOUS, "shared_torso": False}, 2)])
def test_the_replay_counts_its_states(given: dict[str, Any], lstms: int) -> None:
    plain, recurrent = settings_of(**given, lstm_units=0), settings_of(**given)
    spec = envs.spec(plain.env)
    states = replay_bytes(recurrent, spec, 60) - replay_bytes(plain, spec, 60)
    assert states == make_replay(recurrent, spec)._segments._ring.nbytes == 4 * 2 * SIZE * lstms * (60 // 5 + 1)


@pytest.mark.parametrize("gigabytes", [1.6, 4.0])
def test_a_suggested_capacity_fits_with_its_states(gigabytes: float) -> None:
    spec, available = envs.spec("CartPole-v1"), int(gigabytes * 1e9)
    with pytest.raises(SettingsError, match=r"at most --replay_capacity=\d+ fits") as refused:
        require_memory(settings_of(replay_capacity=50_000_000), spec, available)
    fits = int(str(refused.value).split("at most --replay_capacity=")[1].split()[0])
    require_memory(settings_of(replay_capacity=fits), spec, available)
    with pytest.raises(SettingsError):
        require_memory(settings_of(replay_capacity=fits + 2 * 5), spec, available)


def test_a_file_holds_the_states_too(tmp_path: Path) -> None:
    spec = envs.spec("CartPole-v1")
    replay = make_replay(settings_of(), spec, tmp_path / "replay")
    ring = replay._segments._ring
    assert isinstance(ring.base, mmap.mmap)
    world = World(spec, 2, seed=0)
    replay.reset(*world.first())
    replay.append(world.unroll(5, np.full((2, SIZE), 7, np.float32)))
    assert (ring[0] == 7).all()
    with pytest.raises(SettingsError, match=r"--replay_file.* 89\.5 GB"):
        sizes = {"num_envs": 1000, "replay_capacity": 200_000}
        make_replay(settings_of(**sizes), spec, tmp_path / "missing" / "replay")
