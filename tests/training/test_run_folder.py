"""Folders that a run begins in: what is refused, and that a refusal leaves them as they were."""

import json
import math
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from acer_tf import resources
from acer_tf.commands.train import main
from acer_tf.errors import PolicyFolderError, RunFolderError, SettingsError
from acer_tf.runs.folder import Lock
from acer_tf.training import active_run, resolve, run
from acer_tf.training.device import Device
from acer_tf.training.export_run import export_run
from acer_tf.training.train import train
from tests.runs.test_folder import HOLDER
from tests.training.scripted import (
    SMALL_FLAGS,
    check_progress,
    rows_of,
    script,
    small_settings,
    tree,
)

ROOT = Path(__file__).resolve().parents[2]
A3C = {"agent": "a3c", "replay_ratio": 0.0}
DEEP = '{"settings": ' + "[" * 100_000


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
