import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import keras
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from acer_tf import load_policy, resources
from acer_tf.commands.train import FLAGS, main
from acer_tf.commands.train import run as run_script
from acer_tf.errors import Interrupted, InvalidEnvironment, Mismatch, PolicyFolderError, RunFolderError, SettingsError
from acer_tf.policies.evaluation import evaluate
from acer_tf.replay import PrioritizedReplay, TrajectoryReplay
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import REPAIRS, Lock
from acer_tf.runs.records import read_record
from acer_tf.runs.signals import Terminated
from acer_tf.training import active_run, resolve, run
from acer_tf.training.device import Device
from acer_tf.training.export_run import export_run
from acer_tf.training.loop import Loop
from acer_tf.training.train import train
from tests.runs.test_folder import HOLDER
from tests.training.scripted import (
    LightAgent,
    check_progress,
    rows_of,
    small_settings,
    timeless,
    tree,
    use_light_agents,
)

ROOT = Path(__file__).resolve().parents[2]


MOVED = "what changes until the end of a run now changes until the new one: learning_rate"  # of preset classic
DEEP = '{"settings": ' + "[" * 100_000
SMALL = {"num_envs": 2, "unroll_length": 5, "replay_ratio": 1.0, "replay_start": 10, "replay_capacity": 200}
SMALL_FLAGS = ["--env=CartPole-v1", *(f"--{name}={value}" for name, value in SMALL.items())]


def script(settings, run_dir, **options):
    return run_script(settings, run_dir, checkpoint_minutes=10.0, threads=0, **options)


@pytest.fixture
def light(monkeypatch):
    return use_light_agents(monkeypatch)


@pytest.fixture
def done(light, tmp_path):
    """A finished run of a light agent."""
    assert script(small_settings(), tmp_path / "run") == 0
    return tmp_path / "run"


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A run interrupted after its last checkpoint, with two more rows in its record, and its light agents."""

    def diagnostics(update):
        if update == 90:
            raise Interrupted(15)
        return {"value": float(update)}

    save = active_run.ActiveRun.save
    with monkeypatch.context() as patch:
        made = use_light_agents(patch, diagnostics)
        patch.setattr(active_run.ActiveRun, "save", lambda self: save(self) if self.steps < 250 else None)
        with pytest.raises(Interrupted):
            train(small_settings(), tmp_path / "run", checkpoint_minutes=0.0, quiet=True)
    assert int(rows_of(tmp_path / "run")[-1]["steps"]) >= 400
    return tmp_path / "run", use_light_agents(monkeypatch), made


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


def test_a_finished_run_started_again_does_nothing(done, light, capsys):
    before = tree(done), {p: p.stat().st_mtime_ns for p in done.rglob("*") if p.is_file() and p.name != "lock"}
    agents = len(light)
    assert script(small_settings(), done) == 0
    assert f"{done} holds this run, already finished" in capsys.readouterr().out
    assert (tree(done), {p: p.stat().st_mtime_ns for p in before[1]}) == before
    assert len(light) == agents


@pytest.mark.parametrize("lost", ["", "saved_model.pb", "variables/variables.index"])
def test_a_finished_run_whose_policy_is_not_whole_exports_it_again(done, light, lost):
    before = {name: content for name, content in tree(done).items() if not name.startswith(("tensorboard", "check"))}
    shutil.rmtree(done / "policy") if not lost else (done / "policy" / lost).unlink()
    assert script(small_settings(), done) == 0
    after = tree(done)
    assert {name: after[name] for name in before if name.startswith("policy/")} == {
        name: content for name, content in before.items() if name.startswith("policy/")
    }
    assert after["progress.csv"] == before["progress.csv"]
    assert light[-1].trajectories == []
    assert light[-1].weights.value[0] == len(light[-2].trajectories)


def test_other_flags_are_refused_each_shown_and_nothing_changes(done, capsys):
    before = tree(done)
    assert script(small_settings(gamma=0.5, reward_clip=1.0, trust_region_delta=math.inf, seed=2), done) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: --run_dir={done}")
    for difference in ("gamma: 0.99 there, 0.5", "reward_clip: None there, 1.0", "seed: 0 there, 2", "1.0 there, inf"):
        assert difference in err
    assert tree(done) == before


def test_a_record_without_a_setting_has_its_default_and_one_with_an_unknown_setting_is_refused(done, capsys):
    document = json.loads((done / "run.json").read_text())
    del document["settings"]["gamma"]
    (done / "run.json").write_text(json.dumps(document))
    assert script(small_settings(), done) == 0
    assert script(small_settings(gamma=0.9), done) == 2
    assert ": gamma: 0.99 there, 0.9 here; give" in capsys.readouterr().err
    document["settings"]["lambda"] = 1
    (done / "run.json").write_text(json.dumps(document))
    assert script(small_settings(), done) == 2
    err = capsys.readouterr().err
    assert f"{done}/run.json" in err and "'lambda'" in err


def test_auto_keeps_what_the_run_has_where_another_version_or_machine_chooses_otherwise(done, capsys, monkeypatch):
    monkeypatch.setattr(resolve, "default_network", lambda spec: "image")
    monkeypatch.setattr(Device, "fast_bfloat16", True)
    assert script(small_settings(), done) == 0
    assert script(small_settings(precision="bfloat16"), done) == 2
    assert "precision: float32 there, bfloat16 here" in capsys.readouterr().err


@pytest.mark.process
def test_a_folder_in_use_is_refused_with_host_and_pid(done, tmp_path, capsys):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "live")]
    holder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        before = tree(tmp_path / "live")
        assert script(small_settings(), tmp_path / "live") == 2
        holder_name = f"host {socket.gethostname()}, pid {holder.pid}"
        err = capsys.readouterr().err
        assert err.startswith(f"error: --run_dir={tmp_path}/live ") and holder_name in err and err.count("\n") == 1
        assert tree(tmp_path / "live") == before
    finally:
        holder.kill()
        holder.communicate()


def test_a_folder_that_another_process_changes_before_it_is_locked_is_refused(
    done, light, tmp_path, monkeypatch, capsys
):
    run_dir = tmp_path / "new"
    run_dir.mkdir()
    monkeypatch.setattr(run, "make_network", lambda *_: shutil.copy(done / "run.json", run_dir))
    assert script(small_settings(), run_dir) == 2
    assert f"--run_dir={run_dir} has just been changed by another process" in capsys.readouterr().err
    Lock(run_dir).release()


def test_a_lock_left_by_a_dead_process_does_not_block(light, tmp_path):
    (tmp_path / "lock").write_text("host elsewhere, pid 1\n")
    assert script(small_settings(), tmp_path) == 0


def test_the_lock_is_free_after_every_refusal(light, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text("{")
    with pytest.raises(RunFolderError, match="run.json"):
        train(small_settings(), run_dir)
    Lock(run_dir).release()


def test_the_replay_may_lie_in_the_folder_that_the_run_makes(light, tmp_path):
    run_dir = tmp_path / "runs" / "x"
    for total_steps in (600, 900):
        settings = small_settings(total_steps=total_steps)
        train(settings, run_dir, replay_file=run_dir / "replay.bin", quiet=True)
        assert rows_of(run_dir)[-1]["replay_updates"] != "0" and not (run_dir / "replay.bin").exists()


@pytest.mark.parametrize("there", [None, [], ["notes"]])
def test_a_replay_that_fits_nowhere_leaves_the_folder_as_it_was(light, tmp_path, monkeypatch, there):
    run_dir = tmp_path / "runs" / "x"
    if there is not None:
        run_dir.mkdir(parents=True)
        for name in there:
            (run_dir / name).touch()
    before, large = tree(tmp_path), small_settings(replay_capacity=10**14)
    for place in (None, run_dir / "replay.bin", run_dir / "no" / "replay.bin"):
        with pytest.raises(SettingsError, match="--replay_file"):
            train(large, run_dir, replay_file=place, quiet=True)
        assert tree(tmp_path) == before


@pytest.mark.parametrize("content", ["", "{", "[]", DEEP, "3", '{"steps": 1}', '{"settings": 3}', "\udcff"])
def test_a_broken_record_is_refused(light, tmp_path, content, capsys):
    (tmp_path / "run.json").write_bytes(content.encode(errors="surrogateescape"))
    before = tree(tmp_path)
    assert script(small_settings(), tmp_path) == 2
    assert f"error: {tmp_path}/run.json" in capsys.readouterr().err
    assert tree(tmp_path) == before
    with pytest.raises(RunFolderError, match="run.json"):
        export_run(tmp_path, tmp_path / "policy")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("total_steps", None, "int"), ("total_steps", "many", "int"), ("preset", ["a"], "str"), ("gamma", "0.9", "float")],
)
def test_a_record_with_a_value_of_another_type_is_refused(done, name, value, kind, capsys):
    run_dir = done
    document = json.loads((run_dir / "run.json").read_text())
    document["settings"][name] = value
    (run_dir / "run.json").write_text(json.dumps(document))
    assert main(["train", f"--run_dir={run_dir}", *SMALL_FLAGS]) == 2
    assert f"--{name}={value!r}" in capsys.readouterr().err


def test_a_record_without_a_setting_has_its_default(done, capsys):
    run_dir = done
    document = json.loads((run_dir / "run.json").read_text())
    del document["settings"]["agent"]
    (run_dir / "run.json").write_text(json.dumps(document))
    assert main(["train", f"--run_dir={run_dir}", *SMALL_FLAGS]) == 0
    assert "already finished" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["progress.csv", "checkpoints"])
def test_a_folder_with_the_remains_of_a_run_but_no_record_is_refused(light, tmp_path, name, capsys):
    (tmp_path / name).mkdir() if name == "checkpoints" else (tmp_path / name).write_text("steps\n1\n")
    before = tree(tmp_path)
    assert script(small_settings(), tmp_path) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: --run_dir={tmp_path} ") and name in err and err.count("\n") == 1
    assert tree(tmp_path) == before


def test_more_environments_than_memory_holds_are_refused_before_anything_is_written(
    light, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(resources, "available_memory", lambda: 2_000_000_000)
    assert script(small_settings(num_envs=100_000), tmp_path / "run") == 2
    assert capsys.readouterr().err.startswith("error: --num_envs=100000: ")
    assert not (tmp_path / "run").exists()


def test_a_file_is_not_a_run_folder(light, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert script(small_settings(), tmp_path / "file") == 2
    assert capsys.readouterr().err.startswith(f"error: --run_dir={tmp_path}/file")
    assert tree(tmp_path) == {"file": b"mine"}


def test_other_files_in_the_folder_are_left_alone(light, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert script(small_settings(), tmp_path) == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_replay_that_does_not_fit_is_refused_before_anything_is_written(light, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(resources, "available_memory", lambda: 2_000_000_000)
    assert script(small_settings(replay_capacity=10_000_000), tmp_path / "run") == 2
    err = capsys.readouterr().err
    assert "0.8 GB" in err and "2.0 GB" in err
    assert tree(tmp_path) == {}


A3C = {"agent": "a3c", "replay_ratio": 0.0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"env": "atari/Pongg", "preset": "baselines"},
            "there is no environment 'atari/Pongg'; did you mean atari/Pong",
        ),
        ({"env": "Pendulum-v1"}, "it takes --agent=acer_continuous"),
        ({"env": "Pendulum-v1", **A3C, "preset": "classic"}, "--preset=classic is not made"),
        ({**A3C, "preset": "classic_continuous"}, "--preset=classic_continuous is not made"),
        ({"network": "nature"}, "--network=nature"),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path, given, message, capsys):
    assert script(small_settings(**given), tmp_path / "run") == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("replay_start", "said"), [(100, False), (110, True)])
def test_a_run_too_short_to_replay_says_so(light, tmp_path, capsys, replay_start, said):
    settings = small_settings(total_steps=200, replay_start=replay_start)
    assert script(settings, tmp_path / "run") == 0
    assert (f"--replay_start={replay_start}" in capsys.readouterr().out) == said
    assert (rows_of(tmp_path / "run")[-1]["replay_updates"] == "0") == said


def test_an_interrupted_run_continues_from_its_checkpoint(stopped, capfd):
    run_dir, light, before = stopped
    steps = Checkpoints(run_dir / "checkpoints").restore(None).state["actor"]["steps"]
    assert 200 < steps < 250
    assert script(small_settings(), run_dir) == 0
    assert f"continuing {run_dir} at step {steps:,}" in capfd.readouterr().out
    check_progress(run_dir, small_settings())
    last = rows_of(run_dir)[-1]
    updates = int(last["on_policy_updates"]) + int(last["replay_updates"])
    assert Checkpoints(run_dir / "checkpoints").restore(None).arrays["online/weights"].tolist() == [updates] * 4
    assert 0 < len(light[-1].trajectories) < updates


def test_a_resumed_run_has_other_episodes_than_it_began_with(stopped, monkeypatch):
    run_dir, *_ = stopped
    steps = Checkpoints(run_dir / "checkpoints").restore(None).state["actor"]["steps"]
    seeds, make = [], run.envs.make
    monkeypatch.setattr(
        run.envs, "make", lambda env, n, seed, **more: (seeds.append(seed), make(env, n, seed, **more))[1]
    )
    train(small_settings(), run_dir, quiet=True)
    assert seeds[-1] == (0, steps, 0)


def test_a_shorter_progress_file_is_refused_and_kept(stopped, capsys):
    run_dir, *_ = stopped
    path = run_dir / "progress.csv"
    whole = path.read_bytes()
    position = Checkpoints(run_dir / "checkpoints").restore(None).state["position"]
    assert position < len(whole)
    for remains in (whole[: position - 1], None):
        path.write_bytes(remains) if remains is not None else path.unlink()
        before = tree(run_dir / "checkpoints")
        assert script(small_settings(), run_dir) == 2
        err = capsys.readouterr().err
        assert "progress.csv" in err and str(position) in err
        assert tree(run_dir / "checkpoints") == before
        assert (path.read_bytes() if path.exists() else None) == remains
    path.write_bytes(whole)
    assert script(small_settings(), run_dir) == 0


def test_an_agent_with_other_diagnostics_leaves_the_run_as_it_was(stopped, monkeypatch, capsys):
    run_dir, _, _ = stopped
    whole = (run_dir / "progress.csv").read_bytes()
    before = {name: content for name, content in tree(run_dir).items() if name != "lock"}
    with monkeypatch.context() as patch:
        patch.setattr(LightAgent, "prepare", lambda *_: ["value", "new"])
        assert script(small_settings(total_steps=900), run_dir) == 2
    assert "on_policy/new, replay/new" in capsys.readouterr().err
    assert {name: content for name, content in tree(run_dir).items() if name != "lock"} == before
    assert (run_dir / "progress.csv").read_bytes() == whole
    assert script(small_settings(), run_dir) == 0


def test_rows_without_a_checkpoint_are_never_discarded_without_a_word(stopped, monkeypatch, capsys):
    run_dir, light, _ = stopped
    shutil.rmtree(run_dir / "checkpoints")
    before = {name: content for name, content in tree(run_dir).items() if name != "lock"}
    for repair in ((), ("replay", "progress")):
        assert script(small_settings(), run_dir, repair=repair) == 2
        err = capsys.readouterr().err
        assert f"--run_dir={run_dir}" in err and "--repair=restart" in err
        assert {name: content for name, content in tree(run_dir).items() if name != "lock"} == before
    with monkeypatch.context() as patch:  # nor by a repair after which the run cannot begin
        patch.setattr(run, "make_actors", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(small_settings(), run_dir, quiet=True, repair=["restart"])
    assert {name: content for name, content in tree(run_dir).items() if name != "lock"} == before
    assert script(small_settings(), run_dir, repair=["restart"]) == 0
    assert (run_dir / "progress.csv.damaged-1").read_bytes() == before["progress.csv"]
    (entry,) = json.loads((run_dir / "run.json").read_text())["history"]
    (note,) = entry["notes"]
    assert entry["step"] == 0 and "progress.csv.damaged-1" in note and note in capsys.readouterr().err
    check_progress(run_dir, small_settings())


def test_a_run_that_has_ended_does_not_begin_anew_without_a_word(tmp_path, monkeypatch, capsys):
    use_light_agents(monkeypatch)
    run_dir = tmp_path / "run"
    train(small_settings(total_steps=200), run_dir, quiet=True)
    shutil.rmtree(run_dir / "checkpoints")
    (run_dir / "progress.csv").unlink()
    before = {name: content for name, content in tree(run_dir).items() if name != "lock"}
    assert script(small_settings(), run_dir) == 2
    assert "holds a run that has ended, but no checkpoint" in capsys.readouterr().err
    assert {name: content for name, content in tree(run_dir).items() if name != "lock"} == before
    assert script(small_settings(), run_dir, repair=["restart"]) == 0
    check_progress(run_dir, small_settings())


def test_a_run_killed_before_its_first_timed_checkpoint_is_not_one_that_lost_it(tmp_path, monkeypatch, capsys):
    def killed(update):
        if update == 40:
            raise Interrupted(9)
        return {"value": float(update)}

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        use_light_agents(patch, killed)
        train(small_settings(), tmp_path / "run", quiet=True)
    with pytest.raises(RunFolderError, match="step 0"):
        export_run(tmp_path / "run", tmp_path / "policy")
    use_light_agents(monkeypatch)
    lost = len(rows_of(tmp_path / "run"))
    assert script(small_settings(), tmp_path / "run") == 0
    output = capsys.readouterr()
    assert f"continuing {tmp_path}/run at step 0" in output.out
    assert f"{lost} rows" in output.err
    use_light_agents(monkeypatch)
    train(small_settings(), tmp_path / "twin", quiet=True)
    assert timeless(tmp_path / "run") == timeless(tmp_path / "twin")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", -1),
        ("checkpoint_minutes", float("nan")),
        ("gpu_memory_gb", -1),
        ("gpu_memory_gb", 4),
        ("actor_timeout", 0),
    ],
)
def test_what_flags_refuse_is_refused_from_python_too(name, value, tmp_path):
    with pytest.raises(SettingsError, match=f"^--{name}={value}: "):
        train(small_settings(), tmp_path / "run", device="cpu", **{name: value})
    assert not (tmp_path / "run").exists()


def cartpole():
    return CartPoleEnv()


def test_a_run_without_a_function_is_not_continued_with_one(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    train(small_settings(total_steps=100), tmp_path / "run", quiet=True)
    with pytest.raises(RunFolderError, match="CartPole-v1, which no function made: continue it without env"):
        train(small_settings(total_steps=200), tmp_path / "run", env=cartpole, quiet=True)


def test_a_label_that_names_no_environment_is_not_what_a_run_without_its_function_is_told(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    train(small_settings(env="corridor", total_steps=100), tmp_path / "run", env=cartpole, quiet=True)
    with pytest.raises(RunFolderError, match=rf"continue it in Python, with env={__name__}.cartpole$"):
        train(small_settings(env="corridor", total_steps=200), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("name", ["device", "repair"])
def test_none_is_the_usual_choice_or_refused_by_name(name, tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    if name == "repair":
        train(small_settings(total_steps=100), tmp_path / "run", quiet=True, repair=None)
        return
    with pytest.raises(SettingsError, match="^--device=None: must be auto, cpu or gpu:N"):
        train(small_settings(), tmp_path / "run", device=None)
    with pytest.raises(RunFolderError, match="^run_dir must be a path, got None"):
        train(small_settings(), None)


@pytest.mark.training
def test_what_was_learned_in_an_environment_that_a_function_made_is_not_taken_to_another(tmp_path):
    made, run_dir = "gymnasium.envs.classic_control.cartpole.CartPoleEnv", tmp_path / "run"
    policy = train(small_settings(total_steps=100), run_dir, env=CartPoleEnv, quiet=True)
    for path in (run_dir / "run.json", policy / "metadata.json"):
        assert json.loads(path.read_text())["env_function"] == made
    with pytest.raises(InvalidEnvironment, match=f"the function {made} made: give that as env, .*--env=module:Name-v0"):
        evaluate(policy, episodes=1)
    for env in (CartPoleEnv, "CartPole-v1"):
        assert evaluate(policy, episodes=1, env=env, max_episode_steps=9).episodes == 1
    with pytest.raises(RunFolderError, match=f"that a function made: continue it in Python, with env={made}"):
        train(small_settings(total_steps=200), run_dir, quiet=True)
    train(small_settings(total_steps=200), run_dir, env=functools.partial(CartPoleEnv), quiet=True)
    assert "the environment is made by" not in (run_dir / "run.json").read_text()
    train(small_settings(total_steps=300), run_dir, env=cartpole, quiet=True)
    assert f"the environment is made by {__name__}.cartpole instead of {made}" in (run_dir / "run.json").read_text()
    assert export_run(run_dir, tmp_path / "exported") >= 300
    assert load_policy(tmp_path / "exported").metadata["env_function"] == made


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
    with pytest.raises(SettingsError, match="--repair=all"):
        train(small_settings(), "never", repair=["all"])


def damage_replay(run_dir):
    for chunk in (run_dir / "checkpoints" / "replay").iterdir():
        os.truncate(chunk, 10)


def test_a_damaged_replay_is_given_up_on_request(stopped, capsys):
    run_dir, light, _ = stopped
    damage_replay(run_dir)
    before = {name: content for name, content in tree(run_dir).items() if name != "lock"}
    assert script(small_settings(), run_dir, repair=["restart"]) == 1  # the weights are whole
    err = capsys.readouterr().err
    assert "--repair=replay" in err
    assert {name: content for name, content in tree(run_dir).items() if name != "lock"} == before
    newest = Checkpoints(run_dir / "checkpoints").restore(None).state["actor"]["steps"]
    assert script(small_settings(), run_dir, repair=["replay"]) == 0
    output = capsys.readouterr()
    assert f"step {newest}: 0 rows" in output.err
    assert f"continuing {run_dir} at step {newest:,}" in output.out
    (entry,) = json.loads((run_dir / "run.json").read_text())["history"]
    assert entry["step"] == newest
    check_progress(run_dir, small_settings())


def test_a_damaged_curve_is_refused_and_replaced_on_request(stopped, capsys):
    run_dir, *_ = stopped
    path = run_dir / "progress.csv"
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[:first] + b"2" + whole[first + 1 :])
    assert script(small_settings(), run_dir) == 2
    err = capsys.readouterr().err
    assert "--repair=progress" in err
    known = Checkpoints(run_dir / "checkpoints").restore(None).state["actor"]
    assert script(small_settings(), run_dir, repair=["progress"]) == 0
    assert (run_dir / "progress.csv.damaged-1").read_bytes() == whole[:first] + b"2" + whole[first + 1 :]
    steps = [int(row["steps"]) for row in rows_of(run_dir)]
    assert steps[0] > 200 and steps[-1] >= 600
    (entry,) = json.loads((run_dir / "run.json").read_text())["history"]
    assert "progress.csv.damaged-1" in entry["notes"][1]
    # The episodes of the rows that are lost have no weight in means over the new ones.
    assert len(known["new_returns"]) <= int(rows_of(run_dir)[0]["episodes"]) < known["episodes"]


def test_a_run_in_another_version_of_its_environment_is_not_continued(stopped, capsys):
    run_dir, *_ = stopped
    path = run_dir / "run.json"
    document = json.loads(path.read_text())
    document["environment"]["observation_shape"] = [6]
    path.write_text(json.dumps(document))
    before = tree(run_dir)
    assert script(small_settings(), run_dir) == 2
    err = capsys.readouterr().err
    assert f"--run_dir={run_dir}" in err and "CartPole-v1" in err
    assert "observation_shape: (6,) there, (4,) here" in err
    assert tree(run_dir) == before


def test_an_unfinished_run_is_extended_and_its_log_interval_changed(stopped, capsys):
    run_dir, *_ = stopped
    assert script(small_settings(total_steps=500), run_dir) == 2
    assert "total_steps: 600 there, 500 here" in capsys.readouterr().err
    steps = Checkpoints(run_dir / "checkpoints").restore(None).state["actor"]["steps"]
    assert script(small_settings(total_steps=800, log_interval=50), run_dir) == 0
    document = json.loads((run_dir / "run.json").read_text())
    assert document["finished"] is True and document["steps"] >= 800
    assert (document["settings"]["total_steps"], document["settings"]["log_interval"]) == (800, 50)
    (entry,) = document["history"]
    assert entry["notes"] == ["--log_interval=50 instead of 100", "--total_steps=800 instead of 600", MOVED]
    assert entry["step"] == steps
    assert int(rows_of(run_dir)[-1]["steps"]) >= 800
    assert json.loads((run_dir / "policy" / "metadata.json").read_text())["settings"]["total_steps"] == 800


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threads": 1.5}, "--threads=1.5: must be a whole number"),
        ({"env_workers": None}, "--env_workers=None: must be a whole number"),
        ({"env_workers": 0}, "--env_workers=0: must be at least 1"),
        ({"checkpoint_minutes": None}, "--checkpoint_minutes=None: must be at least 0"),
        ({"actor_timeout": float("nan")}, "--actor_timeout=nan: must be at least 1"),
        ({"repair": "begin"}, "--repair=begin: must be of"),
    ],
)
def test_arguments_of_other_kinds_are_one_line(given, message, tmp_path):
    with pytest.raises(SettingsError, match=f"^{message}"):
        train(small_settings(), tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_a_run_that_continues_elsewhere_records_it(stopped, monkeypatch, capsys):
    run_dir, *_ = stopped
    path = run_dir / "run.json"
    document = json.loads(path.read_text())
    begun = document["commit"]
    document |= {"commit": "0a1b2c3", "changes": None, "packages_sha256": "1" * 64}
    document["machine"]["host"], document["threads"]["intra_op"] = "elsewhere", 64
    path.write_text(json.dumps(document))
    assert script(small_settings(), run_dir) == 0
    err = capsys.readouterr().err
    document = json.loads(path.read_text())
    (entry,) = document["history"]
    host, threads = entry["machine"]["host"], entry["threads"]["intra_op"]
    assert entry["notes"] == [
        f"commit {begun} instead of 0a1b2c3",
        "other installed packages",
        f"machine: host {host} instead of elsewhere",
        f"threads: intra_op {threads} instead of 64",
    ]
    assert all(note in err for note in entry["notes"])
    assert (document["commit"], entry["commit"]) == ("0a1b2c3", begun)
    # Compared with the newest, not with the first; and the policy is of the code that trained it last.
    metadata = run_dir / "policy" / "metadata.json"
    assert json.loads(metadata.read_text())["commit"] == begun
    assert script(small_settings(total_steps=700), run_dir) == 0
    assert len(json.loads(path.read_text())["history"][1]["notes"]) == 3
    monkeypatch.setattr("acer_tf.runs.provenance.code_version", lambda: {"commit": "of today", "changes": None})
    export_run(run_dir, run_dir.parent / "exported")
    assert json.loads((run_dir.parent / "exported" / "metadata.json").read_text())["commit"] == begun


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


def test_a_finished_run_is_extended_from_its_weights_with_an_empty_replay(done, light, capsys):
    before, updates = (done / "progress.csv").read_bytes(), light[-1].weights.value[0]
    assert script(small_settings(log_interval=50), done) == 0  # nothing to do
    assert json.loads((done / "run.json").read_text())["history"] == []
    capsys.readouterr()
    assert script(small_settings(total_steps=900), done) == 0
    err = capsys.readouterr().err
    (entry,) = json.loads((done / "run.json").read_text())["history"]
    assert entry["step"] >= 600 and all(f": {note}\n" in err for note in entry["notes"])
    empty = "continued from the weights, with an empty replay"
    assert entry["notes"] == ["--total_steps=900 instead of 600", MOVED, empty]
    assert (done / "progress.csv").read_bytes().startswith(before)
    steps = [int(row["steps"]) for row in rows_of(done)]
    assert steps == sorted(set(steps)) and steps[-1] >= 900
    assert light[-1].weights.value[0] > updates
    assert script(small_settings(total_steps=900), done) == 0
    assert "already finished" in capsys.readouterr().out


def test_an_extended_run_repeats_no_random_number(light, tmp_path, monkeypatch):
    used = []
    for kind, name in ((LightAgent, "act"), (TrajectoryReplay, "batch"), (Loop, "replays_due")):
        usual = getattr(kind, name)

        def noted(self, *arguments, _usual=usual):
            # The seed of an unroll's row, or the state of a generator before it draws.
            which = type(self).__name__
            used.append((which, str(self._generator.bit_generator.state if which != "LightAgent" else arguments[1])))
            return _usual(self, *arguments)

        monkeypatch.setattr(kind, name, noted)
    assert script(small_settings(replay_ratio=1.5), tmp_path / "run") == 0
    before = set(used)
    used.clear()
    assert script(small_settings(replay_ratio=1.5, total_steps=900), tmp_path / "run") == 0
    assert {name for name, _ in used} == {"LightAgent", "TrajectoryReplay", "Loop"}
    assert not before & set(used)


def test_an_extension_that_is_too_short_to_replay_says_so(light, tmp_path, capsys):
    run_dir = tmp_path / "run"
    assert script(small_settings(replay_start=100), run_dir) == 0
    assert "no replay" not in capsys.readouterr().out
    assert script(small_settings(replay_start=100, total_steps=700), run_dir) == 0
    said = capsys.readouterr().out
    assert "--replay_start=100" in said and "200 more steps" in said
    assert rows_of(run_dir)[-1]["replay_updates"] == rows_of(run_dir)[-2]["replay_updates"]


def test_the_exponents_of_priorities_follow_the_new_end(light, tmp_path, monkeypatch, capsys):
    draws, batch = [], PrioritizedReplay.batch

    def recorded(replay, on_policy, groups, progress):
        draws.append(progress)
        return batch(replay, on_policy, groups, progress)

    monkeypatch.setattr(PrioritizedReplay, "batch", recorded)
    settings = small_settings(replay_priority="proportional")
    train(settings, tmp_path / "run", quiet=True)
    assert draws[0] == 10 / 600 and draws[-1] == 1 and draws == sorted(draws)
    draws.clear()
    train(dataclasses.replace(settings, total_steps=700), tmp_path / "run", quiet=True)
    assert 600 / 700 < draws[0] < 620 / 700 and draws[-1] == 1
    assert f"{MOVED}, importance_exponent\n" in capsys.readouterr().err


def test_a_run_continues_with_its_recorded_length_if_no_flag_says_otherwise(done, capsys):
    assert main(["train", "--env=CartPole-v1", f"--run_dir={done}", *SMALL_FLAGS]) == 0
    assert "already finished" in capsys.readouterr().out


@pytest.mark.parametrize(("stop", "number"), [(KeyboardInterrupt, signal.SIGINT), (Terminated, signal.SIGTERM)])
def test_a_signal_while_restoring_ends_without_a_traceback(stopped, monkeypatch, capsys, stop, number):
    run_dir, *_ = stopped

    def interrupted(*args, **kwargs):
        raise stop

    before = tree(run_dir / "checkpoints")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "restore", interrupted)
        assert script(small_settings(), run_dir) == 128 + number
    err = capsys.readouterr().err
    assert err.startswith(f"stopped by {number.name}") and err.count("\n") == 1
    assert tree(run_dir / "checkpoints") == before
    assert script(small_settings(), run_dir) == 0


@pytest.mark.parametrize(
    "name", ["lock", "run.json", "packages.txt", "progress.csv", "tensorboard", "checkpoints", "checkpoints/replay"]
)
def test_links_that_would_be_written_or_deleted_through_are_refused(stopped, tmp_path, name, capsys):
    run_dir, *_ = stopped
    victim = tmp_path / "victim"
    (run_dir / name).rename(victim)
    (run_dir / name).symlink_to(victim)
    before = tree(victim) if victim.is_dir() else victim.read_bytes()
    assert script(small_settings(), run_dir) == 2
    assert f"error: --run_dir={run_dir} has a link named {name}" in capsys.readouterr().err
    assert (tree(victim) if victim.is_dir() else victim.read_bytes()) == before


def test_a_policy_that_cannot_be_written_at_the_end_is_a_failure_not_bad_input(light, tmp_path, monkeypatch):
    def refuse(policy):
        raise PolicyFolderError(f"{policy} exists and is not a policy")

    monkeypatch.setattr(active_run, "exporting", refuse)
    with pytest.raises(PolicyFolderError, match="not a policy") as refused:
        train(small_settings(), tmp_path / "run", quiet=True)
    assert refused.value.status == 1
    check_progress(tmp_path / "run", small_settings())


@pytest.mark.parametrize("name", ["policy", "best_policy"])
@pytest.mark.parametrize("begun", [False, True])
def test_what_would_be_in_the_way_of_a_policy_is_refused_at_the_beginning(stopped, tmp_path, name, begun, capsys):
    run_dir = stopped[0] if begun else tmp_path / "run"
    (run_dir / name).mkdir(parents=True)
    (run_dir / name / "notes.txt").write_text("mine")
    before = tree(run_dir)
    assert script(small_settings(), run_dir) == 2
    assert f"error: --run_dir={run_dir} has a {name} that is not a policy" in capsys.readouterr().err
    assert tree(run_dir) == before


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("new/" + "x" * 300, "cannot be used: .*File name too long"),
        ("x" * 300, "cannot be used: .*File name too long"),
        ("file/run", "cannot be used: .*Not a directory"),
        ("run/checkpoints", "is inside of the run in "),
        ("run/checkpoints/a/b", "is inside of the run in "),
        ("run/policy/b", "is inside of the run in "),
        ("link/a", "is inside of the run in "),
    ],
)
def test_a_place_for_no_run_is_refused_and_nothing_is_left_there(done, tmp_path, place, complaint, capsys):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(done / "checkpoints")
    before = tree(tmp_path)
    try:
        status: object = main(["train", f"--run_dir={tmp_path / place}", *SMALL_FLAGS])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    err = capsys.readouterr().err
    assert re.fullmatch(rf"error: --run_dir={re.escape(str(tmp_path / place))}:? {complaint}.*\n", err)
    assert tree(tmp_path) == before


def test_an_empty_run_dir_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--run_dir=", *SMALL_FLAGS])
    assert "error: --run_dir=:" in capsys.readouterr().err
    with pytest.raises(RunFolderError, match="^--run_dir= must name a folder"):
        train(small_settings(), "", quiet=True)
    assert tree(tmp_path) == {}


def test_a_run_whose_environments_cannot_be_made_leaves_nothing(light, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no simulator")

    monkeypatch.setattr(run.envs, "make", fail)
    assert script(small_settings(), tmp_path / "new" / "run") == 1
    assert tree(tmp_path) == {}


def test_a_new_run_does_not_say_so(light, tmp_path, capsys):
    assert script(small_settings(), tmp_path / "run") == 0
    assert capsys.readouterr().err == ""


def test_if_all_checkpoints_are_damaged_the_run_never_starts_over(stopped, capsys):
    run_dir, *_ = stopped
    for state in (run_dir / "checkpoints").glob("*/state.npz"):
        os.truncate(state, 100)
    before = {name: content for name, content in tree(run_dir).items() if name != "lock"}
    for _ in range(2):
        assert script(small_settings(), run_dir) == 1
        err = capsys.readouterr().err
        assert "error: all 2 checkpoints" in err and "Traceback" not in err
    assert {name: content for name, content in tree(run_dir).items() if name != "lock"} == before
    assert script(small_settings(), run_dir, repair=["restart"]) == 0
    assert (run_dir / "checkpoints.damaged-1").is_dir() and (run_dir / "progress.csv.damaged-1").exists()
    check_progress(run_dir, small_settings())


def test_a_damaged_checkpoint_costs_the_steps_since_the_previous_one(stopped, capsys):
    run_dir, *_ = stopped
    newest = max((run_dir / "checkpoints").glob("*/state.npz"))
    before = max(p for p in (run_dir / "checkpoints").glob("*/state.npz") if p != newest)
    os.truncate(newest, 100)
    assert script(small_settings(), run_dir) == 0
    output = capsys.readouterr()
    assert f"checkpoint {newest.parent} is damaged" in output.err
    assert f"continuing {run_dir} at step {int(before.parent.name):,}" in output.out
    check_progress(run_dir, small_settings())


def test_the_policy_of_an_unfinished_run_can_be_exported_without_disturbing_it(stopped):
    run_dir, light, _ = stopped
    state = Checkpoints(run_dir / "checkpoints").restore(None)
    before = tree(run_dir)
    lock = Lock(run_dir)  # as while it runs
    assert export_run(run_dir, run_dir.parent / "exported") == state.state["actor"]["steps"]
    lock.release()
    assert light[-1].weights.value.tolist() == state.arrays["online/weights"].tolist()
    metadata = json.loads((run_dir.parent / "exported" / "metadata.json").read_text())
    assert metadata["steps"] == state.state["actor"]["steps"]
    assert {n: c for n, c in tree(run_dir).items() if n != "lock"} == {n: c for n, c in before.items() if n != "lock"}
    assert script(small_settings(), run_dir) == 0


def test_there_must_be_something_to_export(light, stopped, tmp_path):
    run_dir, *_ = stopped
    with pytest.raises(RunFolderError, match="run.json"):
        export_run(tmp_path / "absent", tmp_path / "policy")
    shutil.rmtree(run_dir / "checkpoints")
    with pytest.raises(RunFolderError, match="checkpoint"):
        export_run(run_dir, tmp_path / "policy")
    assert not (tmp_path / "policy").exists()


def test_a_checkpoint_of_an_agent_with_other_variables_is_refused(stopped, capsys, monkeypatch):
    run_dir, light, _ = stopped
    make = run.make_agent

    def other(*arguments):
        agent = make(*arguments)
        agent.weights.value = np.zeros(5, np.float32)
        return agent

    monkeypatch.setattr(run, "make_agent", other)
    monkeypatch.setattr("acer_tf.training.export_run.make_agent", other)
    assert script(small_settings(), run_dir) == 1
    assert "another version" in capsys.readouterr().err
    with pytest.raises(Mismatch, match="another version"):
        export_run(run_dir, run_dir / "policy")


def test_a_checkpoint_that_lacks_a_part_of_the_state_is_refused_and_left(stopped, capsys, monkeypatch):
    run_dir, *_ = stopped
    before, restore = tree(run_dir), Checkpoints.restore

    def older(self, *arguments, **options):
        snapshot = restore(self, *arguments, **options)
        assert snapshot.state.keys() == {*active_run.STATE, "position", "progress_sha256"}
        del snapshot.state["last_row"]
        return snapshot

    monkeypatch.setattr(Checkpoints, "restore", older)
    assert script(small_settings(), run_dir) == 1
    assert f"the checkpoint in {run_dir} has no 'last_row': another version wrote it" in capsys.readouterr().err
    assert tree(run_dir) == before


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
