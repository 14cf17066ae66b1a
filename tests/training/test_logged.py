"""Logged episodes in the replay of a new run: `train(..., replay_from=episodes)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import acer_tf
from acer_tf import envs
from acer_tf.errors import RunFolderError, SettingsError
from acer_tf.replay import TrajectoryReplay
from acer_tf.replay.ring import is_shown
from acer_tf.settings import Settings, make_settings
from acer_tf.training import run
from acer_tf.training.actor import Actor, Request
from acer_tf.training.build import make_replay
from acer_tf.training.logged import Episode, Log
from acer_tf.training.loop import Loop
from acer_tf.types import EnvironmentSpec, PerLeaf, TimeStep, leaves_of, map_leaves
from tests.envs.test_masks import Masked
from tests.training.scripted import LightAgent, collector_of, rows_of, small_settings, timeless, use_light_agents

N, LENGTH = 3, 5


class Recorded:
    """An environment and a policy of random actions, which keep all that passes between them."""

    def __init__(self, env: Any, state_size: int = 0) -> None:
        self._env, self.spec, self.num_envs, self.pauses = env, env.spec, env.num_envs, env.pauses
        self._state_size = state_size
        self.steps: list[TimeStep] = []
        self.actions: list[tuple[np.ndarray, np.ndarray]] = []

    def reset(self) -> TimeStep:
        self.steps.append(self._env.reset())
        return self.steps[-1]

    def step(self, action: np.ndarray) -> TimeStep:
        self.steps.append(self._env.step(action))
        return self.steps[-1]

    def close(self) -> None:
        self._env.close()

    def act(self, observation: PerLeaf, seed: Any, state: np.ndarray, legal: np.ndarray | None) -> Any:
        rng, size = np.random.default_rng(seed), self.spec.statistics_size
        if self.spec.continuous:
            mean = rng.uniform(-1, 1, (self.num_envs, size)).astype(np.float32)
            action, behaviour = (mean + rng.normal(size=mean.shape)).astype(np.float32), mean
        else:
            drawn = rng.random((self.num_envs, size)) * (1 if legal is None else legal)
            behaviour = (drawn / drawn.sum(axis=1, keepdims=True)).astype(np.float32)
            action = np.array([rng.choice(size, p=p / p.sum()) for p in behaviour.astype(np.float64)], np.int32)
        self.actions.append((action, behaviour))
        return action, behaviour, self.after(observation, state)

    def after(self, observation: PerLeaf, state: np.ndarray) -> np.ndarray:
        """A recurrent state that depends on all observations since the last zeros."""
        return (0.5 * state + np.mean(observation, axis=-1, keepdims=True)).astype(np.float32) if state.size else state

    def native(self, action: np.ndarray) -> np.ndarray:
        if not self.spec.continuous:
            return self.spec.native_action(action.astype(np.int64))
        low, high = np.array(self.spec.action_low), np.array(self.spec.action_high)
        return low + (action.astype(np.float64) + 1) / 2 * (high - low)

    def episodes(self) -> list[Episode]:
        """What happened, as a user would log it: environment after environment."""
        found = []
        for n in range(self.num_envs):
            seen: list[TimeStep] = []
            taken: list[tuple[Any, Any, TimeStep]] = []
            for now, acted, answer in zip(self.steps, self.actions, self.steps[1:], strict=False):
                if answer.mask[n]:
                    seen.append(now)
                    taken.append((*(each[n] for each in acted), answer))
                if taken and (answer.last[n] or answer is self.steps[-1]):
                    found.append(self._episode(n, [*seen, answer], taken))
                    seen, taken = [], []
        return found

    def _episode(self, n: int, seen: list[TimeStep], taken: list[Any]) -> Episode:
        actions, behaviour, answers = zip(*taken, strict=True)
        observations = (map_leaves(lambda leaf: leaf[n], step.observation) for step in seen)
        return Episode(
            observations=map_leaves(lambda *leaves: np.stack(leaves), *observations),
            actions=self.native(np.stack(actions)),
            rewards=[float(answer.reward[n]) for answer in answers],
            terminated=[answer.discount[n] == 0 for answer in answers],
            behaviour=np.stack(behaviour),
            action_masks=np.stack([step.legal[n] for step in seen]) if self.spec.action_masks else None,
        )


def settings_of(**given: Any) -> Settings:
    values = {"env": "World-v0", "num_envs": N, "unroll_length": LENGTH, "replay_start": 10, "replay_capacity": 400}
    return make_settings({"network": "mlp", "precision": "float32", **values, **given})


def filled(log: Log, settings: Settings, agent: LightAgent) -> TrajectoryReplay:
    replay = make_replay(settings, log.spec)
    collector = collector_of(SimpleNamespace(num_envs=log.num_envs), agent.act, replay, seed=0)
    loop = Loop(collector, agent, replay, settings)  # type: ignore[arg-type]
    loop.fill(log)
    assert collector.steps == collector.episodes == 0 and loop.take_diagnostics() == {}
    held = replay._gather("reward", np.arange(replay.rows - replay.stored, replay.rows))
    observed = np.concatenate(agent.rewards, axis=1)
    assert observed.shape[1] == log.rows and np.array_equal(observed[:, -held.shape[1] :], held)
    return replay


def contents(replay: TrajectoryReplay) -> dict[str, np.ndarray]:
    """All that a replay holds; nothing reads the actions and the behaviour of masked rows."""
    rows = np.arange(replay.rows - replay.stored, replay.rows)
    shown = np.append(rows, replay.rows)
    held = {name: replay._gather(name, shown if is_shown(name) else rows) for name in replay._ring}
    for name in ("action", "behaviour"):
        held[name][~held["mask"]] = 0
    starts, each = replay._segments.starts, np.arange(replay.num_envs)
    states = replay._segments.states(starts[:, None], each) if replay.state_size else starts
    return held | {"rows": np.array([replay.rows, replay.stored]), "segments": starts, "states": states}


def short(name: str, steps: int, **options: Any) -> Callable[[], gymnasium.Env]:
    return lambda: gymnasium.wrappers.TimeLimit(gymnasium.make(name, **options), steps)


class Leaves(gymnasium.Wrapper):
    """Dictionaries of two arrays, and actions that are arrays from 3 on."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        number = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.observation_space = gymnasium.spaces.Dict(a=number, b=gymnasium.spaces.Discrete(3))
        self.action_space = gymnasium.spaces.MultiDiscrete([2, 2], start=[3, 0])

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        return {"a": observation, "b": 2}, info

    def step(self, action: Any) -> Any:
        observation, *others = self.env.step(int(action[0]) - 3)
        return {"a": observation, "b": int(action[1])}, *others


CLASSIC, CONTINUOUS = {"preset": "classic"}, {"agent": "acer_continuous", "preset": "paper_continuous"}
WORLDS: dict[str, tuple[str, Callable[[], gymnasium.Env] | None, dict[str, Any]]] = {
    "discrete": ("CartPole-v1", None, CLASSIC),
    "truncated": ("CartPole-v1", short("CartPole-v1", 7), CLASSIC),
    "leaves": ("World-v0", Leaves, CLASSIC),
    "masks": ("World-v0", lambda: Masked(cut=True), CLASSIC),
    "continuous": ("Pendulum-v1", short("Pendulum-v1", 9), CONTINUOUS),
    "dqn": ("CartPole-v1", None, {"agent": "dqn", "preset": "ddqn_proportional"}),
    "prioritized": ("CartPole-v1", None, CLASSIC | {"replay_priority": "rank"}),
    "segments": ("CartPole-v1", None, CLASSIC | {"replay_segments_only": True}),
    "wrapped": ("CartPole-v1", None, CLASSIC | {"replay_capacity": 40}),
    "recurrent": ("CartPole-v1", None, CLASSIC | {"network": "mlp", "lstm_units": 256, "burn_in": 3}),
}
ATARI = {"env": "atari/Breakout", "network": "nature", "preset": "baselines"}


@pytest.mark.parametrize("world", WORLDS)
def test_a_run_s_own_rows_that_are_logged_leave_the_replay_that_they_had(world):
    name, factory, given = WORLDS[world]
    check_equal_replays(envs.make(name, N, 5, factory=factory), settings_of(**given))


def test_frames_and_lost_lives_of_atari_are_logged():
    recorded = check_equal_replays(envs.make("atari/Breakout", N, 5), settings_of(**ATARI), rows=300)
    discounts, lasts = (np.stack([getattr(step, name) for step in recorded.steps]) for name in ("discount", "last"))
    assert (discounts[~lasts] == 0).any(), "a life was lost, and the episode went on"


def check_equal_replays(env: Any, settings: Settings, rows: int = 60) -> Recorded:
    replay, recorded = make_replay(settings, env.spec), Recorded(env)
    collector = collector_of(recorded, recorded.act, replay, seed=1)
    while len(recorded.actions) < rows or not recorded.steps[-1].mask.all():  # no episode without a step is logged
        collector.collect(LENGTH)
    env.close()
    agent, rows = LightAgent(env.spec), replay.rows
    agent.act = lambda x, seed, state, legal=None: (None, None, recorded.after(x, state))  # type: ignore[method-assign]
    log = Log(recorded.episodes(), None, settings, env.spec)
    assert log.rows == rows and len(log._episodes) > N
    ours, theirs = contents(filled(log, settings, agent)), contents(replay)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert array.dtype == ours[name].dtype and np.array_equal(ours[name], array), name
    assert not theirs["mask"].all(), "an episode ended"
    assert not replay.state_size or theirs["states"].any()
    assert (len(theirs["segments"]) > 0) == (settings.replay_segments_only or settings.recurrent)
    learned = map_leaves(lambda *leaves: np.concatenate(leaves, axis=1), *agent.collected)  # their moments
    assert all(leaf.shape[1] == rows for leaf in leaves_of(learned))
    return recorded


def test_windows_with_frames_from_before_a_piece_are_not_drawn():
    one = Recorded(envs.make("atari/Breakout", 1, 5))
    given = ATARI | {"unroll_length": 4}
    collector_of(one, one.act, make_replay(settings_of(**given, num_envs=1), one.spec), seed=1).collect(41)
    true = {step.observation[0].tobytes() for step in one.steps}
    for values in ({"replay_priority": "proportional"}, {}, {"agent": "dqn", "preset": "dqn"}):
        settings = settings_of(**{**given, "num_envs": 2, **values})
        log = Log(one.episodes(), None, settings, one.spec)
        assert log.rows == 20
        replay = filled(log, settings, LightAgent(one.spec))
        assert replay._gather("age", np.zeros(1, int)).max() == 3, "the second piece begins within an episode"
        for _ in range(30):
            window = replay.batch(np.zeros(1, bool), np.array([[0, 1]])).trajectory
            for frames, ages in zip(window.observation[0], window.age[0], strict=True):
                for row, age in enumerate(ages):
                    stack = np.where(np.arange(3, -1, -1)[:, None, None] <= age, frames[row : row + 4], 0)
                    assert stack.astype(np.uint8).tobytes() in true


SPEC = EnvironmentSpec((1,), "float32", stack=1, num_actions=2)


def counted(*lengths: int, **given: Any) -> list[Episode]:
    """Episodes whose observations count on."""
    found, count = [], 0
    for length in lengths:
        seen = np.arange(count, count + length + 1, dtype=np.float32)[:, None]
        values = {"actions": np.zeros(length, int), "rewards": seen[:-1, 0], "terminated": True}
        found.append(Episode(seen, **{**values, "behaviour": np.full((length, 2), 0.5), **given}))
        count += length + 1
    return found


def log_of(spec: EnvironmentSpec = SPEC, behaviour: Any = None, values: Any = CLASSIC, **given: Any) -> Log:
    """Of N episodes of four steps."""
    return Log(counted(4, **{"behaviour": None, **given}) * N, behaviour, settings_of(**values), spec)


LENGTHS = [(50,), (7, 1, 1, 30, 2, 9), (1,) * 40, (4, 4, 4), (11, 11, 11), (1, 1, 1), (2, 90)]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_pieces_are_the_longest_of_one_length_and_keep_what_follows_what(lengths):
    log = Log(counted(*lengths), None, settings_of(**CLASSIC), SPEC)
    unroll = Actor(log, log.act_with(None), 0).unroll(Request(log.rows, 0, 0, 0))  # type: ignore[arg-type]
    assert unroll.mask[:, 0].all(), "no piece begins with a masked row"
    shown = unroll.observation[:, :, 0].astype(int)
    assert (np.diff(shown, axis=1) == 1).all(), "each row follows the one before"
    masked = np.cumsum(np.array(lengths) + 1) - 1
    ends, used = np.isin(shown[:, 1:], masked), shown[:, :-1]
    assert set(range(used.max())) - set(used.ravel()) <= set(masked), "between two pieces a masked row at most"
    np.testing.assert_array_equal(unroll.mask, ~np.isin(used, masked))
    np.testing.assert_array_equal(unroll.reward, np.where(unroll.mask, used, 0))
    np.testing.assert_array_equal(unroll.discount, ~(unroll.mask & ends))
    ends[:, -1] = True  # the new episodes of the run follow
    np.testing.assert_array_equal(unroll.last, unroll.mask & ends)

    def possible(rows: int) -> bool:
        position = 0
        for _ in range(N):
            position += (position in masked) + rows
        return position <= masked[-1]

    assert possible(log.rows) and not any(map(possible, range(log.rows + 1, sum(lengths) + 2)))


def test_an_episode_that_was_cut_is_bootstrapped_and_one_bool_is_of_the_last_step():
    flags = False, np.bool_(True), [False, True, False, False]
    discounts = [log_of(terminated=flag, behaviour="uniform")._episodes[0].discount.tolist() for flag in flags]
    assert discounts == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 1], [1, 0, 1, 1, 1]]


def test_the_first_row_after_the_log_is_a_truncation():
    settings, agent = settings_of(**CLASSIC), LightAgent(SPEC)
    replay = filled(Log(counted(20, 20, 20), None, settings, SPEC), settings, agent)
    before = replay.rows
    replay.reset(np.zeros((N, 1), np.float32), np.zeros(N, np.uint8))
    seam = {name: replay._gather(name, np.array([before]))[:, 0] for name in ("mask", "discount", "observation")}
    assert not seam["mask"].any() and (seam["discount"] == 1).all()
    assert seam["observation"].ravel().tolist() == [20, 41, 62], "V of the last observation of each"


MASKED = EnvironmentSpec((1,), "float32", stack=1, num_actions=2, action_masks=True)
VECTOR = EnvironmentSpec((1,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(4.0,))
STACKED = EnvironmentSpec((2, 1, 1), "uint8", stack=2, num_actions=2)


def test_an_estimate_stands_for_the_behaviour_that_is_not_known():
    assert (log_of(SPEC, "uniform")._episodes[0].behaviour == 0.5).all()
    seen = []

    def estimate(*given: np.ndarray) -> np.ndarray:
        seen.append([each.tolist() for each in given])
        return np.tile([0.25, 0.75], (4, 1))

    assert log_of(SPEC, estimate)._episodes[0].behaviour[:4].tolist() == [[0.25, 0.75]] * 4
    assert seen[0] == [[[0], [1], [2], [3]]]
    known = Log(counted(4) * N, estimate, settings_of(**CLASSIC), SPEC)
    assert (known._episodes[0].behaviour == 0.5).all(), "what is known is taken"
    masks = np.array([[1, 1], [1, 0], [1, 1], [1, 0], [0, 0]])
    rows = log_of(MASKED, "uniform", action_masks=masks)._episodes[0]
    assert rows.behaviour[:4].tolist() == [[0.5, 0.5], [1, 0], [0.5, 0.5], [1, 0]]
    assert rows.legal.tolist() == [*(masks[:4] == 1).tolist(), [True, True]]

    def over_valid(x: np.ndarray, legal: np.ndarray) -> np.ndarray:
        seen.append(legal.tolist())
        return legal / legal.sum(axis=1, keepdims=True)

    log_of(MASKED, over_valid, action_masks=masks)
    assert seen[-1] == (masks[:4] == 1).tolist()


def test_dqn_reads_no_behaviour():
    for given in ({}, {"behaviour": np.full(4, 0.5)}, {"behaviour": np.tile([0.0, 1.0], (4, 1))}):
        log = Log(counted(4, **given) * N, None, settings_of(agent="dqn"), SPEC)
        wanted = given["behaviour"] if np.ndim(given.get("behaviour")) == 2 else np.full((4, 2), 0.5)
        assert (log._episodes[0].behaviour[:4] == wanted).all()


def test_whole_numbers_may_be_floats_as_in_other_libraries_logs():
    log = log_of(SPEC, "uniform", actions=np.array([0.0, 1.0, 1.0, 0.0]), terminated=np.array([0.0, 0.0, 0.0, 1.0]))
    assert log._episodes[0].action[:4].tolist() == [0, 1, 1, 0] and log._episodes[0].discount[3] == 0


@pytest.mark.parametrize(("spec", "wanted"), [(SPEC, "policy.probabilities"), (VECTOR, "policy.answer")])
def test_a_policy_is_no_estimate_of_behaviour(spec, wanted):
    policy = SimpleNamespace(answer=None, __call__=None)
    with pytest.raises(SettingsError, match=wanted):
        Log([], policy, settings_of(**(CONTINUOUS if spec.continuous else CLASSIC)), spec)


def test_continuous_actions_are_scaled_from_the_environment_s_bounds():
    actions, means = np.array([[-2.0], [1.0], [4.0], [7.0]]), np.array([[0.1], [0.2], [0.3], [0.4]])
    log = Log(counted(4, actions=actions, behaviour=means) * N, None, settings_of(**CONTINUOUS), VECTOR)
    assert log._episodes[0].action[:4].ravel().tolist() == [-1, 0, 1, 2]
    assert log._episodes[0].behaviour.ravel().tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.0])


UNKNOWN, HALVES = {"estimate": "uniform"}, np.full((4, 2), 0.5)


@pytest.mark.parametrize(
    ("spec", "given", "message"),
    [
        (SPEC, {}, "episode 0: it has no behaviour, the probabilities of all actions.*behaviour=..."),
        (SPEC, {"behaviour": np.full(4, 0.5)}, "bias correction needs those of all 2"),
        (SPEC, {"behaviour": np.full((4, 3), 1 / 3)}, r"expected shape \(4, 2\), got \(4, 3\)"),
        (SPEC, {"behaviour": 0.8 * HALVES}, "whose sum is 1"),
        (SPEC, {"behaviour": np.tile([1.5, -0.5], (4, 1))}, "whose sum is 1"),
        (SPEC, {"behaviour": np.nan * HALVES}, "finite"),
        (SPEC, {"behaviour": np.tile([0.0, 1.0], (4, 1))}, "above 0 for the action that was chosen"),
        (SPEC, UNKNOWN | {"actions": np.full(4, 2)}, "2 is no action"),
        (SPEC, UNKNOWN | {"actions": np.full(4, 0.5)}, "actions, got float64"),
        (SPEC, UNKNOWN | {"actions": np.zeros(5, int)}, r"actions: expected shape \(4,\), got \(5,\)"),
        (SPEC, UNKNOWN | {"rewards": [0, 0, np.inf, 0]}, "finite float32 rewards"),
        (SPEC, UNKNOWN | {"rewards": []}, "no steps"),
        (SPEC, UNKNOWN | {"terminated": [True]}, r"terminated: expected shape \(4,\)"),
        (SPEC, UNKNOWN | {"terminated": None}, "terminated, got object"),
        (SPEC, UNKNOWN | {"action_masks": np.ones((5, 2), int)}, "action_masks: the environment gives none"),
        (MASKED, UNKNOWN | {"action_masks": np.zeros((5, 2), int)}, "each must allow an action"),
        (MASKED, {"action_masks": np.tile([1, 0], (5, 1)), "behaviour": HALVES}, "0 for those not valid"),
        (STACKED, UNKNOWN, r"expected shape \(5, 2, 1, 1\)"),
        (SPEC, {"estimate": "normal"}, "behaviour='normal': must be 'uniform', or a function"),
        (VECTOR, UNKNOWN, "behaviour='uniform': must be a function"),
        (VECTOR, {"actions": np.zeros((4, 1))}, "it has no behaviour, the means"),
        (SPEC, {"values": {"agent": "a3c", "preset": "classic"}}, "--replay_ratio=0.0"),
        (SPEC, UNKNOWN | {"values": CLASSIC | {"num_envs": 30}}, "12 steps are too few for --num_envs=30"),
    ],
)
def test_what_does_not_suit_is_named(spec, given, message):
    values = {"values": CONTINUOUS} if spec.continuous else {}
    others = {name: value for name, value in given.items() if name != "estimate"}
    with pytest.raises(SettingsError, match=message):
        if "behaviour" in others:
            Log(counted(4, **others) * N, None, settings_of(**CLASSIC), spec)
        else:
            log_of(spec, given.get("estimate"), **values, **others)


def test_no_episodes_and_leaves_or_frames_of_others_are_refused():
    def refused(message: str, episodes: list[Any], spec: EnvironmentSpec = SPEC) -> None:
        with pytest.raises(SettingsError, match=message):
            Log(episodes, "uniform", settings_of(**CLASSIC), spec)

    refused("0 steps are too few", [])
    refused("episode 1: ", [*counted(3), {"observations": 3}])
    refused("expected observations, got observations/x", [Episode({"x": np.zeros((2, 1))}, [0], [0.0], True)])
    stacks = np.array([[0, 5], [5, 6]], np.uint8)[..., None, None]
    Log([Episode(stacks, [0], [0.0], True)] * N, "uniform", settings_of(**CLASSIC), STACKED)
    for wrong in (stacks[::-1], np.maximum(stacks, 1)):
        refused("stacks of frames", [Episode(wrong, [0], [0.0], True)], STACKED)


def logged_cartpole(steps: int) -> list[Episode]:
    recorded = Recorded(envs.make("CartPole-v1", 2, 11))
    replay = make_replay(small_settings(network="mlp"), recorded.spec)
    collector_of(recorded, recorded.act, replay, seed=3).collect(steps)
    return recorded.episodes()


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
@pytest.mark.parametrize("kind", [{}, {"agent": "dqn"}, {"network": "mlp", "lstm_units": 256, "preset": "baselines"}])
def test_a_run_learns_from_the_log_at_once_and_resumes_without_it(kind, tmp_path):
    settings = small_settings(**kind, total_steps=300, log_interval=10, replay_start=60, replay_capacity=300, seed=2)
    episodes = logged_cartpole(100)

    def stop(row: Any, policy: Any) -> None:
        if row["steps"] > 150:
            raise InterruptedError

    acer_tf.train(settings, tmp_path / "whole", quiet=True, threads=1, replay_from=iter(episodes))
    first = rows_of(tmp_path / "whole")[0]
    assert int(first["steps"]) == 10 and int(first["stored_rows"]) == 100 + 1 + 5
    assert int(first["replay_updates"]) > 0
    record = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert record["replay_from"]["rows_per_environment"] == 100

    with pytest.raises(InterruptedError):
        acer_tf.train(settings, tmp_path / "cut", quiet=True, threads=1, replay_from=episodes, on_row=stop)
    acer_tf.train(settings, tmp_path / "cut", quiet=True, threads=1)
    *_, last = rows_of(tmp_path / "cut")
    more = int(last["stored_rows"]) - int(rows_of(tmp_path / "whole")[-1]["stored_rows"])
    assert more % settings.unroll_length == 1 and abs(more) < 20, "the seam of the resume; masked rows are no steps"
    before = timeless(tmp_path / "whole")[: len(timeless(tmp_path / "cut")) // 2 - 1]
    assert before == timeless(tmp_path / "cut")[: len(before)]


def test_a_run_that_began_without_a_log_takes_none_later(trained_cartpole):
    longer = small_settings(seed=3, total_steps=700)
    with pytest.raises(RunFolderError, match="replay_from"):
        acer_tf.train(longer, trained_cartpole, quiet=True, replay_from=counted(9))


def test_a_run_that_was_killed_before_its_first_checkpoint_needs_its_log_again(monkeypatch, tmp_path):
    use_light_agents(monkeypatch)
    settings, episodes = small_settings(network="mlp", total_steps=40), logged_cartpole(30)
    with monkeypatch.context() as patch:
        patch.setattr(run.Checkpoints, "save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            acer_tf.train(settings, tmp_path, quiet=True, replay_from=episodes)
    with pytest.raises(RunFolderError, match="replay_from"):
        acer_tf.train(settings, tmp_path, quiet=True)
    acer_tf.train(settings, tmp_path, quiet=True, replay_from=episodes)
    assert int(rows_of(tmp_path)[-1]["stored_rows"]) == 30 + 1 + 20
    longer = small_settings(network="mlp", total_steps=60)
    with pytest.raises(RunFolderError, match="replay_from.*give it again"):
        acer_tf.train(longer, tmp_path, quiet=True, repair="restart")
    assert not [*tmp_path.glob("*.damaged-*")]
    acer_tf.train(longer, tmp_path, quiet=True, replay_from=iter([]))  # has its rows, and reads none again


def test_bad_logs_are_refused_before_anything_is_written(tmp_path):
    for given in ({"replay_from": counted(3)}, {"replay_from": []}, {"behaviour": "uniform"}):
        with pytest.raises(SettingsError, match="replay_from"):
            acer_tf.train(small_settings(), tmp_path / "run", quiet=True, **given)
    with pytest.raises(SettingsError, match=r"replay_from: .*\[episode\]"):
        acer_tf.train(small_settings(), tmp_path / "run", quiet=True, replay_from=counted(3)[0])
    with pytest.raises(SettingsError, match="replay_from: must be episodes, got 5"):
        acer_tf.train(small_settings(), tmp_path / "run", quiet=True, replay_from=5)
    assert list(tmp_path.iterdir()) == []
    assert acer_tf.Episode is Episode
