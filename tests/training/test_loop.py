import collections
import json
import math
from types import SimpleNamespace

import numpy as np
import optree
import pytest

from acer_tf.errors import NonFiniteError
from acer_tf.replay import PrioritizedReplay
from acer_tf.training.build import derive_seed
from acer_tf.training.loop import Loop
from tests.replay.checks import priorities_of
from tests.replay.twin import latest, sample
from tests.training.scripted import SPEC, LightAgent, Row, ScriptedEnvironment, act, collector_of, replay_of, same


def settings_of(**given):
    usual = {"unroll_length": 4, "trajectories_per_update": 0, "on_policy_updates": True, "replay_poisson": True}
    return SimpleNamespace(**usual | {"replay_start": 0, "total_steps": 10_000, "seed": 0} | given)


def loop_of(
    ratio=0.0, start=0, unroll_length=4, capacity=1000, seed=0, agent=None, num_envs=2, on_policy=True, group=0, end=""
):
    """Environment e's reward in row n is 1000 e + n; each row that is not masked ends as `end` says."""
    replay = replay_of(num_envs, capacity, unroll_length)
    rows = [[Row(1000.0 * env + n, end) for n in range(500)] for env in range(num_envs)]
    collector = collector_of(ScriptedEnvironment(rows), act, replay, 0)
    settings = settings_of(
        unroll_length=unroll_length,
        trajectories_per_update=group,
        on_policy_updates=on_policy,
        replay_ratio=ratio,
        replay_start=start,
        seed=seed,
    )
    return Loop(collector, agent or LightAgent(SPEC), replay, settings)


def test_the_on_policy_batch_is_the_rows_just_collected():
    loop = loop_of(num_envs=3)
    for iteration in range(5):
        loop.iterate()
        batch = loop.agent.trajectories[-1]
        first = 4 * iteration
        assert batch.reward.tolist() == [[1000 * env + first + t for t in range(4)] for env in range(3)]
        assert batch.observation[1, :, 1].tolist() == list(range(first, first + 5))
        assert batch.mask.all()
    assert len(loop.agent.trajectories) == 5
    assert loop.updates == {"on_policy": 5, "replay": 0}


def test_rows_that_are_all_masked_make_no_update():
    """Each episode has one row here, and a masked one follows it, so that of two windows of one row one has nothing."""
    loop = loop_of(ratio=3.0, unroll_length=1, num_envs=1, capacity=50, end="over")
    for _ in range(200):
        loop.iterate()
    assert loop.agent.updates_per_call > 1
    assert all(trajectory.mask.all() for trajectory in loop.agent.trajectories)
    assert loop.updates["on_policy"] == 100
    assert 200 < loop.updates["replay"] < 400  # of about 600 that were drawn, half
    assert len(loop.agent.trajectories) == sum(loop.updates.values())


def test_the_replays_of_an_iteration_follow_a_poisson_law():
    loop = loop_of(ratio=1.5, unroll_length=1, capacity=50, num_envs=1)
    counts = []
    for _ in range(3000):
        before = loop.updates["replay"]
        loop.iterate()
        counts.append(loop.updates["replay"] - before)
    assert loop.updates["on_policy"] == 3000
    assert len(loop.agent.trajectories) == 3000 + sum(counts)
    frequency = collections.Counter(counts)
    for n in range(6):
        p = math.exp(-1.5) * 1.5**n / math.factorial(n)
        assert abs(frequency[n] / 3000 - p) < 5 * math.sqrt(p * (1 - p) / 3000), n
    # Independent from one iteration to the next.
    assert abs(np.corrcoef(counts[1:], counts[:-1])[0, 1]) < 5 / math.sqrt(3000)


def test_the_on_policy_update_comes_first_then_the_replays():
    loop = loop_of(ratio=3.0)
    for iteration in range(20):
        before = len(loop.agent.trajectories)
        loop.iterate()
        assert loop.agent.trajectories[before].reward[0, -1] == 4 * iteration + 3
    drawn = [t.reward[0, 0] for t in loop.agent.trajectories]
    assert len({r for r in drawn if r % 4}) > 10  # replayed windows start anywhere


def test_groups_of_environments_take_turns_each_with_its_updates_and_replay():
    loop = loop_of(ratio=3.0, num_envs=6, group=2)
    for iteration in range(30):
        before = len(loop.agent.trajectories)
        loop.iterate()
        rewards = [t.reward for t in loop.agent.trajectories[before:]]
        environments = [(reward[:, 0] // 1000).tolist() for reward in rewards]
        assert environments == sorted(environments)
        for group in ([0, 1], [2, 3], [4, 5]):
            first = environments.index(group)
            assert rewards[first].tolist() == [[1000 * env + 4 * iteration + t for t in range(4)] for env in group]
        assert {tuple(pair) for pair in environments} == {(0, 1), (2, 3), (4, 5)}
    assert loop.updates["on_policy"] == 90
    assert 3 * 90 - 5 * math.sqrt(3 * 90) < loop.updates["replay"] < 3 * 90 + 5 * math.sqrt(3 * 90)
    drawn = [t.reward for t in loop.agent.trajectories]
    assert len({reward[0, 0] for reward in drawn if reward[0, 0] % 4}) > 50  # windows start anywhere
    assert [rows[:, :, 1].tolist() for rows in loop.agent.collected] == [  # every row once
        [[4 * iteration + t for t in range(4)]] * 6 for iteration in range(30)
    ]


@pytest.mark.parametrize("group", [1, 3, 0])
def test_the_agent_is_prepared_for_the_shapes_that_it_will_see(group):
    loop = loop_of(ratio=3.0, num_envs=3, group=group)
    blank = [(x.shape[1:], x.dtype) for x in optree.tree_leaves(loop.agent.blank.trajectory)]
    assert not loop.agent.trajectories
    loop.iterate()
    for batch in loop.agent.trajectories:
        assert [(x.shape, x.dtype) for x in optree.tree_leaves(batch)] == blank


def test_one_group_of_all_is_no_group():
    loops = [loop_of(ratio=3.0, num_envs=3, group=group) for group in (0, 3)]
    for loop in loops:
        for _ in range(10):
            loop.iterate()
    a, b = (loop.agent.trajectories for loop in loops)
    assert len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("start", "iterations"), [(0, 1), (1, 1), (5, 1), (6, 2), (20, 4), (21, 5), (100, 20)])
def test_replay_starts_with_the_first_iteration_that_reaches_the_configured_fill(start, iterations):
    loop = loop_of(ratio=50.0, start=start, unroll_length=5, capacity=100)
    while not loop.updates["replay"]:
        loop.iterate()
    assert loop.updates["on_policy"] == iterations


def test_replay_never_starts_where_the_fill_is_never_reached():
    loop = loop_of(ratio=50.0, start=101, unroll_length=5, capacity=100)
    for _ in range(60):
        loop.iterate()
    assert loop.updates["replay"] == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_first_diagnostic_that_is_not_finite_stops_the_loop_by_name(value):
    def diagnostics(update):
        return {
            "value": 1.0,
            "q_retrace": value if update == 3 else 2.0,
            "critic_loss": math.nan if update > 2 else 0.0,
        }

    loop = loop_of(agent=LightAgent(SPEC, diagnostics))
    loop.iterate()
    loop.iterate()
    with pytest.raises(NonFiniteError, match=rf"^q_retrace is {value} in on_policy update 3, at step 24$"):
        loop.iterate()


def test_a_replayed_update_stops_the_loop_too():
    agent = LightAgent(SPEC, lambda update: {"critic_loss": math.nan if update == 2 else 0.0})
    loop = loop_of(ratio=100.0, agent=agent)
    with pytest.raises(NonFiniteError, match=r"^critic_loss is nan in replay update 1, at step 8$"):
        loop.iterate()
    assert loop.updates == {"on_policy": 1, "replay": 1}, "those after it are not counted"


def test_diagnostics_are_means_and_maxima_are_maxima():
    maxima = [-5.0, -2.0, -7.0, 3.0]
    agent = LightAgent(SPEC, lambda update: {"value": float(update), "weight_max": maxima[update - 1]})
    loop = loop_of(agent=agent)
    for _ in range(3):
        loop.iterate()
    assert loop.take_diagnostics() == {"on_policy/value": 2.0, "on_policy/weight_max": -2.0}
    assert loop.take_diagnostics() == {}
    loop.iterate()
    assert loop.take_diagnostics() == {"on_policy/value": 4.0, "on_policy/weight_max": 3.0}


def test_on_policy_and_replayed_diagnostics_are_kept_apart():
    agent = LightAgent(SPEC, lambda update: {"value": 100.0 if update == 1 else 7.0})
    loop = loop_of(ratio=20.0, agent=agent)
    loop.iterate()
    assert loop.take_diagnostics() == {"on_policy/value": 100.0, "replay/value": 7.0}


def test_an_interrupted_interval_continues_where_it_stopped():
    def diagnostics(update):
        return {"value": float(update % 7), "weight_max": float(update % 5)}

    def fresh():
        return loop_of(ratio=2.0, seed=5, agent=LightAgent(SPEC, diagnostics))

    whole = fresh()
    for _ in range(3):
        whole.iterate()
    whole.take_diagnostics()
    for _ in range(3):
        whole.iterate()
    state = whole.state()
    assert json.loads(json.dumps(state)) == state
    resumed = loop_of(ratio=2.0, seed=99, agent=whole.agent)
    resumed.collector, resumed.replay = whole.collector, whole.replay
    resumed.restore(state)
    assert resumed.state() == whole.state()
    assert resumed.take_diagnostics() == whole.take_diagnostics()
    assert resumed.updates == whole.updates
    resumed.iterate()
    assert resumed.updates["on_policy"] == 7
    assert whole.updates["on_policy"] == 6  # counters are not shared
    expected = np.random.default_rng(derive_seed(settings_of(seed=5), "poisson")).poisson(2.0, 7).sum()
    assert resumed.updates["replay"] == expected


@pytest.mark.parametrize("group", [1, 2])
def test_the_size_of_a_call_is_bounded_for_any_replay_ratio(group, monkeypatch):
    window = sum(array.nbytes for array in optree.tree_leaves(replay_of(2, 1000, 4).blank(1, 1)))
    assert loop_of(ratio=2000.0, group=group).agent.updates_per_call == 512
    monkeypatch.setattr("acer_tf.training.loop.MOST_BYTES", 100 * group * window)
    loop = loop_of(ratio=2000.0, group=group)
    assert loop.agent.updates_per_call == 100
    loop.iterate()
    assert loop.updates["replay"] > 1500


def test_the_batches_of_an_iteration_are_those_drawn_one_after_the_other():
    loop = loop_of(ratio=4.0)
    for _ in range(20):
        loop.iterate()
    expected = []
    alone = loop_of(ratio=4.0)
    for _ in range(20):
        alone.collector.collect(4)
        due = alone.replays_due()
        expected += [latest(alone.replay), *(sample(alone.replay) for _ in range(due))]
    assert len(expected) > 60
    assert len(loop.agent.trajectories) == len(expected)
    assert all(same(a, b) for a, b in zip(loop.agent.trajectories, expected, strict=True))


@pytest.mark.parametrize("group", [1, 0])
def test_an_iteration_passes_its_updates_in_one_call_or_in_calls_of_the_largest_size(group, monkeypatch):
    loop = loop_of(ratio=4.0, num_envs=4, group=group)
    calls, learn = [], loop.agent.learn

    def counted(batch, at_most):
        calls[-1].append(len(batch.weight))
        return learn(batch, at_most)

    monkeypatch.setattr(loop.agent, "learn", counted)
    for _ in range(200):
        calls.append([])
        loop.iterate()
    most = loop.agent.updates_per_call
    assert all(size == most for iteration in calls for size in iteration[:-1])
    assert max(size for iteration in calls for size in iteration) == most
    assert sum(len(iteration) == 1 for iteration in calls) > 150, "mostly one call"
    assert sum(len(iteration) > 1 for iteration in calls) > 5
    assert sum(map(sum, calls)) == sum(loop.updates.values())


def test_an_error_in_drawing_is_raised_before_the_updates_of_its_call(monkeypatch):
    loop = loop_of(ratio=20.0)
    loop.iterate()

    def broken(*arguments):
        raise RuntimeError("no rows")

    monkeypatch.setattr(loop.replay, "batch", broken)
    with pytest.raises(RuntimeError, match="no rows"):
        loop.iterate()
    assert loop.updates["on_policy"] == 1


def test_without_on_policy_updates_all_are_replayed_and_the_draws_are_the_same():
    on, off = loop_of(ratio=3.0), loop_of(ratio=3.0, on_policy=False)
    replayed = []
    for _ in range(20):
        before = len(on.agent.trajectories)
        on.iterate()
        off.iterate()
        replayed += on.agent.trajectories[before + 1 :]
    assert off.updates == {"on_policy": 0, "replay": on.updates["replay"]}
    assert len(replayed) > 40
    assert all(same(a, b) for a, b in zip(off.agent.trajectories, replayed, strict=True))


def test_the_rewards_of_each_collected_trajectory_are_observed_before_its_updates_and_it_is_noted_after_them():
    order = []

    class Noting(LightAgent):
        def observe_rewards(self, unroll):
            order.append("rewards")
            super().observe_rewards(unroll)

        def update(self, trajectory, weight=None):
            order.append("update")
            return super().update(trajectory, weight)

        def update_normalization(self, observation):
            order.append("note")
            super().update_normalization(observation)

    loop = loop_of(agent=Noting(SPEC))
    for _ in range(3):
        loop.iterate()
    assert order == ["rewards", "update", "note"] * 3
    agent = loop.agent
    for rewards, collected, trajectory in zip(agent.rewards, agent.collected, agent.trajectories, strict=True):
        np.testing.assert_array_equal(rewards, trajectory.reward)
        np.testing.assert_array_equal(collected, trajectory.observation[:, :-1])


def test_nothing_that_depends_on_the_steps_is_due_after_an_iteration():
    """Otherwise a checkpoint would miss it: a target network would be updated a period late."""
    order = []

    class Scheduled(LightAgent):
        def schedule(self, steps):
            order.append(steps)

        def update(self, trajectory, weight=None):
            order.append("update")
            return super().update(trajectory, weight)

    loop = loop_of(agent=Scheduled(SPEC))
    for _ in range(2):
        loop.iterate()
    assert order == [0, "update", 8, "update", 16]  # once for the same steps: assigning takes time


def test_uniform_items_of_an_iteration_are_drawn_together_and_are_those_of_single_draws():
    def replay_of_items():
        return PrioritizedReplay(SPEC, 2, 20, 1, 0, batch_size=3, priority="uniform", priority_epsilon=0.0)

    together, alone = replay_of_items(), replay_of_items()
    given = {"unroll_length": 1, "trajectories_per_update": 1, "on_policy_updates": False}
    settings = settings_of(**given, replay_ratio=4.0, replay_poisson=False)
    loop = Loop(collector_of(ScriptedEnvironment([[], []]), act, together, 0), LightAgent(SPEC), together, settings)
    collector, expected = collector_of(ScriptedEnvironment([[], []]), act, alone, 0), []
    for _ in range(50):
        loop.iterate()
        collector.collect(1)
        expected += [alone.draw() for _ in range(8)]
    assert loop.agent.updates_per_call == 8
    assert len(loop.agent.trajectories) == len(expected)
    for found, drawn in zip(loop.agent.trajectories, expected, strict=True):
        assert same(found, optree.tree_map(lambda array: array[0], drawn.trajectory))
        assert (drawn.weight == 1).all()
        assert drawn.items is None


def test_each_update_gets_the_weights_of_its_draw_and_its_errors_become_the_priorities():
    weights, draws, shares = [], [], []

    class Erring(LightAgent):
        def update(self, trajectory, weight=None):
            weights.append(weight)
            update = super().update(trajectory, weight)
            return update._replace(errors=np.full(len(trajectory.mask), len(self.trajectories), np.float32))

    exponents = {"priority_exponent": (1.0, 1.0), "importance_exponent": (0.5, 1.0), "priority_epsilon": 0.0}
    replay = PrioritizedReplay(SPEC, 2, 100, 4, 0, batch_size=3, priority="proportional", **exponents)
    draw = replay.draw

    def recorded(progress, updates):
        shares.append(progress)
        draws.append(draw(progress, updates))
        return draws[-1]

    replay.draw = recorded
    collector = collector_of(ScriptedEnvironment([[], []]), act, replay, 0)
    loop = Loop(collector, Erring(SPEC), replay, settings_of(replay_ratio=1.0, replay_poisson=False, total_steps=32))
    for number in (2, 4, 6, 8, 10):
        loop.iterate()
        assert priorities_of(replay._priorities, draws[-1].items[0]).tolist() == [number] * 3
    assert shares == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert all((given == 1).all() for given in weights[::2])
    assert all(np.array_equal(given, drawn.weight[0]) for given, drawn in zip(weights[1::2], draws, strict=True))
    assert any((drawn.weight < 1).any() for drawn in draws)
