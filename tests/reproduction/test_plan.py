"""Plans: hand-worked hours, steps and sizes from given speeds, and one real measurement."""

import dataclasses
import json
import os
import socket

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.replay import TrajectoryReplay
from acer_tf.reproduction.plan import Speed, lines, measured, plan
from acer_tf.reproduction.plan.cells import PlannedCell
from acer_tf.reproduction.plan.disk import Footprints
from acer_tf.reproduction.plan.estimate import START_SECONDS
from acer_tf.reproduction.plan.speed import Pace
from acer_tf.reproduction.plan.work import Work, makespan, replays_per_step, work_left
from acer_tf.reproduction.sweep import Cell, SweepError
from acer_tf.settings import make_settings
from acer_tf.training.build import make_agent, make_loop, make_replay, replay_rows, resolve
from acer_tf.training.run import train
from tests.training.scripted import LightAgent, small_settings, tree

GB = 10**9
START = START_SECONDS


@pytest.fixture(autouse=True)
def _idle_machine(monkeypatch):
    from acer_tf.training import build

    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(build, "available_memory", lambda: 100 * GB)


def cell(method="ACER", **given):
    """10,000 steps in 1,000 iterations of 2 × 5 rows, the first 99 without replay, then 2 replayed updates each."""
    small = {"total_steps": 10_000, "replay_start": 500, "replay_capacity": 500, "replay_ratio": 2.0}
    if given.get("agent") in ("a3c", "trust_a3c"):
        small["replay_ratio"] = 0.0
    return Cell(method, small_settings(**(small | given)))


def planned(cells, sweep_dir, speed=Speed(0.01, 0.05), **options):  # noqa: B008
    measurements, said = [], []

    def measure(settings, threads, copies):
        measurements.append((settings, threads, copies))
        return speed

    answer = plan(cells, sweep_dir, measure=measure, say=said.append, **options)
    return answer, measurements, said


def leave(sweep_dir, cell, rows, *, finished=False, host=None, threads=1):
    """A cell's folder as a run leaves it: `rows` of steps, seconds and replayed updates."""
    run_dir = sweep_dir / "cells" / cell.name / "run"
    run_dir.mkdir(parents=True)
    settings = dataclasses.asdict(cell.settings) | {"network": "mlp", "precision": "float32"}
    document = {
        "settings": settings,
        "machine": {"host": host or socket.gethostname(), "cores": len(os.sched_getaffinity(0))},
        "threads": {"emulators": threads},
    }
    (run_dir / "run.json").write_text(json.dumps(document | ({"finished": True} if finished else {})))
    text = "".join(f"{steps},{seconds},{updates},\n" for steps, seconds, updates in rows)
    (run_dir / "progress.csv").write_text("steps,seconds,replay_updates,mean_return\n" + text)
    if finished:
        (run_dir / "policy").mkdir()


def test_hours_follow_from_seconds_per_step_and_per_replayed_update(tmp_path):
    answer, _, _ = planned([cell()], tmp_path / "sweep")
    # 990 steps of 0.01 s; 9,010 of 0.01 s and, at 2 updates per 10 steps, 0.2 × 0.05 s.
    seconds = 990 * 0.01 + 9010 * 0.02
    assert answer.seconds == pytest.approx(seconds + START)
    assert answer.seconds_alone == answer.longest_cell == answer.seconds
    (row,) = answer.rows
    assert (row.method, row.cells, row.finished, row.envs, row.steps) == ("ACER", 1, 0, 1, (10_000, 10_000))
    assert row.steps_left == answer.steps == answer.steps_left == 10_000
    assert row.steps_per_second == pytest.approx(10_000 / seconds)


@pytest.mark.parametrize(
    ("given", "done", "work"),
    [
        ({}, 0, Work(990, 9010)),
        ({}, 400, Work(590, 9010)),
        ({}, 990, Work(0, 9010)),
        ({}, 4000, Work(0, 6000)),
        ({}, 10_010, Work(0, 0)),  # a run's last iteration goes beyond
        ({"replay_start": 0}, 0, Work(0, 10_000)),
        ({"replay_start": 5}, 0, Work(0, 10_000)),
        ({"replay_start": 6}, 0, Work(10, 9990)),
        ({"total_steps": 700}, 0, Work(700, 0)),
        ({"replay_ratio": 0.0}, 100, Work(9900, 0)),
    ],
)
def test_what_is_left_is_divided_where_replay_begins(given, done, work):
    assert work_left(cell(**given).settings, done) == work


LOOPS = {
    "acer": {"env": "CartPole-v1", "num_envs": 4, "replay_ratio": 3.0, "replay_start": 33},
    "acer by groups": {"env": "CartPole-v1", "num_envs": 4, "trajectories_per_update": 2, "replay_ratio": 2.0},
    "acer_continuous": {
        **{"env": "Pendulum-v1", "agent": "acer_continuous", "preset": "paper_continuous", "num_envs": 3},
        **{"unroll_length": 10, "replay_start": 20},
    },
    "dqn": {"env": "CartPole-v1", "agent": "dqn", "preset": "dqn", "replay_start": 50, "replay_capacity": 100},
}


@pytest.mark.parametrize("name", LOOPS)
def test_updates_are_counted_as_a_loop_makes_them(name):
    from acer_tf.training.actor import Actor

    given = {"replay_capacity": 200, "replay_start": 0, "unroll_length": 5, "replay_poisson": False} | LOOPS[name]
    if name == "dqn":
        given["unroll_length"] = 4
    settings = make_settings(given)
    spec = envs.spec(settings.env)
    settings = resolve(settings, spec)
    replay, env = make_replay(settings, spec), envs.make(settings.env, settings.num_envs, 0)
    generator = np.random.default_rng(0)

    def act(observation, seed, state):
        if spec.continuous:
            action = generator.uniform(-1, 1, (settings.num_envs, spec.action_size)).astype(np.float32)
            return action, np.zeros_like(action), state
        chosen = generator.integers(0, spec.num_actions, settings.num_envs).astype(np.int32)
        return chosen, np.full((settings.num_envs, spec.num_actions), 1 / spec.num_actions, np.float32), state

    loop = make_loop(settings, Actor(env, act, replay, 0), LightAgent(spec), replay)
    rows = settings.num_envs * settings.unroll_length
    for iteration in range(1, 31):
        loop.iterate()
        # Rows, as if none were masked.
        run = dataclasses.replace(settings, total_steps=iteration * rows)
        assert loop.updates["replay"] == pytest.approx(work_left(run).after * replays_per_step(run)), iteration
    assert loop.updates["replay"] > 0
    env.close()


def test_finished_cells_cost_nothing_and_interrupted_ones_their_rest(tmp_path):
    finished, interrupted, fresh = cells = [cell(seed=seed) for seed in range(3)]
    leave(tmp_path, finished, [(10_000, 5.0, 1802)], finished=True, host="elsewhere")
    leave(tmp_path, interrupted, [(400, 0.5, 0), (4000, 3.0, 602)], host="elsewhere")
    before = tree(tmp_path)
    answer, measurements, _ = planned(cells, tmp_path)
    assert tree(tmp_path) == before
    assert len(measurements) == 1
    assert (answer.cells, answer.finished, answer.steps, answer.steps_left) == (3, 1, 30_000, 16_000)
    whole = 990 * 0.01 + 9010 * 0.02
    assert answer.seconds == pytest.approx(6000 * 0.02 + whole + 2 * START)
    assert answer.longest_cell == pytest.approx(whole + START)
    assert answer.rows[0].steps_per_second == pytest.approx(16_000 / (6000 * 0.02 + whole))


def test_nothing_is_measured_where_all_cells_are_finished(tmp_path):
    leave(tmp_path, cell(), [(10_000, 5.0, 1802)], finished=True)
    answer, measurements, said = planned([cell()], tmp_path)
    assert (measurements, said, answer.seconds, answer.memory, answer.disk_peak) == ([], [], 0.0, 0, 0)
    assert lines(answer)[-1] == "all cells are finished: nothing would be run"
    assert answer.rows[0].steps_per_second is None


def test_processes_take_the_cells_in_their_order():
    assert makespan([4.0, 2.0, 3.0, 1.0], 1) == 10.0
    assert makespan([4.0, 2.0, 3.0, 1.0], 2) == 5.0
    assert makespan([1.0, 1.0, 6.0], 2) == 7.0  # the longest comes last: no process helps another
    assert makespan([3.0, 1.0], 5) == 3.0
    assert makespan([], 2) == 0.0


def test_hours_side_by_side_and_of_one_process(tmp_path):
    cells = [cell(seed=seed, replay_ratio=0.0) for seed in range(3)]
    answer, ((_, threads, copies),), _ = planned(cells, tmp_path / "sweep", processes=2, threads=1)
    assert (answer.seconds, answer.seconds_alone) == (
        pytest.approx(200.0 + 2 * START),
        pytest.approx(300.0 + 3 * START),
    )
    assert (threads, copies) == (1, 2)
    _, ((_, _, copies),), _ = planned(cells, tmp_path / "sweep", processes=8, threads=1)
    assert copies == 3  # no more than would run


def test_threads_are_those_of_the_launcher(tmp_path):
    cores = len(os.sched_getaffinity(0))
    answer, ((_, threads, _),), _ = planned([cell()], tmp_path, processes=cores)
    assert answer.threads == threads == 1


def test_cells_that_are_alike_in_speed_share_a_measurement(tmp_path):
    cells = [
        cell("ACER, replay 2"),
        cell("ACER, replay 2", seed=1),
        cell("ACER, replay 4", replay_ratio=4.0),
        cell("Trust-A3C", agent="trust_a3c"),
        cell("A3C", agent="a3c"),
        cell("learning rate", learning_rate=1e-4),
        cell("ACER, 4 environments", num_envs=4),
        cell("by rank", replay_priority="rank"),
    ]
    answer, measurements, said = planned(cells, tmp_path)
    models = [settings for settings, _, _ in measurements]
    assert [(m.agent, m.num_envs, m.replay_priority, m.replay_ratio) for m in models] == [
        ("acer", 2, "uniform", 4.0),
        ("a3c", 2, "uniform", 0.0),
        ("acer", 4, "uniform", 2.0),
        ("acer", 2, "rank", 2.0),
    ]
    assert all(m.network == "mlp" and m.precision == "float32" for m in models)
    assert said[0] == "measuring 1 of 4: acer on CartPole-v1, 2 environments, network mlp, float32 ..."
    assert [row.seconds_left for row in answer.rows[1:4]] == [
        pytest.approx(990 * 0.01 + 9010 * (0.01 + 0.4 * 0.05) + START),
        pytest.approx(100.0 + START),
        pytest.approx(100.0 + START),
    ]


def test_one_atari_game_stands_for_all_and_the_plan_says_so(tmp_path):
    games = ("Pong", "Breakout", "Qbert")
    cells = [Cell("A3C", make_settings({"env": f"atari/{game}", "agent": "a3c"})) for game in games]
    answer, measurements, _ = planned(cells, tmp_path, processes=2)
    assert [settings.env for settings, _, _ in measurements] == ["atari/Pong"]
    (source,) = answer.sources
    assert source.startswith("A3C: measured now in 2 processes at once: a3c on atari/Pong, 16 environments, ")
    assert source.endswith("; 2 other games may differ by some tens of percent")
    assert answer.rows[0].envs == 3


def test_what_cells_recorded_here_goes_before_a_measurement(tmp_path):
    done, under_way, fresh, other = cells = [
        *(cell(seed=seed) for seed in range(3)),
        cell("replay 4", replay_ratio=4.0),
    ]
    # 0.02 s a step before replay, then 0.05; the median with 0.03 and 0.07 is between.
    leave(tmp_path, done, [(500, 10.0, 0), (900, 18.0, 0), (10_000, 473.0, 1820)], finished=True)
    leave(tmp_path, under_way, [(900, 27.0, 0), (2900, 167.0, 400)])
    answer, measurements, _ = planned(cells, tmp_path, threads=1)
    assert [settings.replay_ratio for settings, _, _ in measurements] == [4.0]
    assert answer.rows[0].seconds_left == pytest.approx(7100 * 0.06 + 990 * 0.025 + 9010 * 0.06 + 2 * START)
    assert "ACER: recorded by 2 cells of this sweep on CartPole-v1" in answer.sources
    assert any(line.startswith("rates: replay 4: measured now in one process: acer on") for line in lines(answer))


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ([(900, 18.0, 0), (2900, 158.0, 400)], {"host": "elsewhere"}),
        ([(900, 18.0, 0), (2900, 158.0, 400)], {"threads": 2}),
        ([(900, 18.0, 0), (2900, 58.0, 400)], {}),  # too short
        ([(900, 78.0, 0)], {}),  # before replay, which takes the most
        ([], {}),
    ],
)
def test_a_record_that_says_little_of_this_sweep_is_passed_over(tmp_path, rows, given):
    leave(tmp_path, cell(), rows, **given)
    _, measurements, _ = planned([cell()], tmp_path, threads=1)
    assert len(measurements) == 1


def test_memory_is_that_of_the_largest_cells_together(tmp_path):
    cells = [cell(seed=0), cell(seed=1, replay_capacity=900), cell(seed=2)]
    answer, _, _ = planned(cells, tmp_path, processes=2)
    spec = envs.spec("CartPole-v1")
    replays = sum(TrajectoryReplay.required_bytes(spec, 2, rows) for rows in (500, 900))
    assert answer.memory == replays + 2 * 1_500_000_000
    assert answer.memory_available == 100 * GB
    assert not any("memory does not" in line for line in lines(answer))


def test_memory_counts_the_states_of_recurrent_networks(tmp_path):
    sizes = {"unroll_length": 5, "replay_capacity": 500}
    with_states, without = (
        planned([cell(network=network, **sizes)], tmp_path / network)[0].memory for network in ("mlp_lstm", "mlp")
    )
    assert with_states - without == 4 * 2 * 512 * (500 // 5 + 1)


def footprint(pace, **given):
    settings = cell(**given).settings
    spec = envs.spec(settings.env)
    settings = resolve(settings, spec)
    planned_cell = PlannedCell(None, settings, spec, False, work_left(settings), 0)
    agent = make_agent(settings, spec)
    state = 4 * sum(int(np.prod(v.shape)) for v in agent.variables().values())
    row = TrajectoryReplay.required_bytes(spec, settings.num_envs, 0)
    return Footprints(10.0).of(planned_cell, pace), state, row, replay_rows(settings, spec)


def test_disk_holds_the_replay_and_what_comes_between_checkpoints():
    # 600 s at 1 s per step: 300 rows between checkpoints. Three of these before the oldest goes, and a file of 300.
    size, state, row, capacity = footprint(Pace(1.0, 1.0))
    assert capacity == 500
    assert size.passing == pytest.approx((500 + 2 * 300 + 300) * row + 2 * state, rel=0.001)
    # The whole run is less than that.
    size, state, row, _ = footprint(Pace(1.0, 1.0), total_steps=2000)
    assert size.passing == pytest.approx(1000 * row + 2 * state, rel=0.001)
    assert state < size.kept < 2 * state + 500_000


@pytest.mark.parametrize(
    "log_interval, network",
    [(40, "mlp"), (1000, "mlp"), (1000, "mlp_lstm")],  # 40 is less than an iteration
)
def test_the_estimate_of_disk_is_what_a_run_takes(tmp_path, log_interval, network):
    settings = make_settings(
        {
            "env": "CartPole-v1",
            "total_steps": 4000,
            "log_interval": log_interval,
            "network": network,
            "replay_start": 50,
            "replay_capacity": 100,
        }
    )
    train(settings, tmp_path / "run", threads=1, quiet=True)
    size = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    spec = envs.spec(settings.env)
    planned_cell = PlannedCell(None, resolve(settings, spec), spec, False, work_left(settings), 0)
    kept = Footprints(10.0).of(planned_cell, Pace(0.001, 0.001)).kept
    assert size / 1.5 < kept < size * 1.5


def test_disk_is_what_is_added_to_what_is_there(tmp_path):
    fresh, _, _ = planned([cell(seed=0), cell(seed=1)], tmp_path / "a" / "b")
    assert fresh.disk_place == tmp_path
    assert not (tmp_path / "a").exists()
    assert 0 < fresh.disk_kept < fresh.disk_peak
    leave(tmp_path / "a" / "b", cell(seed=0), [(400, 0.5, 0)])
    weights = tmp_path / "a" / "b" / "cells" / cell(seed=0).name / "run" / "weights"
    weights.write_bytes(bytes(100_000))
    resumed, _, _ = planned([cell(seed=0), cell(seed=1)], tmp_path / "a" / "b")
    assert resumed.disk_place == tmp_path / "a" / "b"
    assert 100_000 < fresh.disk_peak - resumed.disk_peak < 110_000


def test_what_would_not_suffice_is_a_warning(tmp_path, monkeypatch):
    answer, _, _ = planned([cell()], tmp_path, threads=1)
    assert not any(line.startswith("warning") for line in lines(answer))

    def warnings(**changed):
        return [line for line in lines(dataclasses.replace(answer, **changed)) if line.startswith("warning")]

    (memory,) = warnings(memory=101 * GB)
    assert memory.startswith("warning: memory does not suffice for --processes=1")
    (disk,) = warnings(disk_free=answer.disk_peak - 1)
    assert disk.startswith("warning: disk does not suffice")
    (cores,) = warnings(processes=2, threads=3, cores=4)
    assert cores == "warning: 2 × 3 threads share 4 cores"
    (busy,) = warnings(load=3.04, cores=2)
    assert busy.startswith("warning: this machine is busy (load 3.0 on 2 cores): rates measured now are low")
    monkeypatch.setattr(os, "getloadavg", lambda: (7.5, 0.0, 0.0))
    assert planned([cell()], tmp_path)[0].load == 7.5


def test_the_table_is_aligned_and_names_everything(tmp_path):
    cells = [cell(), cell("A3C, long", agent="a3c"), cell("A3C, long", agent="a3c", seed=1, total_steps=20_000)]
    answer, _, _ = planned(cells, tmp_path, processes=2, threads=1)
    head, titles, *rows = lines(answer)[:4]
    assert head == f"3 cells in {tmp_path}, 0 finished; 40,000 steps, 40,000 of them left"
    assert len({len(row) for row in (titles, *rows)}) == 1
    assert rows[1].split() == ["A3C,", "long", "2", "0", "1", "10,000", "to", "20,000", "100", "0.092"]
    text = "\n".join(lines(answer))
    assert "time: 0.092 hours by 2 processes of 1 thread each, side by side; the longest cell takes 0.06" in text
    assert lines(dataclasses.replace(answer, seconds=90 * 86_400.0))[4].startswith("time: 2,160.0 hours (90 days) by")


def test_cells_that_cannot_be_run_are_refused(tmp_path):
    with pytest.raises(SweepError, match="no cells"):
        planned([], tmp_path)
    with pytest.raises(SweepError, match="the same settings"):
        planned([cell(), cell()], tmp_path)
    with pytest.raises(SweepError, match="NoSuch-v7"):
        planned([cell(env="NoSuch-v7")], tmp_path)


def test_a_real_measurement_is_positive_and_leaves_nothing(tmp_path):
    sweep_dir, said = tmp_path / "sweep", []
    # Timed with a replay ratio of 0 too, which no run without on-policy updates has, and with a whole one.
    replays = cell(env="Pendulum-v1", agent="acer_continuous", on_policy_updates=False, replay_ratio=2.5)
    answer = plan([replays], sweep_dir, processes=2, threads=1, say=said.append)
    assert len(said) == 1
    assert list(tmp_path.iterdir()) == []
    assert 0 < answer.rows[0].steps_per_second < float("inf")
    assert answer.seconds > 0


def test_a_measurement_that_fails_says_with_what():
    settings = resolve(cell().settings, envs.spec("CartPole-v1"))
    with pytest.raises(SweepError, match=r"acer on CartPole-v1 cannot be measured: .*--network=small: "):
        measured(dataclasses.replace(settings, network="small"), 1, 1)
