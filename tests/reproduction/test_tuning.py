"""The folder of a search of hyper-parameters: its trials, what they share, and what is damaged or another search."""

import fcntl
import json
import math
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import optuna
import pytest

from acer_tf.commands import tune
from acer_tf.errors import SweepError
from acer_tf.reproduction import trials
from acer_tf.reproduction.tuning import Tuning, end_of, search_space
from acer_tf.settings import make_settings
from acer_tf.settings.declaration import Search, declarations
from acer_tf.settings.effect import require_effect
from acer_tf.settings.record import settings_document
from acer_tf.settings.settings import Settings
from acer_tf.training.resolve import resolve
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import tree

CARTPOLE = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
PENDULUM = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))
LINES = 4  # of a journal with one trial
RATE = {"learning_rate": Search(1e-5, 1e-1, log=True)}


def test_a_run_in_which_no_episode_has_ended_is_a_failed_trial(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    tuning = Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2)
    trial, lock = tuning.take({})
    record = {"format": 1, "settings": settings_document(settings) | {"network": "mlp", "precision": "float32"}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "progress.csv").write_text("steps,seconds,episodes,mean_return,interval_return\n100,1,0,,\n")
    place = SimpleNamespace(over="finished", reason="", folder=SimpleNamespace(run_dir=tmp_path))
    said = trials._Run(trial, lock, place).tell(tuning.study)
    assert said.startswith("trial 0: failed: no episode has ended  (learning_rate ")
    (told,) = tuning.study.trials
    assert (told.state.name, told.user_attrs["reason"]) == ("PRUNED", "no episode has ended")
    assert end_of(told) == "failed"


def told(tuning, value=None, interim=(), reason="", **more):
    """Adds a trial that has ended so."""
    trial, lock = tuning.take({})
    for step, score in enumerate(interim, 1):
        trial.report(score, step)
    if reason:
        trial.set_user_attr("reason", reason)
    tuning.study.tell(trial, value, state=None if value is not None else optuna.trial.TrialState[more["state"]])
    lock.release()


def test_of_equal_trials_the_one_that_was_there_earlier_is_the_best_and_others_follow_by_how_they_ended(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=1000)
    tuning = Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 9)
    told(tuning, state="PRUNED", reason="it diverged", interim=[90.0])
    told(tuning, -500.0, [-500.0, -500.0])
    told(tuning, 100.0, [50.0, 100.0])
    told(tuning, 100.0, [90.0, 100.0])
    told(tuning, state="FAIL", reason="no progress for 30 minutes")
    told(tuning, state="PRUNED", interim=[20.0])
    assert [trial.number for trial in tuning.ranked()] == [3, 2, 1, 5, 0, 4]
    assert tuning.best().number == 3
    tuning.require_some_success()
    assert tune._counts(tuning) == "6 trials, 3 of them to 1,000 steps, 1 stopped early, 2 failed"
    rows = [dict(zip(tune._trials(tuning).head, row, strict=True)) for row in tune._trials(tuning).rows]
    assert [(row["state"], row["reason"]) for row in rows[2:]] == [
        ("complete", ""),
        ("pruned", ""),
        ("failed", "it diverged"),
        ("failed", "no progress for 30 minutes"),
    ]
    values = {trial.number: trial.params["learning_rate"] for trial in tuning.study.trials}
    assert {int(row["trial"]): float(row["learning_rate"]) for row in rows} == values, "whole, to be used again"


def test_trials_that_ended_as_failed_do_not_count_as_success_whatever_their_state(tmp_path):
    tuning = Tuning(tmp_path / "search", make_settings(env="CartPole-v1", total_steps=100), CARTPOLE, RATE, 9)
    for _ in range(2):
        told(tuning, state="PRUNED", reason="it diverged")
    tuning.require_some_success()
    told(tuning, state="PRUNED", reason="it diverged again")
    with pytest.raises(SweepError, match="the first 3 trials failed, the last so: it diverged again"):
        tuning.require_some_success()
    told(tuning, state="PRUNED")
    tuning.require_some_success()


@pytest.mark.parametrize("given", [{}, {"average_decay": 0.5}])
def test_what_has_no_effect_in_a_trial_has_its_usual_value_there(tmp_path, given):
    settings = make_settings(env="CartPole-v1", **given)
    space = {"trust_region_delta": Search(values=(1.0, math.inf))}
    space |= {} if given else {"average_decay": Search(values=(0.5, 0.9))}
    tuning = Tuning(tmp_path / "search", settings, CARTPOLE, space, 9)
    for delta, decay in ((1.0, 0.5), (math.inf, make_settings(env="CartPole-v1").average_decay)):
        params = {"trust_region_delta": delta} | ({} if given else {"average_decay": 0.5})
        found = tuning.settings_of(SimpleNamespace(params=params))
        assert (found.trust_region_delta, found.average_decay) == (delta, decay)
        require_effect(resolve(found, CARTPOLE), CARTPOLE)


@pytest.mark.parametrize("there", ["new/search", "search"])
def test_a_full_disk_at_the_beginning_is_a_failure_and_leaves_nothing(there, tmp_path, monkeypatch):
    (tmp_path / "search").mkdir()
    before = tree(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(SweepError, match="search cannot be used: .*No space left") as failure:
            Tuning(tmp_path / there, make_settings(env="CartPole-v1", total_steps=100), CARTPOLE, RATE, 2)
    assert failure.value.status == 1 and tree(tmp_path) == before and not (tmp_path / "new").exists()
    assert SweepError.status == 2


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


def test_a_folder_of_something_else_and_another_search_are_refused(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").touch()
    with pytest.raises(SweepError, match=f"^--tune_dir={other}/notes.txt is not a folder: choose another$"):
        Tuning(other / "notes.txt", settings, CARTPOLE, RATE, 3)
    with pytest.raises(SweepError, match="notes.txt"):
        Tuning(other, settings, CARTPOLE, RATE, 3)
    Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 3)
    Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 9)  # more trials may be asked for later
    document = json.loads((tmp_path / "search" / "tune.json").read_text())
    del document["settings"]["stop_at_return"]  # as before there was this setting
    (tmp_path / "search" / "tune.json").write_text(json.dumps(document))
    Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 9)
    before = (tmp_path / "search" / "tune.json").read_text()
    with pytest.raises(SweepError, match="gamma: 0.99 there, 0.5 here"):
        Tuning(tmp_path / "search", make_settings(env="CartPole-v1", total_steps=100, gamma=0.5), CARTPOLE, RATE, 3)
    with pytest.raises(SweepError, match="gamma"):
        Tuning(tmp_path / "search", settings, CARTPOLE, {**RATE, "gamma": Search(values=(0.9, 0.99))}, 3)
    assert (tmp_path / "search" / "tune.json").read_text() == before
    (tmp_path / "search" / "tune.json").write_text('{"format": 1, "settings": {}}')
    with pytest.raises(SweepError, match=r"tune.json cannot be read \(it has no 'search'\): restore it"):
        Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 3)
    (tmp_path / "search" / "tune.json").write_text("{")
    with pytest.raises(SweepError, match="tune.json cannot be read"):
        Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 3)


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
    _, lock = Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2).take({})
    lock.release()
    (tmp_path / "search" / "cells" / "trial-0000" / "run").mkdir(parents=True)
    path = tmp_path / "search" / "journal.log"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == LINES
    path.write_bytes(damaged := b"".join(damage(lines)))
    with pytest.raises(SweepError, match=f"journal.log cannot be read .*{wanted}"):
        Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2)
    assert path.read_bytes().startswith(damaged)


def test_half_a_line_is_not_cut_while_another_process_writes_it(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=100)
    Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2)
    path = tmp_path / "search" / "journal.log"
    whole = path.read_bytes()
    with (tmp_path / "search" / "journal.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        path.write_bytes(whole + b'{"op')
        other = threading.Thread(target=Tuning, args=(tmp_path / "search", settings, CARTPOLE, RATE, 2))
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
    trial, _ = Tuning(tmp_path / "search", settings, CARTPOLE, space, 2).take({})
    first = trial.params
    assert (first["unroll_length"], first["replay_ratio"], first["learning_rate"]) == (20, 4.0, settings.learning_rate)
    assert first["gamma"] in (0.5, 0.6) and 1 <= first["max_gradient_norm"] <= 5, "which were given otherwise"


@pytest.mark.parametrize("dies", [None, "tell", "enqueue_trial"])
def test_a_trial_that_died_before_it_had_its_values_has_failed_and_what_was_given_is_tried_all_the_same(
    tmp_path, dies, monkeypatch
):
    """Also if the process dies that finds it, before it `dies`."""
    settings = make_settings(env="CartPole-v1", total_steps=100)
    here = Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2)
    here.study.ask()
    if dies:
        there = Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2)
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
    here, there = (Tuning(tmp_path / "search", settings, CARTPOLE, RATE, 2) for _ in range(2))
    (first, lock), (second, _) = here.take({}), there.take({})
    assert (first.number, second.number) == (0, 1)
    assert there.take({"trial-0001": None}) is None
    lock.release()  # as if its process had died
    again, _ = there.take({"trial-0001": None})
    assert again.number == 0 and again.params == first.params
    assert json.loads((tmp_path / "search" / "tune.json").read_text())["search"]["learning_rate"]["log"] is True
