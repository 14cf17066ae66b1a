"""Evaluation while training: it changes nothing else, keeps the best policy, and may end the run."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import gymnasium
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acer_tf import evaluate, load_policy
from acer_tf.errors import (
    EnvironmentFailure,
    Interrupted,
    InvalidEnvironment,
    NonFiniteError,
    NonFinitePolicy,
    PolicyError,
    RunFolderError,
    SettingsError,
)
from acer_tf.policies import evaluation
from acer_tf.policies.current import CurrentPolicy
from acer_tf.training import active_run, evaluations
from acer_tf.training.build import derive_seed
from acer_tf.training.train import train
from tests.training.scripted import check_progress, leave_policy, rows_of, small_settings, timeless, use_light_agents

EVALUATED = {"evaluate_every": 200, "evaluate_episodes": 3}
SCRIPTED = dict.fromkeys(("standard_error", "episodes", "num_envs", "greedy", "seed", "max_episode_steps"))


def without_evaluation(run_dir):
    return [{k: v for k, v in row.items() if not k.startswith("evaluation")} for row in timeless(run_dir)]


def kept(env="CartPole-v1", **protocol):
    """The metadata of a best policy with a return of 9, by default with the protocol of `scores`."""
    return {"env": env, "steps": 150, "evaluation": {"mean": 9.0, **SCRIPTED, **protocol}}


def document(run_dir, name="run.json"):
    return json.loads((run_dir / name).read_text())


class Scores(list):
    def __init__(self):
        self.given = []


@pytest.fixture
def scores(monkeypatch):
    """What evaluations return, in turn: a list to fill. An exception is raised; a function is called first.

    `given` has the arguments of each.
    """
    use_light_agents(monkeypatch)
    found = Scores()

    def scripted(policy, *, check, **given):
        found.given.append(given)
        score = found.pop(0)
        while callable(score):
            score()
            check()
            score = found.pop(0)
        if isinstance(score, Exception):
            raise score
        return SimpleNamespace(mean=score, **SCRIPTED)

    monkeypatch.setattr(evaluation, "evaluate", scripted)
    monkeypatch.setattr(evaluations, "exporting", active_run.exporting)
    return found


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"agent": "dqn", "replay_start": 100},
        pytest.param({"network": "mlp", "lstm_units": 256, "replay_capacity": 400}, marks=pytest.mark.slow),
        pytest.param({"env": "atari/Pong", "num_envs": 4, "evaluate_max_episode_steps": 40}, marks=pytest.mark.slow),
        pytest.param({"env": "Pendulum-v1", "agent": "acer_continuous"}, marks=pytest.mark.slow),
        pytest.param({"actors": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_it_changes_nothing_else_and_the_best_policy_repeats_its_score(given, tmp_path):
    every = {**EVALUATED, **{name: value for name, value in given.items() if name.startswith("evaluate")}}
    given = {name: value for name, value in given.items() if not name.startswith("evaluate")}
    train(small_settings(**given, **every), tmp_path / "run", quiet=True)
    train(small_settings(**given), tmp_path / "twin", quiet=True)
    assert without_evaluation(tmp_path / "run") == timeless(tmp_path / "twin")
    rows = [row for row in rows_of(tmp_path / "run") if row["evaluation_return"]]
    assert [int(row["steps"]) // 200 for row in rows] == [1, 2, 3]
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    shown = [event.value for event in events.Scalars("evaluation_return")]
    assert shown == pytest.approx([float(row["evaluation_return"]) for row in rows])
    best = max(rows, key=lambda row: float(row["evaluation_return"]))
    policy = load_policy(tmp_path / "run" / "best_policy")
    score = policy.metadata["evaluation"]
    assert policy.metadata["steps"] == int(best["steps"])
    assert float(f"{score['mean']:.7g}") == float(best["evaluation_return"])
    again = {name: score[name] for name in ("episodes", "greedy", "seed", "num_envs", "max_episode_steps")}
    result = evaluate(policy, **again)
    assert (result.mean, result.standard_error) == (score["mean"], score["standard_error"])


def test_the_best_policy_is_kept_also_over_a_stop(scores, tmp_path):
    scores[:] = [5.0, 7.0]
    stop = {"at": 400}

    def on_row(row, policy):
        if row["steps"] >= stop["at"]:
            raise StopIteration

    with pytest.raises(StopIteration):
        train(small_settings(**EVALUATED), tmp_path / "run", quiet=True, on_row=on_row)
    assert document(tmp_path / "run", "policy/metadata.json")["steps"] >= 400  # what stops it leaves its policy
    scores[:] = [6.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    rows = rows_of(tmp_path / "run")
    assert [row["evaluation_return"] for row in rows] == ["", "5.0", "", "7.0", "", "6.0"]
    best = document(tmp_path / "run", "best_policy/metadata.json")
    assert (best["evaluation"]["mean"], best["steps"]) == (7.0, int(rows[3]["steps"]))
    check_progress(tmp_path / "run", small_settings())


def test_a_better_policy_of_steps_that_were_lost_stays(scores, tmp_path):
    """As after kill -9: its evaluation is made again, with other episodes in training since the checkpoint."""
    leave_policy(tmp_path / "run" / "best_policy", kept())
    scores[:] = [5.0, 9.0, 6.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    assert document(tmp_path / "run", "best_policy/metadata.json")["steps"] == 150


@pytest.mark.parametrize("other", [{"env": "Acrobot-v1"}, {"greedy": True}, {"max_episode_steps": 5}, {"episodes": 4}])
def test_a_best_policy_by_another_protocol_is_replaced(other, scores, tmp_path):
    leave_policy(tmp_path / "run" / "best_policy", kept(**other))
    scores[:] = [5.0, 4.0, 3.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    assert document(tmp_path / "run", "best_policy/metadata.json")["evaluation"]["mean"] == 5.0


@pytest.mark.parametrize("metadata", ["{", "[]", '{"env": "", "agent": "", "commit": null, "evaluation": null}', "{}"])
def test_a_best_policy_that_cannot_be_read_is_replaced(metadata, scores, tmp_path):
    leave_policy(tmp_path / "run" / "best_policy")
    (tmp_path / "run" / "best_policy" / "metadata.json").write_text(metadata)
    scores[:] = [5.0, 4.0, 3.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    assert document(tmp_path / "run", "best_policy/metadata.json")["evaluation"]["mean"] == 5.0


@pytest.mark.parametrize("goal", [6.5, 7.0])
def test_a_return_that_is_reached_ends_the_run(goal, scores, tmp_path, capsys):
    scores[:] = [5.0, 7.0]
    wanted = small_settings(**EVALUATED, stop_at_return=goal)
    train(wanted, tmp_path / "run", quiet=True)
    record = document(tmp_path / "run")
    assert (record["finished"], record["stopped_at_return"]) == (True, 7.0)
    assert 400 <= record["steps"] < 500
    assert document(tmp_path / "run", "policy/metadata.json")["steps"] == record["steps"]
    train(wanted, tmp_path / "run")
    assert "already finished" in capsys.readouterr().out
    # A higher one, or none, continues it.
    scores[:] = [8.0]
    train(small_settings(**EVALUATED, stop_at_return=100.0), tmp_path / "run", quiet=True)
    record = document(tmp_path / "run")
    assert record["finished"] and record["steps"] >= 600 and "stopped_at_return" not in record
    assert f"--stop_at_return=100.0 instead of {goal}" in record["history"][0]["notes"]
    check_progress(tmp_path / "run", small_settings())


@pytest.mark.parametrize("stopped", [True, False])
def test_a_return_by_another_protocol_does_not_end_the_run(stopped, scores, tmp_path, monkeypatch):
    """Neither that of a run that has ended, nor that of the last checkpoint."""
    scores[:] = [5.0, 7.0]
    if stopped:
        train(small_settings(**EVALUATED, stop_at_return=6.5), tmp_path / "run", quiet=True)
    else:

        def on_row(row, policy):
            if not scores:
                raise StopIteration

        with pytest.raises(StopIteration):
            train(small_settings(**EVALUATED), tmp_path / "run", quiet=True, on_row=on_row)
    scores[:] = [6.0]
    train(small_settings(**EVALUATED, evaluate_greedy=True, stop_at_return=6.5), tmp_path / "run", quiet=True)
    record = document(tmp_path / "run")
    assert not scores and record["steps"] >= 600 and "stopped_at_return" not in record


def test_a_run_that_is_killed_as_it_ends_by_a_return_ends_there(scores, tmp_path, monkeypatch):
    scores[:] = [7.0]
    wanted = small_settings(**EVALUATED, stop_at_return=6.5)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(active_run.ActiveRun, "_export", lambda self: 1 / 0)
        train(wanted, tmp_path / "run", quiet=True)
    train(wanted, tmp_path / "run", quiet=True)
    assert document(tmp_path / "run")["stopped_at_return"] == 7.0
    assert len(rows_of(tmp_path / "run")) == 2


@pytest.mark.parametrize("signalled", [True, False])
def test_a_stop_during_an_evaluation_loses_nothing(signalled, scores, tmp_path):
    """Its row is written when the run continues; so is that of an evaluation whose environment fails."""
    interruption = [lambda: signal.raise_signal(signal.SIGTERM)] if signalled else [EnvironmentFailure("it failed")]
    scores[:] = [5.0, *interruption]
    with pytest.raises(Interrupted if signalled else EnvironmentFailure):
        train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    assert len(rows_of(tmp_path / "run")) == 3
    scores[:] = [7.0, 6.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    rows = rows_of(tmp_path / "run")
    assert [row["evaluation_return"] for row in rows] == ["", "5.0", "", "7.0", "", "6.0"]
    assert all(float(row["steps_per_second"]) > 0 for row in rows)
    check_progress(tmp_path / "run", small_settings())


def test_its_time_is_not_that_of_training(scores, tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(active_run.time, "monotonic", lambda: clock[0])

    def pass_time():
        clock[0] += 1000

    scores[:] = [pass_time, 1.0, pass_time, 2.0, pass_time, 3.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    assert not scores and {row["seconds"] for row in rows_of(tmp_path / "run")} == {"0.0"}


def test_a_policy_that_is_not_finite_has_diverged(scores, tmp_path):
    scores[:] = [NonFinitePolicy("the policy's probabilities is not finite")]
    with pytest.raises(NonFiniteError, match="not finite, at step 2"):
        train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)


def test_an_environment_that_does_not_suit_the_policy_is_no_divergence(scores, tmp_path):
    scores[:] = [PolicyError("the policy does not fit the installed CartPole-v1: num_actions: 2 there, 3 here")]
    with pytest.raises(PolicyError, match="does not fit"):
        train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    scores[:] = [5.0, 6.0, 7.0]
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)  # from the checkpoint, with its row
    check_progress(tmp_path / "run", small_settings())


def test_bad_input_of_an_evaluation_alone_is_a_failure_of_a_run_that_has_begun(scores, tmp_path):
    scores[:] = [SettingsError("--num_envs=16: they need about 3.0 GB of memory, but 1.0 GB are available")]
    with pytest.raises(SettingsError) as refused:
        train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    assert refused.value.status == 1


def test_what_a_resumed_run_may_change(scores, tmp_path):
    scores[:] = [1.0] * 3
    train(small_settings(**EVALUATED), tmp_path / "run", quiet=True)
    longer = {"total_steps": 1000, "evaluate_every": 100, "evaluate_episodes": 7, "evaluate_greedy": True}
    scores[:] = [1.0] * 4
    train(small_settings(**longer), tmp_path / "run", quiet=True)
    assert not scores
    with pytest.raises(RunFolderError, match="evaluate_every: 100 there, 0 here"):
        train(small_settings(total_steps=1000), tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"evaluate_every": 50}, "--evaluate_every=50: .*--log_interval=100"),
        ({"evaluate_every": 200, "stop_at_return": float("nan")}, "--stop_at_return=nan"),
        ({"evaluate_every": 200, "evaluate_episodes": 0}, "--evaluate_episodes=0"),
    ],
)
def test_refused_settings_name_their_flag(given, flag):
    with pytest.raises(SettingsError, match=flag):
        small_settings(**given)


@pytest.mark.parametrize("given", [{"evaluate_episodes": 5}, {"stop_at_return": 1.0}, {"evaluate_greedy": True}])
def test_they_need_evaluations(given, tmp_path):
    (name,) = given
    with pytest.raises(SettingsError, match=f"--{name}=.*--evaluate_every above 0"):
        train(small_settings(**given), tmp_path / "run", quiet=True)


@pytest.mark.training
def test_the_policy_of_a_row_acts_and_is_exported(tmp_path, monkeypatch):
    made, seen = [], []
    served = CurrentPolicy._served.func
    monkeypatch.setattr(CurrentPolicy, "_served", property(lambda self: made.append(1) or served(self)))
    train(small_settings(), tmp_path / "first", quiet=True, on_row=lambda row, policy: None)
    assert not made  # nobody asked it anything
    monkeypatch.undo()

    def on_row(row, policy):
        assert policy.metadata["steps"] == row["steps"]
        seen.append(evaluate(policy, episodes=2, seed=3).returns)
        if row["steps"] >= 300:
            policy.export(tmp_path / "mine")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small_settings(), tmp_path / "run", quiet=True, on_row=on_row)
    for folder in (tmp_path / "mine", tmp_path / "run" / "policy"):
        assert evaluate(load_policy(folder), episodes=2, seed=3).returns == seen[-1]
    train(small_settings(), tmp_path / "run", quiet=True)
    check_progress(tmp_path / "run", small_settings())


def test_a_limit_that_a_vector_environment_does_not_take_is_refused_before_training(tmp_path):
    settings = small_settings(**EVALUATED, evaluate_max_episode_steps=7)
    with pytest.raises(InvalidEnvironment, match="no limit of 7 steps"):
        train(settings, tmp_path / "run", quiet=True, env=lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs))
    assert not (tmp_path / "run").exists()


def test_all_evaluations_of_a_run_have_the_protocol_of_its_settings_one_seed_and_its_threads(scores, tmp_path):
    scores[:] = [1.0, 2.0, 3.0]
    settings = small_settings(**EVALUATED, evaluate_greedy=True, evaluate_max_episode_steps=7, seed=5)
    train(settings, tmp_path / "run", quiet=True, threads=1)
    wanted = {"episodes": 3, "greedy": True, "seed": derive_seed(settings, "evaluation"), "num_envs": 3, "threads": 1}
    assert len(scores.given) == 3
    for given in scores.given:
        assert wanted | {"max_episode_steps": 7} == {name: given[name] for name in (*wanted, "max_episode_steps")}
