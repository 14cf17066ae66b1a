"""What `train` leaves in a new run's folder, and the arguments that it takes from Python."""

import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import re
from types import SimpleNamespace

import gymnasium
import keras
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from acer_tf import load_policy
from acer_tf.commands.train import FLAGS
from acer_tf.errors import RunFolderError, SettingsError
from acer_tf.policies.evaluation import evaluate
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import REPAIRS
from acer_tf.runs.records import read_record
from acer_tf.training import active_run, run
from acer_tf.training.export_run import export_run
from acer_tf.training.train import train
from tests.training.scripted import (
    check_progress,
    rows_of,
    script,
    small_settings,
    timeless,
    tree,
    use_light_agents,
)


def test_a_run_leaves_its_record_its_curve_its_weights_and_its_policy(trained_cartpole):
    settings = small_settings(seed=3)
    document = json.loads((trained_cartpole / "run.json").read_text())
    assert document["settings"] == dataclasses.asdict(settings) | {"network": "mlp", "precision": "float32"}
    assert document["finished"] is True
    assert document["steps"] >= 600
    assert document["seconds"] > 0
    assert document["environment"]["num_actions"] == 2
    assert {"command", "commit", "changes", "versions", "machine", "started"} <= set(document)
    listed = (trained_cartpole / "packages.txt").read_bytes()
    assert document["packages_sha256"] == hashlib.sha256(listed).hexdigest()
    check_progress(trained_cartpole, settings)
    assert {p.name for p in trained_cartpole.iterdir()} == {
        "run.json",
        "packages.txt",
        "progress.csv",
        "tensorboard",
        "checkpoints",
        "policy",
        "lock",
    }
    last = rows_of(trained_cartpole)[-1]
    assert int(last["steps"]) == document["steps"] == int(last["frames"])
    assert float(last["mean_return"]) >= 8
    assert math.isfinite(float(last["on_policy/gradient_norm"]))
    assert math.isfinite(float(last["replay/kl_average"]))


def test_a_finished_run_keeps_only_weights(trained_cartpole):
    (state,) = (trained_cartpole / "checkpoints").rglob("*.npz")
    assert state.name == "state.npz"
    snapshot = Checkpoints(trained_cartpole / "checkpoints").restore(None)
    (updates,) = (value for name, value in snapshot.arrays.items() if re.fullmatch("optimizer/.*/iteration", name))
    assert updates == sum(snapshot.state["loop"]["updates"].values())
    assert snapshot.state["actor"]["steps"] >= 600


def test_the_policy_is_that_of_the_last_checkpoint(trained_cartpole, tmp_path):
    steps = export_run(trained_cartpole, tmp_path / "again")
    observation = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    here, there = load_policy(trained_cartpole / "policy"), load_policy(tmp_path / "again")
    assert here.metadata["steps"] == there.metadata["steps"] == steps
    assert here.metadata["settings"]["seed"] == 3
    assert np.array_equal(here.probabilities(observation), there.probabilities(observation))
    assert not np.allclose(here.probabilities(observation), 0.5, atol=1e-3)  # it has learned something


def test_the_policy_is_evaluated(trained_cartpole):
    result = evaluate(load_policy(trained_cartpole / "policy"), episodes=4, num_envs=2)
    assert result.returns == result.steps and result.mean >= 8


@pytest.mark.training
def test_the_same_seed_twice_gives_the_same_progress(trained_cartpole, tmp_path):
    train(small_settings(seed=3), tmp_path / "twin", quiet=True)
    assert timeless(trained_cartpole) == timeless(tmp_path / "twin")
    assert any(
        a != b for a, b in zip(rows_of(trained_cartpole), rows_of(tmp_path / "twin"), strict=True)
    )  # except time


def test_the_end_has_a_row_even_within_an_interval(light, tmp_path):
    settings = small_settings(total_steps=555)
    train(settings, tmp_path, quiet=True)
    check_progress(tmp_path, settings)
    assert 555 <= int(rows_of(tmp_path)[-1]["steps"]) < 600


def test_another_seed_gives_another(light, tmp_path):
    for seed in (1, 2):
        train(small_settings(seed=seed), tmp_path / str(seed), quiet=True)
    one, two = ([row["mean_return"] for row in rows_of(tmp_path / str(seed))] for seed in (1, 2))
    assert one != two


def test_without_replay_there_is_a_curve_too(light, tmp_path):
    settings = small_settings(agent="a3c", replay_ratio=0.0)
    train(settings, tmp_path, quiet=True)
    check_progress(tmp_path, settings)
    assert {row["replay_updates"] for row in rows_of(tmp_path)} == {"0"}
    assert {row["replay/value"] for row in rows_of(tmp_path)} == {""}
    assert {row["stored_rows"] for row in rows_of(tmp_path)} == {"5"}
    assert json.loads((tmp_path / "run.json").read_text())["settings"]["trust_region_delta"] == "inf"


@pytest.mark.parametrize(("replay_start", "said"), [(100, False), (110, True)])
def test_a_run_too_short_to_replay_says_so(light, tmp_path, capsys, replay_start, said):
    settings = small_settings(total_steps=200, replay_start=replay_start)
    assert script(settings, tmp_path / "run") == 0
    assert (f"--replay_start={replay_start}" in capsys.readouterr().out) == said
    assert (rows_of(tmp_path / "run")[-1]["replay_updates"] == "0") == said


BAD_ARGUMENTS = [
    ("threads", -1, "must be at least 0"),
    ("threads", 1.5, "must be a whole number"),
    ("env_workers", None, "must be a whole number"),
    ("env_workers", 0, "must be at least 1"),
    ("checkpoint_minutes", math.nan, "must be at least 0"),
    ("checkpoint_minutes", None, "must be at least 0"),
    ("gpu_memory_gb", -1, "must be at least 0"),
    ("gpu_memory_gb", 4, "has no effect on a run that computes on the CPU"),
    ("actor_timeout", 0, "must be at least 1"),
    ("actor_timeout", math.nan, "must be at least 1"),
    ("device", None, "must be auto, cpu or gpu:N"),
    ("repair", "begin", "must be of"),
    ("repair", ["all"], "must be of"),
]


@pytest.mark.parametrize(("name", "value", "wanted"), BAD_ARGUMENTS)
def test_a_bad_argument_is_refused_as_its_flag_would_be(name, value, wanted, tmp_path):
    with pytest.raises(SettingsError) as refused:
        train(small_settings(), tmp_path / "run", **{"device": "cpu", name: value})
    message, shown = str(refused.value), ", ".join(value) if isinstance(value, list) else value
    assert message.startswith(f"--{name}={shown}: ") and wanted in message and "\n" not in message
    assert not (tmp_path / "run").exists()


def test_a_folder_is_needed_but_no_repair(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    train(small_settings(total_steps=100), tmp_path / "run", quiet=True, repair=None)
    with pytest.raises(RunFolderError, match="^run_dir must be a path, got None"):
        train(small_settings(), None)


@pytest.mark.parametrize("given", ["CartPole-v1", {"env": "CartPole-v1"}])
def test_what_make_settings_has_not_made_is_refused(given, tmp_path):
    with pytest.raises(SettingsError, match=r"^train takes the settings .*make_settings\(.*CartPole-v1"):
        train(given, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_numbers_of_numpy_are_recorded(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    train(small_settings(), tmp_path / "run", threads=np.int64(1), quiet=True)
    assert read_record(tmp_path / "run").document["threads"]["environments"] == 1


def test_keras_with_another_backend_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(SettingsError, match="jax"):
        train(small_settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_flag_takes_the_repairs_that_there_are():
    assert FLAGS["repair"].parser.enum_values == list(REPAIRS)


def test_a_run_records_the_files_of_the_users_modules_and_that_one_has_changed(light, tmp_path, monkeypatch, capsys):
    file, run_dir = tmp_path / "their_torsos.py", tmp_path / "run"
    file.write_text("from acer_tf.networks.torsos import TORSOS\nMLP = TORSOS['mlp']\n")
    monkeypatch.syspath_prepend(tmp_path)
    theirs = functools.partial(small_settings, network="their_torsos:MLP", preset="classic")
    assert script(theirs(), run_dir) == 0
    begun = hashlib.sha256(file.read_bytes()).hexdigest()
    assert json.loads((run_dir / "run.json").read_text())["modules"] == {"their_torsos": begun}
    assert script(theirs(total_steps=700), run_dir) == 0
    assert "their_torsos" not in capsys.readouterr().err.replace("--network=their_torsos:MLP", "")
    file.write_text(file.read_text() + "# changed\n")
    assert script(theirs(total_steps=800), run_dir) == 0
    assert "module their_torsos" in capsys.readouterr().err
    document = json.loads((run_dir / "run.json").read_text())
    assert document["modules"] == {"their_torsos": begun}
    assert ["their_torsos" in str(entry["notes"]) for entry in document["history"]] == [False, True]


def test_the_module_of_an_optimizer_is_recorded_too(light, tmp_path, monkeypatch):
    (tmp_path / "their_optimizers.py").write_text("import keras\nadamw = keras.optimizers.AdamW\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert script(small_settings(optimizer="their_optimizers:adamw"), tmp_path / "run") == 0
    assert [*json.loads((tmp_path / "run" / "run.json").read_text())["modules"]] == ["their_optimizers"]


def test_a_run_in_another_thread_of_the_process(light, tmp_path):
    """Python receives signals in the main thread alone."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        policy = threads.submit(train, small_settings(), tmp_path / "run", quiet=True).result()
    assert policy == tmp_path / "run" / "policy" and policy.is_dir()


def test_a_record_that_is_removed_during_the_run_is_a_failure_in_a_line(light, tmp_path, capsys):
    run_dir = tmp_path / "run"

    def remove(row, policy):
        (run_dir / "run.json").unlink(missing_ok=True)

    assert script(small_settings(), run_dir, on_row=remove) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {run_dir}/run.json ") and err.count("\n") == 1


def test_a_run_whose_environments_cannot_be_made_leaves_nothing(light, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no simulator")

    monkeypatch.setattr(run.envs, "make", fail)
    assert script(small_settings(), tmp_path / "new" / "run") == 1
    assert tree(tmp_path) == {}


def test_a_new_run_does_not_say_so(light, tmp_path, capsys):
    assert script(small_settings(), tmp_path / "run") == 0
    assert capsys.readouterr().err == ""


class Rising(gymnasium.Env):
    """Episodes of five steps, of which the n-th pays n."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
    episode = 0

    def reset(self, *, seed=None, options=None):
        self.episode, self.left = self.episode + 1, 5
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), 0.0 if self.left else float(self.episode), not self.left, False, {}


def test_checkpoints_are_written_at_their_period_and_rows_have_the_rate_of_their_interval(light, tmp_path, monkeypatch):
    def iterations():
        return sum(len(agent.collected) for agent in light)

    saves, save = [], active_run.ActiveRun.save

    def recorded(self, **options):
        saves.append(iterations())
        save(self, **options)

    clock = SimpleNamespace(monotonic=lambda: float(iterations()))  # an iteration takes a second
    monkeypatch.setattr(active_run, "time", clock)
    monkeypatch.setattr(active_run.ActiveRun, "save", recorded)
    rows = []
    train(
        small_settings(),
        tmp_path / "run",
        checkpoint_minutes=0.25,
        quiet=True,
        on_row=lambda row, policy: rows.append(row),
    )
    assert saves == [*range(0, iterations() + 1, 15), iterations()]
    for before, row in itertools.pairwise([{"steps": 0, "seconds": 0.0}, *rows]):
        rate = (row["steps"] - before["steps"]) / (row["seconds"] - before["seconds"])
        assert row["steps_per_second"] == pytest.approx(rate, abs=0.05)


def test_a_row_has_the_returns_of_its_interval_and_of_the_recent_episodes(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    light = run.make_agent
    monkeypatch.setattr(run, "make_agent", lambda s, spec: light(s, dataclasses.replace(spec, frames_per_step=4)))
    rows, ended = [], 0
    train(
        small_settings(num_envs=1),
        tmp_path / "run",
        quiet=True,
        env=Rising,
        on_row=lambda row, policy: rows.append(row),
    )
    assert len(rows) == 6
    for row in rows:
        before, ended = ended, row["episodes"]
        assert row["frames"] == 4 * row["steps"] and row["mean_length"] == 5
        assert row["interval_return"] == np.mean(range(before + 1, ended + 1))
        assert row["mean_return"] == np.mean(range(max(1, ended - 99), ended + 1))


def test_a_relative_folder_is_refused_where_the_environment_changes_the_working_directory(tmp_path, monkeypatch):
    class Wanders(CartPoleEnv):
        def __init__(self, **given):
            os.chdir(tmp_path)
            super().__init__(**given)

    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(RunFolderError, match="^--run_dir=runs/a: must be absolute, as CartPole-v1 changes the working"):
        train(small_settings(), "runs/a", env=Wanders)
    assert not list(tmp_path.iterdir())
