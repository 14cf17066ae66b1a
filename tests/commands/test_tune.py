"""The search of hyper-parameters, on runs that are stand-ins, and on a world of one step."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest

from acer_tf.commands import tune
from acer_tf.errors import RunFolderError, SettingsError
from acer_tf.reproduction.evidence import read_evidence
from acer_tf.reproduction.tuning import Tuning, largest
from acer_tf.settings import make_settings
from acer_tf.settings.declaration import Search
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import tree

TRIAL = str(Path(__file__).with_name("trial.py"))
ROOT = Path(__file__).parents[2]
CARTPOLE = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
DIVERGED = (
    "stopped in CartPole-v1: critic_loss is nan in replay update 1, at step 8; checkpoints in here are from before"
)


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
    monkeypatch.setattr(tune, "_FOR_IMPORTANCE", 4)
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
    assert (
        f"12 trials, {len(complete)} of them to 1,000 steps, {12 - len(complete)} stopped early, 0 failed"
        in evidence.text[0]
    )
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
    looks = iter([lambda *_, **__: None, own_evidence])
    monkeypatch.setattr(tune, "own_evidence", lambda *given, **names: next(looks)(*given, **names))
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
@pytest.mark.parametrize(
    ("status", "says", "state", "attempts"),
    [(1, "it broke", "FAIL", 2), (2, "--gamma=2: must be", "FAIL", 1), (1, DIVERGED, "PRUNED", 1)],
)
def test_trials_that_fail_are_recorded_and_a_search_without_any_success_stops(
    status, says, state, attempts, searched, monkeypatch, capsys
):
    """Another attempt is made only where it may help; what diverged is known to Optuna's sampler."""
    for name, value in {"FAIL": "1e-6", "STATUS": str(status), "SAYS": says}.items():
        monkeypatch.setenv(name, value)
    assert searched("--trials=9") == 1
    err = capsys.readouterr().err
    assert f"the first 3 trials failed, the last so: exit status {status}: {says}\n" in err
    assert [(t.state.name, t.user_attrs["reason"]) for t in journal()] == [(state, f"exit status {status}: {says}")] * 3
    tried = json.loads(Path("search/cells/trial-0002/attempts.json").read_text())["attempts"]
    assert len(tried) == attempts


def test_values_that_do_not_go_together_are_a_failed_trial(searched, monkeypatch, capsys):
    def refuse(self, trial):
        raise SettingsError(f"no {trial.number}")

    monkeypatch.setattr(Tuning, "settings_of", refuse)
    assert searched("--trials=9") == 1
    out, err = capsys.readouterr()
    assert "the first 3 trials failed, the last so: no 2\n" in err
    assert [(t.state.name, t.user_attrs["reason"]) for t in journal()] == [("PRUNED", f"no {n}") for n in range(3)]
    assert [line.partition("  (")[0] for line in out.splitlines() if line.startswith("trial")] == [
        f"trial {n}: failed: no {n}" for n in range(3)
    ]


def test_the_memory_that_is_needed_is_that_of_the_upper_ends(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = ["--env=CartPole-v1", "--total_steps=100", "--tune_dir=search", "--search=replay_capacity=1e4:1e11:log"]
    assert tune.main(["tune", *flags]) == 2
    assert "--processes=1: 1 cells at a time need up to " in capsys.readouterr().err and not list(tmp_path.iterdir())
    settings = make_settings(env="CartPole-v1")
    space = {"replay_start": Search(10, 60_000), "gamma": Search(0.5, 0.9)}
    assert largest(settings, CARTPOLE, space) == settings, "which do not go together with the capacity"
    space = {
        "unroll_length": Search(values=(50, 5)),
        "gamma": Search(0.5, 0.9),
        "retrace": Search(values=(True, False)),
    }
    assert largest(settings, CARTPOLE, space) == make_settings(env="CartPole-v1", unroll_length=50, gamma=0.9)


def test_whole_numbers_may_have_an_exponent():
    assert tune._search("replay_capacity=1e3:1e4:log") == ("replay_capacity", Search(1000, 10000, log=True))
    assert tune._search("replay_start=1e3,2000") == ("replay_start", Search(values=(1000, 2000)))


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--search=nonsense"], "--search=nonsense"),
        (["--search=lr=1e-3,1e-2"], "there is no setting 'lr': use learning_rate"),
        (["--search=seed=1,2"], "--search=seed"),
        (["--search=evaluate_every=10,20"], "must begin with a setting that decides how a run learns"),
        (["--search=stop_at_return=1,2"], "must begin with a setting that decides how a run learns"),
        (["--search=initialize_from=a,b"], "must begin with a setting that decides how a run learns"),
        (["--search=unroll_length=1.5:3"], "--search=unroll_length=1.5:3: '1.5' must be a whole number, such as"),
        (["--search=burn_in"], "--search=burn_in"),
        (["--search=gamma=2:3"], "--search=gamma: --gamma=2.0: must be in [0, 1]"),
        (["--search=gamma=0.9:0.5"], "--search=gamma=0.9:0.5"),
        (
            ["--search=gamma=a:b"],
            "--search=gamma=a:b: 'a' must be a number, such as 0.001 or 1e-3; give gamma=LOW:HIGH",
        ),
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


@pytest.mark.parametrize("name", ["table.csv", "trials.csv", "trials.md", "importance.png", "importance.svg"])
def test_files_that_the_report_would_replace_are_refused(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine", name).write_text("notes")
    assert tune.main(["tune", "--env=CartPole-v1", "--total_steps=100", "--tune_dir=search", "--output=mine"]) == 2
    said = f"error: --output=mine has a {name} but no experiment.json: choose another folder\n"
    assert capsys.readouterr().err == said and not Path("search").exists()
