import json

import numpy as np
import pytest

from acer_tf.errors import NonFiniteError
from acer_tf.replay import TrajectoryReplay
from tests.replay.checks import check_valid
from tests.replay.twin import latest
from tests.training.scripted import SPEC, Row, ScriptedEnvironment, act, collector_of, replay_of, same

LIFE = Row(1.0, "life")


def collector_on(scripts, replay=None, seed=0, first=0.0, policy=act):
    env = ScriptedEnvironment(scripts, first)
    return collector_of(env, policy, replay or replay_of(len(scripts)), seed)


def test_replay_receives_every_row_as_the_environments_answered_it():
    seen = []

    def policy(observation, seed, state, legal):
        action, _, _ = act(observation, seed, state)
        behaviour = np.random.default_rng(seed).dirichlet(np.ones(3), len(observation)).astype(np.float32)
        seen.append((observation, action, behaviour))
        return action, behaviour, state

    replay = replay_of(2, unroll_length=6)
    scripts = [[Row(1.0), Row(2.0, "life"), Row(3.0, "over"), Row(4.0)], [Row(5.0, "cut"), Row(6.0), Row(7.0, "over")]]
    env = ScriptedEnvironment(scripts)
    collector_of(env, policy, replay, 0).collect(6)
    rows = latest(replay)
    assert rows.reward.tolist() == [[1, 2, 3, 0, 4, 0], [5, 0, 6, 7, 0, 0]]
    assert rows.discount.tolist() == [[1, 0, 0, 1, 1, 1], [1, 1, 1, 0, 1, 1]]
    assert rows.mask.tolist() == [[True, True, True, False, True, True], [True, False, True, True, False, True]]
    assert rows.observation.tolist() == [[[i, n] for n in range(7)] for i in range(2)]
    for t, (observation, action, behaviour) in enumerate(seen):
        assert observation.tolist() == [[0, t], [1, t]]
        assert rows.action[:, t].tolist() == action.tolist()
        assert rows.behaviour[:, t].tolist() == behaviour.tolist()
    assert [a.tolist() for a in env.actions] == rows.action.T.tolist()
    check_valid(replay)


def test_returns_and_lengths_are_of_whole_episodes_without_masked_rows():
    """Environment 0 has episodes of 3 and 2 steps, environment 1 one of 4; a lost life ends none."""
    scripts = [
        [Row(1.0), LIFE, Row(1.5, "over"), Row(10.0), Row(-4.0, "cut"), Row(100.0)],
        [Row(0.5), LIFE, LIFE, Row(0.0, "over"), Row(1000.0)],
    ]
    collector = collector_on(scripts)
    for _ in range(7):  # episodes continue from one unroll to the next
        collector.collect(1)
    assert list(collector.recent_returns) == [3.5, 2.5, 6.0]
    assert list(collector.recent_lengths) == [3, 4, 2]
    assert collector.episodes == 3
    assert collector.steps == 2 * 7 - 3
    collector.collect(1)
    assert collector.steps == 2 * 8 - 3
    assert collector.take_returns() == [3.5, 2.5, 6.0]
    assert collector.take_returns() == []


def test_the_recent_episodes_are_the_last_hundred():
    collector = collector_on([[Row(float(n), "over") for n in range(150)]])
    collector.collect(299)
    assert list(collector.recent_returns) == [float(n) for n in range(50, 150)]
    assert len(collector.recent_lengths) == 100
    assert collector.episodes == collector.steps == 150
    assert len(collector.take_returns()) == 150


def test_counters_are_restored_and_unfinished_episodes_are_not():
    collector = collector_on([[Row(2.0, "over"), Row(50.0), Row(50.0)]])
    collector.collect(4)
    state = json.loads(json.dumps(collector.state()))
    resumed = collector_on([[Row(3.0), Row(4.0, "over")]], collector._replay)
    resumed.restore(state)
    assert resumed.state() == collector.state()
    resumed.collect(3)
    assert list(resumed.recent_returns) == [2.0, 7.0]
    assert list(resumed.recent_lengths) == [1, 2]
    assert resumed.take_returns() == [2.0, 7.0]
    assert (resumed.episodes, resumed.steps) == (2, 3 + 2)


@pytest.mark.parametrize("end", ["", "cut", "over", "life"])
def test_a_resumed_run_separates_its_new_episodes_by_a_masked_row(end, tmp_path):
    before = replay_of(1, unroll_length=4)
    collector_on([[Row(1.0), Row(2.0, end)]], before).collect(2)
    state = before.save(tmp_path)
    after = replay_of(1, unroll_length=4, seed=9)
    after.restore(tmp_path, state)
    collector_on([[Row(8.0)]], after, first=70.0).collect(1)
    rows = latest(after)
    assert rows.reward.tolist() == [[1, 2, 0, 8]]
    assert rows.discount.tolist() == [[1, 0 if end in ("over", "life") else 1, 1, 1]]
    assert rows.mask.tolist() == [[True, True, False, True]]
    assert rows.observation[0, :, 1].tolist() == [0, 1, 2, 70, 71]
    check_valid(after)


def test_actions_depend_on_the_seed_and_the_row_alone():
    def rows(seed, unrolls):
        replay = replay_of(2, unroll_length=12)
        collector = collector_on([[Row(), Row(0, "over")], []], replay, seed)
        for unroll in unrolls:
            collector.collect(unroll)
        return latest(replay)

    assert same(rows(3, [12]), rows(3, [5, 1, 6]))
    assert not np.array_equal(rows(3, [12]).action, rows(4, [12]).action)
    seeds = []
    collector = collector_on(
        [[]], seed=7, policy=lambda o, seed, state, legal: (seeds.append(seed), act(o, seed, state))[1]
    )
    collector.collect(3)
    collector.collect(2)
    assert [s.tolist() for s in seeds] == [[7, n] for n in range(5)]
    assert {s.dtype for s in seeds} == {np.dtype(np.int32)}


@pytest.mark.parametrize("emptied", [True, False])
def test_rows_are_numbered_on_when_a_run_resumes_also_with_an_empty_replay(emptied):
    seeds = []

    def policy(observation, seed, state, legal):
        seeds.append(int(seed[1]))
        return act(observation, seed, state)

    collector = collector_on([[]], policy=policy)
    collector.collect(3)
    resumed = collector_on([[]], None if emptied else collector._replay, policy=policy)
    resumed.restore(json.loads(json.dumps(collector.state())))
    resumed.collect(2)
    resumed.collect(1)
    masked = 0 if emptied else 1
    assert seeds == [0, 1, 2, *(n + masked for n in (3, 4, 5))]
    again = collector_on([[]], policy=policy)
    again.restore(json.loads(json.dumps(resumed.state())))
    again.collect(1)
    assert seeds[-1] == 6 + masked


def test_each_unroll_is_a_segment():
    replay = TrajectoryReplay(SPEC, 1, 1000, 3, 0, segments_only=True)
    collector = collector_on([[]], replay)
    for _ in range(4):
        collector.collect(3)
    assert replay._segments.starts.tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_policy_that_is_not_finite_ends_the_unroll(value):
    broken = (np.zeros(1, np.int32), np.array([[0.5, value, 0.5]], np.float32), np.zeros((1, 0), np.float32))
    with pytest.raises(NonFiniteError, match=rf"^policy is {value}, at step 0$"):
        collector_on([[]], policy=lambda *_: broken).collect(1)
