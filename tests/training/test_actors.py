"""Actors, without a cluster: lag, order, what the replay sees of a lost actor, and how those on Ray are replaced."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import optree
import pytest

from acer_tf.errors import ClusterLost, EnvironmentFailure
from acer_tf.replay import TrajectoryReplay
from acer_tf.training import ray_driver
from acer_tf.training.actor import Actor, LocalActors, Request
from acer_tf.training.collector import Collector
from acer_tf.training.ray_driver import Driver
from tests.replay.checks import check_valid
from tests.replay.twin import latest
from tests.training.scripted import Row, ScriptedEnvironment, act, collector_of, replay_of


def test_the_lag_is_one_iteration():
    """The k-th unroll is collected with the weights after k - 2 iterations' updates, the first two with the first."""
    updates, seen = 0, []

    def policy(observation, seed, state, legal):
        seen.append(updates)
        return act(observation, seed, state)

    # The last unroll that is learned from is the last that is collected.
    for lagging_until, expected in ((0, [0, 1, 2, 3, 4]), (14, [0, 0, 1, 2, 3]), (15, [0, 0, 1, 2, 3])):
        seen.clear()
        collector = collector_of(ScriptedEnvironment([[]]), policy, replay_of(1), 0, lagging_until=lagging_until)
        for done in range(5):
            updates = done
            collector.collect(3)
        assert seen[::3] == expected
        assert collector.steps == 15


def test_rows_are_the_same_with_and_without_a_lag_if_the_policy_is_fixed():
    scripts = [[Row(1.0), Row(2.0, "over"), Row(3.0), Row(4.0, "cut")], [Row(), Row(), Row(5.0, "life")]]
    found = []
    for lagging_until in (0, 100):
        replay = replay_of(2, unroll_length=12)
        collector = collector_of(ScriptedEnvironment(scripts), act, replay, 3, lagging_until=lagging_until)
        for _ in range(3):
            collector.collect(4)
        check_valid(replay)
        found.append((optree.tree_leaves(latest(replay)), collector.state()))
    for without, with_lag in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(without, with_lag)
    assert found[0][1] == found[1][1]


def test_the_draws_of_a_run_of_more_rows_than_32_bits_count():
    seeds = []

    def policy(observation, seed, state, legal):
        seeds.append(seed.tolist())
        return act(observation, seed, state)

    Actor(ScriptedEnvironment([[]]), policy, 7).unroll(Request(3, 2**31 - 2, 0, 0))
    assert seeds == [[7, 2**31 - 2], [7, 2**31 - 1], [7, 0]]


def test_with_a_lag_a_failure_waits_until_the_unroll_before_has_been_learned_from():
    def policy(observation, seed, state, legal):
        if seed[1] >= 6:
            raise EnvironmentFailure("its program has ended")
        return act(observation, seed, state)

    collector = collector_of(ScriptedEnvironment([[]]), policy, replay_of(1), 0, lagging_until=100)
    for steps in (3, 6):
        collector.collect(3)
        assert collector.steps == steps
    with pytest.raises(EnvironmentFailure):
        collector.collect(3)
    assert collector.steps == 6


def test_several_actors_fill_the_replay_in_the_order_of_the_environments():
    scripts = [[Row(10.0 * env + n) for n in range(6)] for env in range(4)]
    replay = replay_of(4, unroll_length=6)
    groups = [Actor(ScriptedEnvironment(scripts[first : first + 2]), act, 0) for first in (0, 2)]
    Collector(LocalActors(groups), replay).collect(6)
    assert latest(replay).reward.tolist() == [[10.0 * env + n for n in range(6)] for env in range(4)]


@pytest.mark.parametrize("end", ["", "cut", "over", "life"])
def test_an_actor_in_the_place_of_another_truncates_its_episodes(end: str):
    """Environment 1's actor is lost after two rows; environment 0 is not affected."""
    replay = replay_of(2, unroll_length=6)
    first, lost = (Actor(ScriptedEnvironment([[Row(1.0), Row(2.0, end)]]), act, 0) for _ in range(2))
    actors = LocalActors([first, lost])
    collector = Collector(actors, replay)
    collector.collect(2)
    actors._actors = [first, Actor(ScriptedEnvironment([[Row(7.0)]], 70.0), act, 0, truncates=np.zeros((1, 0)))]
    collector.collect(4)
    rows = latest(replay)
    over = end in ("cut", "over")
    assert rows.mask.tolist() == [[True, True, not over, True, True, True], [True, True, False, True, True, True]]
    assert rows.discount[1].tolist() == [1, 0 if end in ("over", "life") else 1, 1, 1, 1, 1]
    assert rows.reward[1].tolist() == [1, 2, 0, 7, 0, 0]
    assert rows.observation[1, :, 1].tolist() == [0, 1, 2, 70, 71, 72, 73]
    assert collector.steps == int(rows.mask.sum())
    assert list(collector.recent_returns) == ([3.0, 3.0] if over else [])
    assert collector._return.tolist() == [3.0 if not over else 0.0, 7.0]  # the lost episode's rewards do not count
    assert collector._length.tolist() == [6 if not over else 3, 3]
    check_valid(replay)


def test_an_actor_in_the_place_of_another_keeps_the_recurrent_state_for_the_bootstrap():
    def counting(observation, seed, state, legal):
        action, behaviour, _ = act(observation, seed, state)
        return action, behaviour, state + 1

    left = np.full((1, 1), 9, np.float32)
    replay = TrajectoryReplay(ScriptedEnvironment([[]]).spec, 1, 40, 4, 0, state_size=1, burn_in=2)
    collector = collector_of(ScriptedEnvironment([[]]), counting, replay, 0)
    collector.collect(4)
    collector._actors = LocalActors([Actor(ScriptedEnvironment([[]]), counting, 0, 1, left)])
    collector.collect(4)
    memory = latest(replay).memory
    assert memory.state.tolist() == [[9]]
    assert memory.carry.tolist() == [[True, False, True, True, True]]  # zeros from the first new observation on


def test_all_are_closed_though_one_fails():
    closed = []

    def close(name):
        closed.append(name)
        if name == "second":
            raise ConnectionError(name)

    names = ("first", "second", "third")
    with pytest.raises(ConnectionError):
        LocalActors([SimpleNamespace(close=partial(close, name)) for name in names]).close()
    assert sorted(closed) == sorted(names)


# Actors on Ray, whose cluster is a stand-in


class RayError(Exception):
    pass


class GetTimeoutError(RayError):
    pass


def error(raised):
    raise raised


def driver_on(ray, count, **attributes):
    """A driver of `count` actors on `ray`, a stand-in."""
    driver = Driver.__new__(Driver)
    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=OSError, GetTimeoutError=GetTimeoutError)
    driver._ray = SimpleNamespace(exceptions=exceptions, **{"put": lambda weights: weights, **ray})
    driver._actors = [handle_of(group) for group in range(count)]
    driver._places, driver._states, driver._arguments = list(range(count)), [None] * count, ()
    driver._timeout, driver.notes = 7.0, []
    driver._kill = driver._wait = lambda *_: None
    vars(driver).update(attributes)
    return driver


def handle_of(group):
    """A handle of an actor, whose methods give the group's number."""
    return SimpleNamespace(**{name: SimpleNamespace(remote=lambda *_: group) for name in ("place", "unroll")})


REQUEST = Request(3, 0, 40, 40)


def test_an_error_of_ray_itself_is_the_loss_of_its_cluster():
    driver = driver_on({"put": lambda _: error(RayError("the object store is full"))}, 0)
    with pytest.raises(ClusterLost, match="the object store is full"):
        driver.unroll([], REQUEST)


def test_a_cluster_whose_servers_outlive_its_last_node_is_lost(monkeypatch):
    monkeypatch.setattr(ray_driver, "require_cluster", lambda address: None)
    monkeypatch.setattr(ray_driver, "_CHECK_SECONDS", 0.0)
    alive = [True, True, False]
    ray = {"wait": lambda missing, **_: ([], missing), "nodes": lambda: [{"Alive": False}, {"Alive": alive.pop(0)}]}
    driver = driver_on(ray, 1, _begun=[0], _address="here", _checked=0.0, alive=lambda: None)
    del driver._wait
    with pytest.raises(ClusterLost, match="none of its nodes is alive"):
        driver._gather({})
    assert not alive


@pytest.mark.parametrize(
    ("raised", "placed", "why"),
    [
        (RayError("its node died"), True, r"is gone \(RayError: its node died\)"),
        (GetTimeoutError(), True, "gave no unroll for 7 s"),
        (GetTimeoutError(), False, "did not start for 300 s"),
    ],
)
def test_an_actor_that_fails_again_and_again_is_the_loss_of_the_cluster(raised, placed, why, monkeypatch):
    monkeypatch.setattr(ray_driver.time, "sleep", lambda _: None)
    replaced = []
    ray = {"get": lambda *_, **__: error(raised), "wait": lambda places, timeout: (places if placed else [], [])}
    driver = driver_on(ray, 1, _replace=lambda *of: replaced.append(of))
    with pytest.raises(ClusterLost, match=f"^actor 0 {why}, and actors were replaced 4 times at this unroll$"):
        driver.unroll([], REQUEST)
    assert replaced == [(0, attempt) for attempt in range(4)]
    assert len(driver.notes) == 4 and driver.notes[0].endswith(": another takes its place, with new episodes")


def test_an_actor_on_ray_leaves_its_recurrent_state_to_the_one_that_takes_its_place(monkeypatch):
    monkeypatch.setattr(ray_driver.time, "sleep", lambda _: None)

    def counting(observation, seed, state, legal):
        return *act(observation, seed, state)[:2], state + 1

    local = [Actor(ScriptedEnvironment([[]]), counting, 0, 1) for _ in range(2)]
    made, dead = [], set()

    def get(group, timeout):
        return error(RayError()) if group in dead else local[group].unroll(Request(3, 0, 0, 0))

    def remote(steps, group, truncates):
        made.append((steps, group, truncates.tolist()))
        if len(made) == 2:
            dead.clear()
        return handle_of(group)

    driver = driver_on({"get": get}, 2, _remote=SimpleNamespace(remote=remote))
    driver.unroll([], REQUEST)
    dead.add(1)
    assert driver.unroll([], REQUEST).next_state.tolist() == [[6], [6]]
    # Of the run's 40 steps, so that each has episodes of its own, and after the last unroll's three rows.
    assert made == [(41, 1, [[3]]), (42, 1, [[3]])]
    assert len(driver.notes) == 2
