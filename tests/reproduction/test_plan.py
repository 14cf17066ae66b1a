"""Plans: hours, steps and sizes computed by hand from given measurements, and one real measurement."""

import contextlib
import dataclasses
import io
import json
import math
import os
import tempfile
from unittest import mock

import pytest

from acer_tf import envs, resources
from acer_tf.errors import MeasurementFailure, SweepError
from acer_tf.replay import TrajectoryReplay
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.figure import figures
from acer_tf.reproduction.plan import (
    _OTHER_BYTES,
    _ROW_BYTES,
    START_SECONDS,
    Measured,
    bytes_in,
    derived_from,
    kind_of,
    makespan,
    measured,
    plan,
    rest_of,
    stepping,
    timed,
)
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.reproduction.sweep.launcher import needs_of
from acer_tf.settings import make_settings
from acer_tf.settings.effect import require_effect
from acer_tf.training.device import Device
from acer_tf.training.resolve import resolve
from acer_tf.training.train import train
from tests.training.scripted import leave_policy, rows_of, small_settings, tree

GB = 10**9
FOUND = Measured(0.01, 0.02, 1_000_000, 100.0)
HOURLY = Measured(36.0, 36.0, 1, 1.0)  # 100 steps an hour
PROCESS = resources.PROCESS_BYTES


@pytest.fixture(autouse=True)
def _idle_machine(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    monkeypatch.setattr(resources, "available_memory", lambda: 100 * GB)


def cell(method="ACER", **given):
    """10,000 steps of 2 environments, the first 1,000 without replay."""
    small = {"total_steps": 10_000, "replay_start": 500, "replay_capacity": 500, "replay_ratio": 2.0}
    if given.get("agent") in ("a3c", "trust_a3c"):
        small["replay_ratio"] = 0.0
    return Cell.asked(method, small_settings(**(small | given)))


def planned(cells, sweep_dir, found=FOUND, **options):
    said = io.StringIO()
    measuring = mock.patch("acer_tf.reproduction.plan.measured", return_value=found)
    with measuring as measure, contextlib.redirect_stdout(said):
        lines = plan(cells, sweep_dir, **options)
    return lines, [call.args for call in measure.call_args_list], said.getvalue().splitlines()


def line(lines, start):
    (found,) = [line for line in lines if line.startswith(start)]
    return found


def leave(sweep_dir, cell, steps, *, finished=False):
    """A cell's folder as a run leaves it after `steps` steps."""
    run_dir = sweep_dir / "cells" / cell.name / "run"
    run_dir.mkdir(parents=True)
    settings = dict(cell.settings) | {"network": "mlp", "precision": "float32"}
    (run_dir / "run.json").write_text(
        json.dumps({"format": 1, "settings": settings} | ({"finished": True} if finished else {}))
    )
    (run_dir / "progress.csv").write_text(f"steps,seconds,mean_return\n{steps},1.0,\n")
    if finished:
        leave_policy(run_dir / "policy")


def rest(folder, found=FOUND, **given):
    one = cell(**given)
    place = CellFolder(folder, one)
    return rest_of(place, *needs_of([place]), found, checkpoint_minutes=10.0)


@pytest.mark.parametrize(
    ("given", "done", "before", "after"),
    [
        ({}, 0, 1000, 9000),
        ({}, 400, 600, 9000),
        ({}, 4000, 0, 6000),
        ({}, 10_010, 0, 0),  # a run's last iteration exceeds it
        ({"replay_start": 0}, 0, 0, 10_000),
        ({"total_steps": 700}, 0, 700, 0),
        ({"replay_ratio": 0.0}, 100, 9900, 0),
    ],
)
def test_steps_before_and_with_replay_have_different_rates(tmp_path, given, done, before, after):
    if done:
        leave(tmp_path, cell(**given), done)
    left = rest(tmp_path, **given)
    assert left.steps == before + after
    assert left.seconds == pytest.approx(before * 0.01 + after * 0.02 + START_SECONDS)


def test_finished_cells_cost_nothing_and_interrupted_ones_what_is_left(tmp_path):
    finished, interrupted, fresh = cells = [cell(seed=seed) for seed in range(3)]
    leave(tmp_path, finished, 10_000, finished=True)
    leave(tmp_path, interrupted, 4000)
    before = tree(tmp_path)
    lines, measurements, _ = planned(cells, tmp_path, HOURLY)
    assert tree(tmp_path) == before
    assert len(measurements) == 1
    assert lines[0] == f"3 cells in {tmp_path}, 1 finished; 30,000 steps, 16,000 left"
    assert lines[2].split() == ["ACER", "3", "1", "1", "10,000", "0", "160.0"]
    assert line(lines, "time:") == "time: 160.0 hours (7 days) with one process; the longest cell takes 100.0"


def test_nothing_is_measured_where_all_cells_are_finished(tmp_path):
    leave(tmp_path, cell(), 10_000, finished=True)
    lines, measurements, said = planned([cell()], tmp_path)
    assert (measurements, said) == ([], [])
    assert lines[2].split() == ["ACER", "1", "1", "1", "10,000", "-", "0.0"]
    assert lines[3:] == ["all cells are finished: nothing would be run"]


def test_processes_take_the_cells_in_order():
    assert makespan([4.0, 2.0, 3.0, 1.0], 1) == 10.0
    assert makespan([4.0, 2.0, 3.0, 1.0], 2) == 5.0
    assert makespan([1.0, 1.0, 6.0], 2) == 7.0  # the longest comes last and runs alone
    assert makespan([3.0, 1.0], 5) == 3.0
    assert makespan([], 2) == 0.0


def test_hours_of_several_processes_and_of_one(tmp_path):
    cells = [cell(seed=seed) for seed in range(3)]
    lines, ((_, threads, copies),), _ = planned(cells, tmp_path, HOURLY, processes=2, threads=1)
    assert (threads, copies) == (1, 2)
    time = line(lines, "time:")
    assert time.startswith("time: 200.0 hours (8 days) with 2 processes of 1 thread each; the longest cell")
    assert "for one process of 1 thread: 300.0 hours in total" in line(lines, "steps/s and hours left")
    _, ((_, _, copies),), _ = planned(cells, tmp_path, processes=8, threads=1)
    assert copies == 3  # no more processes than cells


def test_threads_are_those_of_the_launcher(tmp_path):
    _, ((_, threads, _),), _ = planned([cell()], tmp_path, processes=2)
    assert threads == 2


def test_cells_of_one_kind_share_a_measurement_of_the_one_that_does_most(tmp_path):
    cells = [
        cell("ACER, replay 2"),
        cell("ACER, replay 2", seed=1),
        cell("learning rate", learning_rate=1e-4),
        cell("ACER, replay 4", replay_ratio=4.0),
        cell("Trust-A3C", agent="trust_a3c"),
        cell("A3C", agent="a3c"),
        cell("ACER, 4 environments", num_envs=4),
        cell("by rank", replay_priority="rank"),
    ]
    lines, measurements, said = planned(cells, tmp_path)
    models = [settings for settings, _, _ in measurements]
    assert [(m.agent, m.num_envs, m.replay_priority, m.replay_ratio) for m in models] == [
        ("acer", 2, "rank", 2.0),
        ("acer", 4, "uniform", 2.0),
    ]
    assert all(m.network == "mlp" and m.precision == "float32" for m in models)
    what = "acer on CartPole-v1, 2 environments, network mlp, float32, replay ratio 2"
    assert said[0].startswith(
        "measuring 1 of 2: ACER, replay 2; learning rate; ACER, replay 4; Trust-A3C; A3C; by rank"
    )
    assert said[0].endswith(f": {what} ...")
    assert f"measured now in one process: {what}; other ratios in proportion, the trust region" in line(
        lines, "rates: ACER, replay 2"
    )


def test_a_cell_without_replay_is_not_the_one_that_others_are_derived_from(tmp_path):
    cells = [
        cell("Trust-A3C", agent="trust_a3c"),
        cell("ACER, replay 8", replay_ratio=8.0, trust_region_delta=math.inf),
    ]
    _, ((model, _, _),), _ = planned(cells, tmp_path)
    assert model.replay_ratio == 8.0 and not model.trust_region


def test_time_of_other_ratios_and_environments_is_derived(tmp_path, monkeypatch):
    """A step takes 10 ms, and with a replay ratio of 2, 20 ms: an update for each step of one ratio 5 ms."""
    model = cell().train_settings
    for ratio, after in ((0.0, 0.01), (1.0, 0.015), (4.0, 0.03)):
        derived = derived_from(FOUND, model, dataclasses.replace(model, replay_ratio=ratio), 1)
        assert (derived.before, derived.after) == pytest.approx((0.01, after))
    monkeypatch.setattr("acer_tf.reproduction.plan.stepping", lambda env, num_envs, threads: 0.001 * len(env))
    other = dataclasses.replace(model, env=model.env + "xxx")
    assert derived_from(FOUND, model, other, 1)[:2] == pytest.approx((0.013, 0.023))
    games = [make_settings(env=f"atari/{game}") for game in ("Pong", "BeamRider")]
    assert derived_from(FOUND, *games, 1) == FOUND, "which all take the same time"


@pytest.mark.parametrize(
    ("name", "most"),
    [("figure1_atari57", 2), ("figure1_minatar", 2), ("figure3_continuous", 3), ("openai_baselines", 2)],
)
def test_the_plan_of_a_figure_measures_only_a_few_cells(tmp_path, monkeypatch, name, most):
    """Each takes half a minute."""
    monkeypatch.setattr("acer_tf.reproduction.plan.stepping", lambda env, num_envs, threads: 0.001)
    figure = figures()[name]
    one_seed = [cell for cell in figure.whole.values() if cell.seed == 0]
    lines, measurements, _ = planned(one_seed, tmp_path)
    assert 1 <= len(measurements) <= most
    assert lines[0].startswith(f"{len(one_seed)} cells in ")


def test_one_atari_game_is_measured_for_all_and_the_plan_says_so(tmp_path):
    games = ("Pong", "Breakout", "Qbert")
    cells = [Cell.asked("A3C", make_settings({"env": f"atari/{game}", "agent": "a3c"})) for game in games]
    lines, measurements, _ = planned(cells, tmp_path, processes=2)
    assert [settings.env for settings, _, _ in measurements] == ["atari/Pong"]
    source = line(lines, "rates:")
    assert source.startswith("rates: A3C: measured now in 2 processes at once: a3c on atari/Pong, 16 environments, ")
    assert source.endswith("; 2 other environments may differ by some tens of percent")


def test_environments_are_timed_by_themselves():
    assert 0 < stepping("CartPole-v1", 2, 1) < 0.01
    assert 0 < stepping("Pendulum-v1", 2, 1) < 0.01


def test_memory_is_that_of_the_largest_cells_together(tmp_path):
    cells = [cell(seed=0), cell(seed=1, replay_capacity=10**8), cell(seed=2, replay_capacity=10**8)]
    lines, _, _ = planned(cells, tmp_path, processes=2)
    needed = 2 * (PROCESS + TrajectoryReplay.required_bytes(envs.spec("CartPole-v1"), 2, 10**8))
    assert line(lines, "memory:") == f"memory: up to {needed / GB:.1f} GB; 100.0 GB are available"
    assert rest(tmp_path, replay_capacity=10**8).memory == needed / 2


def test_memory_counts_the_states_of_recurrent_networks(tmp_path):
    with_states, without = (rest(tmp_path, lstm_units=units).memory for units in (256, 0))
    assert with_states - without == 4 * 2 * 512 * (500 // 5 + 1)


def test_disk_holds_checkpoints_the_replay_and_the_rows_between_checkpoints(tmp_path):
    row = 7
    # 600 s at 3 s per step of 2 environments: 100 rows between checkpoints. Three times these before the oldest goes.
    size = rest(tmp_path, Measured(3.0, 4.0, 1_000_000, 7.0))
    assert size.passing == pytest.approx((500 + 3 * 100) * row + 2 * 1_000_000, rel=0.001)
    assert 2_000_000 < size.kept < 3_000_000
    # The whole run is shorter.
    size = rest(tmp_path, Measured(3.0, 4.0, 1_000_000, 7.0), total_steps=1400)
    assert size.passing == pytest.approx(700 * row + 2 * 1_000_000, rel=0.001)
    # Each of three checkpoints has the states of a recurrent network: of 101 segments, and of 161 with the rows.
    recurrent = rest(tmp_path, Measured(3.0, 4.0, 1_000_000, 7.0), network="mlp", lstm_units=256)
    states = 4 * 2 * 512 * (2 * 101 + 161)
    assert recurrent.passing == pytest.approx((500 + 3 * 100) * row + 2 * 1_000_000 + states, rel=0.001)


def test_disk_is_what_is_added_to_the_present_files(tmp_path):
    sweep_dir = tmp_path / "a" / "b"
    lines, _, _ = planned([cell()], sweep_dir)
    assert not (tmp_path / "a").exists()
    assert line(lines, "disk:").endswith(f" are free at {tmp_path}")
    fresh = rest(sweep_dir)
    leave(sweep_dir, cell(), 400)
    before = bytes_in(sweep_dir)
    (sweep_dir / "cells" / cell().name / "run" / "weights").write_bytes(bytes(100_000))
    assert rest(sweep_dir).kept == fresh.kept - before - 100_000
    lines, _, _ = planned([cell()], sweep_dir)
    assert line(lines, "disk:").endswith(f" are free at {sweep_dir}")


def test_insufficient_resources_are_warnings(tmp_path, monkeypatch):
    def warnings(found=FOUND, **options):
        return [line for line in planned([cell()], tmp_path, found, **options)[0] if line.startswith("warning")]

    assert warnings() == []
    (disk,) = warnings(FOUND._replace(checkpoint=10**15))
    assert disk.startswith("warning: disk may not suffice")
    assert warnings(processes=2, threads=3) == ["warning: 2 × 3 threads share 4 cores"]
    monkeypatch.setattr(os, "getloadavg", lambda: (3.04, 0.0, 0.0))
    (busy,) = warnings()
    assert busy.startswith("warning: this machine is busy (load 3.0 on 4 cores): the measured rates are too low")
    monkeypatch.setattr(resources, "available_memory", lambda: GB)
    memory, _ = warnings()
    assert memory.startswith("warning: memory does not suffice for --processes=1")


def test_the_table_is_aligned_and_names_everything(tmp_path):
    cells = [cell(), cell("A3C, long", agent="a3c"), cell("A3C, long", agent="a3c", seed=1, total_steps=20_000)]
    lines, _, _ = planned(cells, tmp_path, processes=2, threads=1)
    assert lines[0] == f"3 cells in {tmp_path}, 0 finished; 40,000 steps, 40,000 left"
    assert len({len(row) for row in lines[1:4]}) == 1
    assert lines[1].split("  ")[0] == "method" and lines[1].endswith("hours left")
    assert lines[3].split() == ["A3C,", "long", "2", "0", "1", "10,000", "to", "20,000", "100", "0.092"]


def test_cells_that_cannot_be_run_are_refused(tmp_path):
    with pytest.raises(SweepError, match="no cells"):
        planned([], tmp_path)
    with pytest.raises(SweepError, match="the same settings"):
        planned([cell(), cell()], tmp_path)
    with pytest.raises(SweepError, match="NoSuch-v7"):
        planned([cell(env="NoSuch-v7")], tmp_path)


@pytest.mark.parametrize(("capability", "precision"), [((9, 0), "bfloat16"), ((7, 5), "float32")])
def test_the_precision_is_that_of_the_device_on_which_cells_run(capability, precision, tmp_path, monkeypatch):
    monkeypatch.setattr("acer_tf.reproduction.plan.find_device", lambda: Device("gpu:0", "a GPU", capability))
    _, ((settings, _, _),), _ = planned([cell(env="atari/Pong", trajectories_per_update=0)], tmp_path)
    assert settings.precision == precision


def test_what_makes_cells_of_one_kind():
    def key(continuous=False, **given):
        return kind_of(make_settings({"env": "CartPole-v1", "preset": "baselines", **given}), continuous=continuous)

    usual = key()
    slower = [
        {"agent": "dqn", "preset": "dqn"},
        {"num_envs": 32},
        {"unroll_length": 10},
        {"trajectories_per_update": 4},
        {"network": "small", "lstm_units": 256},
        {"precision": "float32"},
        {"replay_batch": 8, "replay_priority": "rank"},
        {"actors": 2},
        {"rmsprop_centered": True},
        {"on_policy_updates": False},
    ]
    different = [key(**given) for given in slower]
    assert usual not in different and len(set(different)) == len(different)
    assert key(gamma=0.9, learning_rate=1e-4, seed=3, total_steps=2_000_000) == usual
    assert key(env="Acrobot-v1") == key(agent="a3c") == key(replay_ratio=2.0) == key(replay_priority="rank") == usual
    games = [key(env=f"atari/{game}") for game in ("Pong", "Breakout")]
    assert games[0] == games[1] != key(env="atari/Pong", atari_preset="machado2018")
    tasks = [key(True, env="control/fish", preset="auto", agent=agent) for agent in ("tis", "a3c", "acer_continuous")]
    assert len(set(tasks)) == 3


@pytest.mark.process
def test_a_real_measurement_has_the_speed_and_file_sizes_of_a_run(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)  # which it has looked up before
    monkeypatch.setattr("acer_tf.reproduction.plan._SECONDS", 2.0)
    # Without on-policy updates, and with a fractional ratio, whose many updates are drawn and dominate the time.
    continuous = {"env": "Pendulum-v1", "agent": "acer_continuous", "on_policy_updates": False, "replay_ratio": 100.5}
    short = {"total_steps": 600, "log_interval": 10, "replay_start": 10}
    settings = resolve(cell(**continuous, **short).train_settings, envs.spec("Pendulum-v1"))
    found = measured(settings, 1, 2)
    assert 0 < found.before < found.after < 1
    assert {path.name for path in temporary.iterdir()} <= {"__pycache__"}  # TensorFlow's, as of every process
    train(settings, tmp_path / "run", threads=1, quiet=True)
    assert bytes_in(tmp_path / "run" / "checkpoints") == pytest.approx(found.checkpoint, rel=0.02)
    assert 0 < found.row < 1.5 * TrajectoryReplay.required_bytes(envs.spec("Pendulum-v1"), settings.num_envs, 0)
    left = rest(tmp_path / "sweep", found, **continuous, **short)
    # What is kept beside the checkpoint is bounded part by part, and not measured.
    run_dir, rows = tmp_path / "run", len(rows_of(tmp_path / "run"))
    policy = bytes_in(run_dir / "policy" / "variables")
    curve = bytes_in(run_dir / "tensorboard") + (run_dir / "progress.csv").stat().st_size
    assert found.checkpoint / 10 < policy < found.checkpoint / 2
    assert 0.4 * rows * _ROW_BYTES < curve < rows * _ROW_BYTES
    assert bytes_in(run_dir) - bytes_in(run_dir / "checkpoints") - policy - curve < _OTHER_BYTES
    assert left.kept == pytest.approx(1.5 * found.checkpoint + rows * _ROW_BYTES + _OTHER_BYTES, rel=0.01)


@pytest.mark.parametrize(
    "given", [{"agent": "a3c"}, {"replay_ratio": 0.0}, {"replay_ratio": 4.0}, {"agent": "dqn"}, {"replay_ratio": 0.5}]
)
def test_the_run_that_is_timed_has_no_setting_that_train_refuses(given):
    spec = envs.spec("CartPole-v1")
    settings = timed(resolve(make_settings(env="CartPole-v1", **given), spec))
    require_effect(settings, spec)
    assert settings.replay_poisson == (settings.replay_ratio % 1 > 0 or settings.replay_ratio == 0)


@pytest.mark.process
def test_a_failed_measurement_reports_the_error():
    settings = resolve(cell().train_settings, envs.spec("CartPole-v1"))
    with pytest.raises(MeasurementFailure, match="CartPole-v1 .*--network=small"):
        measured(dataclasses.replace(settings, network="small"), 1, 1)


def test_disk_is_for_as_many_cells_as_run_together(tmp_path):
    cells = [cell(seed=seed) for seed in range(3)]
    big = FOUND._replace(checkpoint=GB)
    one = rest(tmp_path, big)
    for processes in (1, 2):
        lines, _, _ = planned(cells, tmp_path, big, processes=processes)
        peak = 3 * one.kept + processes * one.passing
        assert line(lines, "disk:").startswith(f"disk: at most about {peak / GB:,.1f} GB more while cells run")


def test_no_more_processes_are_measured_at_once_than_memory_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "available_memory", lambda: 2 * resources.PROCESS_BYTES + 1)
    _, ((_, _, copies),), _ = planned([cell(seed=seed) for seed in range(4)], tmp_path, processes=4)
    assert copies == 2
