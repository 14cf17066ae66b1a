"""Runs whose checkpoints, curve or replay are damaged, lost or of another agent: nothing is lost without a word."""

import json
import os
import shutil

import numpy as np
import pytest

from acer_tf.errors import Interrupted, Mismatch, RunFolderError
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.training import active_run, run
from acer_tf.training.export_run import export_run
from acer_tf.training.train import train
from tests.training.scripted import (
    LightAgent,
    check_progress,
    rows_of,
    script,
    small_settings,
    timeless,
    tree,
    use_light_agents,
)


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
