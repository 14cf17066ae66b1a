"""Runs that go on: after an interruption, with other settings, elsewhere, or to a longer length."""

import dataclasses
import functools
import json
import shutil
import signal

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from acer_tf import load_policy
from acer_tf.errors import InvalidEnvironment, RunFolderError
from acer_tf.policies.evaluation import evaluate
from acer_tf.replay import PrioritizedReplay, TrajectoryReplay
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import Lock
from acer_tf.runs.signals import Terminated
from acer_tf.training import run
from acer_tf.training.export_run import export_run
from acer_tf.training.loop import Loop
from acer_tf.training.train import train
from tests.training.scripted import (
    LightAgent,
    check_progress,
    rows_of,
    script,
    small_settings,
    tree,
    use_light_agents,
)

MOVED = "what changes until the end of a run now changes until the new one: learning_rate"  # of preset classic


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
