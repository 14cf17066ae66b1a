"""The search of hyper-parameters, on runs that are stand-ins, and on a world of one step."""

import csv
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import optuna
import pytest

from acer_tf.commands import tune
from acer_tf.errors import RunFolderError, SettingsError, SweepError
from acer_tf.reproduction import trials
from acer_tf.reproduction.evidence import read_evidence
from acer_tf.reproduction.tuning import Tuning, search_space
from acer_tf.settings import make_settings
from acer_tf.settings.declaration import Search, declarations
from acer_tf.settings.record import settings_document
from acer_tf.settings.settings import Settings
from acer_tf.training.resolve import resolve
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import tree

TRIAL = str(Path(__file__).with_name("trial.py"))
ROOT = Path(__file__).parents[2]
CARTPOLE = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
PENDULUM = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))
LINES = 4  # of a journal with one trial
RATE = {"learning_rate": Search(1e-5, 1e-1, log=True)}


@pytest.fixture
def searched(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "PROGRAM", (sys.executable, TRIAL))
    monkeypatch.chdir(tmp_path)

    def run(*flags):
        usual = ["--env=CartPole-v1", "--total_steps=1000", "--tune_dir=search", "--search=learning_rate=1e-5:1e-1:log"]
        return tune.main(["tune", *usual, *flags])

    return run


def journal():
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend("search/journal.log"))
    return optuna.load_study(study_name="tune", storage=storage).trials


@pytest.mark.process
@pytest.mark.slow
def test_a_search_ends_with_the_best_beside_what_was_given_on_seeds_it_did_not_see(searched, monkeypatch, capsys):
    assert searched("--trials=12", "--processes=2", "--evaluation_seeds=2", "--learning_rate_final=0") == 0
    trials = journal()
    assert len(trials) == 12
    given = make_settings(env="CartPole-v1").learning_rate
    assert trials[0].params == {"learning_rate": given}, "the first trial is what was given"
    complete = [t for t in trials if t.state == optuna.trial.TrialState.COMPLETE]
    best = max(complete, key=lambda t: t.value)
    assert best.value > trials[0].value == pytest.approx(100 - 20 * 0.477, abs=0.01)
    out = capsys.readouterr().out
    assert "python -m acer_tf train --env=CartPole-v1" in out
    assert f"--learning_rate={best.params['learning_rate']}" in out
    output = Path("my_results/tune_CartPole_v1")
    rows = list(csv.DictReader((output / "trials.csv").open()))
    assert len(rows) == 12 and rows[0]["trial"] == str(best.number)
    evidence = read_evidence(output)
    seeds = {cell.seed for cell in evidence.cells}
    assert seeds == {1, 2}, "those of the search are 0"
    compared = list(csv.DictReader((output / "table.csv").open()))
    assert compared[0]["setting"] == f"best: trial {best.number}" and compared[0]["seeds"] == "2 of 2"
    assert set(evidence.figures) == {"figure", "importance"}
    assert (output / "importance.png").exists() and (output.parent / "index.html").exists()
    before = tree(output)
    assert searched("--tune_dir=other", "--entropy_weight=0.5") == 2
    said = capsys.readouterr().err
    assert said == "error: --output=my_results/tune_CartPole_v1 holds the evidence of another search: choose another\n"
    assert tree(output) == before and not Path("other").exists()

    experiment = json.loads((output / "experiment.json").read_text())  # as if that of another had come meanwhile
    own_evidence = tune.own_evidence
    looks = iter([lambda *_: None, own_evidence])
    monkeypatch.setattr(tune, "own_evidence", lambda *given: next(looks)(*given))
    flags = ["--trials=1", "--evaluation_seeds=1", "--entropy_weight=0.5", "--tune_dir=other"]
    assert searched(*flags) == 1
    assert "holds the evidence of another search" in capsys.readouterr().err
    assert json.loads((output / "experiment.json").read_text()) == experiment
    monkeypatch.setattr(tune, "own_evidence", own_evidence)

    def full(*_, **__):
        raise RunFolderError("--run_dir=search/evaluation cannot be used: No space left on device")

    monkeypatch.setattr(tune, "run_sweep", full)
    assert searched("--trials=12", "--evaluation_seeds=2", "--learning_rate_final=0") == 1
    assert "cannot be used" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.slow
def test_interim_returns_below_the_median_stop_a_trial(searched, monkeypatch):
    monkeypatch.setenv("SLOW", "0.02")
    assert searched("--trials=14", "--processes=2", "--evaluation_seeds=1") == 0
    pruned = [t for t in journal() if t.state == optuna.trial.TrialState.PRUNED]
    assert pruned
    for trial in pruned:
        lines = Path(f"search/cells/trial-{trial.number:04}/run/progress.csv").read_text().splitlines()
        assert len(lines) < 50, "it was stopped, not only called pruned"
        assert not Path(f"search/cells/trial-{trial.number:04}/run/checkpoints").exists()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_after_a_signal_the_same_command_continues_and_two_processes_share_the_trials(number, tmp_path, monkeypatch):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SLOW": "0.05"}
    code = f"import sys; from acer_tf.commands import tune; tune.PROGRAM = (sys.executable, {TRIAL!r}); "
    code += "sys.exit(tune.main(['tune', *sys.argv[1:]]))"
    flags = ["--env=CartPole-v1", "--total_steps=1000", "--tune_dir=search", "--search=learning_rate=1e-5:1e-1:log"]
    command = [sys.executable, "-c", code, *flags, "--trials=6", "--evaluation_seeds=1"]

    def start():
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes)

    first = start()
    rows = tmp_path / "search/cells/trial-0000/run/progress.csv"
    deadline = time.monotonic() + 120
    while not (rows.exists() and rows.read_text().count("\n") > 6):
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.05)
    first.send_signal(number)
    said, _ = first.communicate(timeout=60)
    if number == signal.SIGINT:
        assert first.returncode == 128 + signal.SIGINT and "the same command continues" in said
        assert 6 < len(rows.read_text().splitlines()) < 51, "the trial was stopped, too"
    (tmp_path / "search/journal.log").open("a").write('{"op_code": 4, "worker')  # and the machine stopped in a line
    again = [start() for _ in range(2 if number == signal.SIGKILL else 1)]
    answers = [(process.communicate(timeout=300), process.returncode) for process in again]
    assert all(status == 0 for _, status in answers), answers
    monkeypatch.chdir(tmp_path)
    trials = journal()
    assert len(trials) == 6 and {t.state.name for t in trials} <= {"COMPLETE", "PRUNED"}
    first_run = (tmp_path / "search/cells/trial-0000/run/progress.csv").read_text().splitlines()
    assert len(first_run) == 51, "continued where it was, not begun again"
    said = [out for (out, _), _ in answers]
    taken = [{line.split(":")[0] for line in out.splitlines() if line.startswith("trial ")} for out in said]
    assert sum(map(len, taken)) == len(set().union(*taken)) == 6


@pytest.mark.process
@pytest.mark.slow
def test_trials_that_fail_are_recorded_and_a_search_without_any_success_stops(searched, monkeypatch, capsys):
    monkeypatch.setenv("FAIL", "1e-6")
    assert searched("--trials=9") == 1
    err = capsys.readouterr().err
    assert "the first 3 trials failed" in err and "it diverged" in err
    assert [t.state.name for t in journal()] == ["FAIL"] * 3


def test_values_that_do_not_go_together_are_a_failed_trial(searched, monkeypatch, capsys):
    def refuse(self, trial):
        raise SettingsError(f"no {trial.number}")

    monkeypatch.setattr(Tuning, "settings_of", refuse)
    assert searched("--trials=9") == 1
    assert "the first 3 trials failed, the last so: no 2\n" in capsys.readouterr().err
    assert [(t.state.name, t.user_attrs["reason"]) for t in journal()] == [("FAIL", f"no {n}") for n in range(3)]


def test_a_run_in_which_no_episode_has_ended_is_a_failed_trial(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    tuning = Tuning(tmp_path / "search", settings, RATE, 2)
    trial, lock = tuning.take({})
    record = {"format": 1, "settings": settings_document(settings) | {"network": "mlp", "precision": "float32"}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "progress.csv").write_text("steps,seconds,episodes,mean_return,interval_return\n100,1,0,,\n")
    place = SimpleNamespace(over="finished", reason="", folder=SimpleNamespace(run_dir=tmp_path))
    said = trials._Run(trial, lock, place).tell(tuning.study)
    assert said.startswith("trial 0: failed: no episode has ended  (learning_rate ")
    (told,) = tuning.study.trials
    assert (told.state.name, told.user_attrs["reason"]) == ("FAIL", "no episode has ended")


def test_what_is_searched_has_an_effect_and_is_not_given():
    settings = make_settings(env="CartPole-v1")
    space = search_space(resolve(settings, CARTPOLE), CARTPOLE, {"gamma": 0.9}, {})
    assert {"learning_rate", "entropy_weight", "replay_ratio"} <= set(space)
    assert not {"gamma", "policy_std", "target_period"} & set(space)
    a3c = make_settings(env="CartPole-v1", agent="a3c")
    assert not {"replay_ratio", "trust_region_delta"} & set(search_space(resolve(a3c, CARTPOLE), CARTPOLE, {}, {}))
    continuous = make_settings(env="Pendulum-v1", agent="acer_continuous")
    assert "policy_std" in search_space(resolve(continuous, PENDULUM), PENDULUM, {}, {})


def test_all_declared_values_are_allowed():
    declared = {name: d.search for name, d in declarations(Settings).items() if d.search}
    assert len(declared) >= 8
    for name, tried in declared.items():
        for value in tried.ends:
            assert declarations(Settings)[name].range.holds(value), name
            make_settings(**{"env": "CartPole-v1", name: value})


def test_whole_numbers_may_have_an_exponent():
    assert tune._search("replay_capacity=1e3:1e4:log") == ("replay_capacity", Search(1000, 10000, log=True))
    assert tune._search("replay_start=1e3,2000") == ("replay_start", Search(values=(1000, 2000)))


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--search=nonsense"], "--search=nonsense"),
        (["--search=seed=1,2"], "--search=seed"),
        (["--search=burn_in"], "--search=burn_in"),
        (["--search=gamma=2:3"], "--gamma=2"),
        (["--search=gamma=0.9:0.5"], "--search=gamma=0.9:0.5"),
        (["--search=gamma=a"], "--search=gamma=a"),
        (["--search=gamma=0:0.9:log"], "--search=gamma=0:0.9:log"),
        (["--search=max_gradient_norm=1:inf"], "--search=max_gradient_norm=1:inf"),
        (["--search=target_period=5,6"], "--search=target_period"),
        (["--search=gamma", "--gamma=0.9"], "--search=gamma"),
        (["--agent=a3c", "--search=replay_ratio=1,2"], "--search=replay_ratio"),
        (["--search=dense_units=256,256"], "'256' is one value; give two or more, separated by ; if they have commas"),
        (["--search=dense_units=64,64;64,x"], "--dense_units=64,x"),
        (["--search=gamma=0.9,0.8", "--search=gamma"], "--search=gamma=...: names gamma a second time"),
        (["--stall_minutes=5"], "--stall_minutes=5.0: must be above --checkpoint_minutes=10.0"),
    ],
)
def test_a_search_that_cannot_be_is_refused_in_a_line(tmp_path, monkeypatch, capsys, flags, wanted):
    monkeypatch.chdir(tmp_path)
    arguments = ["--env=CartPole-v1", "--total_steps=100", "--tune_dir=search", *flags]
    assert tune.main(["tune", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and wanted in err and not list(tmp_path.iterdir())


def test_a_folder_of_something_else_and_another_search_are_refused(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").touch()
    with pytest.raises(SweepError, match="notes.txt"):
        Tuning(other, settings, RATE, 3)
    Tuning(tmp_path / "search", settings, RATE, 3)
    Tuning(tmp_path / "search", settings, RATE, 9)  # more trials may be asked for later
    document = json.loads((tmp_path / "search" / "tune.json").read_text())
    del document["settings"]["stop_at_return"]  # as before there was this setting
    (tmp_path / "search" / "tune.json").write_text(json.dumps(document))
    Tuning(tmp_path / "search", settings, RATE, 9)
    before = (tmp_path / "search" / "tune.json").read_text()
    with pytest.raises(SweepError, match="gamma: 0.99 there, 0.5 here"):
        Tuning(tmp_path / "search", make_settings(env="CartPole-v1", total_steps=100, gamma=0.5), RATE, 3)
    with pytest.raises(SweepError, match="gamma"):
        Tuning(tmp_path / "search", settings, {**RATE, "gamma": Search(values=(0.9, 0.99))}, 3)
    assert (tmp_path / "search" / "tune.json").read_text() == before
    (tmp_path / "search" / "tune.json").write_text("{")
    with pytest.raises(SweepError, match="tune.json cannot be read"):
        Tuning(tmp_path / "search", settings, RATE, 3)


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (lambda lines: [b"\x80" + lines[0], *lines[1:]], "line 1"),
        (lambda lines: [*lines[:-1], lines[-1].replace(b"{", b"[")], f"line {LINES}"),  # Optuna would pass it over
        (lambda lines: [*lines, b"5\n"], f"line {LINES + 1}"),
        (lambda lines: [line.replace(b'"op_code":4', b'"op_code":77') for line in lines], "AssertionError"),
        (lambda lines: [line.replace(b"tune", b"tunE") for line in lines], "nothing of trial-0000"),
        (lambda lines: [], "nothing of trial-0000"),
    ],
)
def test_a_damaged_journal_is_refused_and_left_as_it_is(tmp_path, damage, wanted):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    _, lock = Tuning(tmp_path / "search", settings, RATE, 2).take({})
    lock.release()
    (tmp_path / "search" / "cells" / "trial-0000" / "run").mkdir(parents=True)
    path = tmp_path / "search" / "journal.log"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == LINES
    path.write_bytes(damaged := b"".join(damage(lines)))
    with pytest.raises(SweepError, match=f"journal.log cannot be read .*{wanted}"):
        Tuning(tmp_path / "search", settings, RATE, 2)
    assert path.read_bytes().startswith(damaged)


def test_half_a_line_is_not_cut_while_another_process_writes_it(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    Tuning(tmp_path / "search", settings, RATE, 2)
    path = tmp_path / "search" / "journal.log"
    whole = path.read_bytes()
    with (tmp_path / "search" / "journal.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path.write_bytes(whole + b'{"op')
        other = threading.Thread(target=Tuning, args=(tmp_path / "search", settings, RATE, 2))
        other.start()
        other.join(0.5)
        assert other.is_alive() and path.read_bytes() == whole + b'{"op'
    other.join()
    assert path.read_bytes().startswith(whole) and all(map(json.loads, path.read_bytes().splitlines()))


def test_the_first_trial_is_what_was_given_as_far_as_it_is_searched(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100, max_gradient_norm=math.inf)
    space = RATE | {
        "unroll_length": Search(values=(5, 10, 20)),
        "replay_ratio": Search(values=(1.0, 4.0)),
        "gamma": Search(values=(0.5, 0.6)),
        "max_gradient_norm": Search(1.0, 5.0),
        "entropy_weight_final": Search(0.0, 0.01),  # given as None
    }
    trial, _ = Tuning(tmp_path / "search", settings, space, 2).take({})
    first = trial.params
    assert (first["unroll_length"], first["replay_ratio"], first["learning_rate"]) == (20, 4.0, settings.learning_rate)
    assert first["gamma"] in (0.5, 0.6) and 1 <= first["max_gradient_norm"] <= 5, "which were given otherwise"


@pytest.mark.parametrize("dies", [None, "tell", "enqueue_trial"])
def test_a_trial_that_died_before_it_had_its_values_has_failed_and_what_was_given_is_tried_all_the_same(
    tmp_path, dies, monkeypatch
):
    """Also if the process dies that finds it, before it `dies`."""
    settings = make_settings(env="CartPole-v1", total_steps=100)
    here = Tuning(tmp_path / "search", settings, RATE, 2)
    here.study.ask()
    if dies:
        there = Tuning(tmp_path / "search", settings, RATE, 2)
        monkeypatch.setattr(there.study, dies, Mock(side_effect=SystemExit))
        lock = there._lock(0)
        monkeypatch.setattr(there, "_lock", lambda number: lock)
        with pytest.raises(SystemExit):
            there.take({})
        lock.release()  # as the kernel does
    trial, _ = here.take({})
    assert (trial.number, trial.params) == (1, {"learning_rate": settings.learning_rate})
    assert [t.state.name for t in here.study.trials] == ["FAIL", "RUNNING"]
    other, _ = here.take({"trial-0001": None})
    assert other.params != trial.params and here.take({"trial-0001": None, "trial-0002": None}) is None


def test_a_trial_that_another_process_holds_is_not_taken(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    here, there = (Tuning(tmp_path / "search", settings, RATE, 2) for _ in range(2))
    (first, lock), (second, _) = here.take({}), there.take({})
    assert (first.number, second.number) == (0, 1)
    assert there.take({"trial-0001": None}) is None
    lock.release()  # as if its process had died
    again, _ = there.take({"trial-0001": None})
    assert again.number == 0 and again.params == first.params
    assert json.loads((tmp_path / "search" / "tune.json").read_text())["search"]["learning_rate"]["log"] is True
