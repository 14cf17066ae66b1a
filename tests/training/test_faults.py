"""Failures during a run: signals, kills, full disks, NaN and infinity."""

from __future__ import annotations

import errno
import os
import random
import signal
import time

import gymnasium
import numpy as np
import pytest

from acer_tf import load_policy
from acer_tf.commands.train import run as run_script
from acer_tf.errors import EnvironmentFailure
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import Lock
from acer_tf.runs.progress import Progress
from acer_tf.runs.signals import USUAL
from acer_tf.training import active_run, run
from acer_tf.training.export_run import export_run
from acer_tf.training.train import train
from tests.runs.test_checkpoint import files_at_most
from tests.torture import common
from tests.training.scripted import check_progress, rows_of, small_settings, tree, use_light_agents


def script(settings, run_dir, checkpoint_minutes=0.0):
    return run_script(settings, run_dir, checkpoint_minutes=checkpoint_minutes, threads=0)


def checkpointed(run_dir):
    return Checkpoints(run_dir / "checkpoints").restore(None)


def steps_at_checkpoint(run_dir):
    return checkpointed(run_dir).state["actor"]["steps"]


def once_at(update, action):
    """Diagnostics that do something at one update of the first agent, and never in later agents."""
    pending = [update]

    def diagnostics(n):
        if pending == [n]:
            pending.clear()
            return action() or {"value": float(n)}
        return {"value": float(n)}

    return diagnostics


@pytest.fixture
def environments(monkeypatch):
    """The environments that the test's runs make, and whether each was closed."""
    closed = {}
    make = run.envs.make

    def recorded(*args, **kwargs):
        env = make(*args, **kwargs)
        closed[env] = False
        close = env.close
        env.close = lambda: (closed.update({env: True}), close())
        return env

    monkeypatch.setattr(run.envs, "make", recorded)
    yield closed
    assert closed and all(closed.values())


@pytest.mark.parametrize("number", USUAL)
def test_a_signal_stops_the_run_after_a_checkpoint_and_it_continues(number, tmp_path, monkeypatch, capfd, environments):
    use_light_agents(monkeypatch, once_at(60, lambda: os.kill(os.getpid(), number)))
    handlers = [signal.getsignal(each) for each in USUAL]
    assert script(small_settings(), tmp_path / "run", checkpoint_minutes=1000.0) == 128 + number
    assert [signal.getsignal(each) for each in USUAL] == handlers
    err = capfd.readouterr().err
    assert err.count(number.name) == 2  # when it comes, and at the end
    stopped_at = steps_at_checkpoint(tmp_path / "run")
    assert 100 < stopped_at < 600
    assert not (tmp_path / "run" / "policy").exists()
    Lock(tmp_path / "run").release()

    assert script(small_settings(), tmp_path / "run", checkpoint_minutes=1000.0) == 0
    assert f"continuing {tmp_path}/run at step {stopped_at:,}" in capfd.readouterr().out
    check_progress(tmp_path / "run", small_settings())
    last = rows_of(tmp_path / "run")[-1]
    updates = int(last["on_policy_updates"]) + int(last["replay_updates"])
    assert checkpointed(tmp_path / "run").arrays["online/weights"][0] == updates


@pytest.fixture
def usual_handlers():
    before = [(number, signal.signal(number, usual)) for number, usual in USUAL.items()]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def test_sigterm_again_loses_no_checkpoint(tmp_path, monkeypatch, environments):
    """From whoever stops all processes and from the sweep, also while the checkpoint is written."""
    use_light_agents(monkeypatch, once_at(60, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    save = Checkpoints.save

    def interrupted(self, snapshot, replay, step):
        if step:
            os.kill(os.getpid(), signal.SIGTERM)
        save(self, snapshot, replay, step)

    monkeypatch.setattr(Checkpoints, "save", interrupted)
    assert script(small_settings(), tmp_path / "run", checkpoint_minutes=1000.0) == 143
    assert 100 < steps_at_checkpoint(tmp_path / "run") < 600


def test_ctrl_c_after_another_signal_acts_as_usual(tmp_path, monkeypatch, environments, usual_handlers):
    seen = []

    def twice():
        os.kill(os.getpid(), signal.SIGTERM)
        seen.append(signal.getsignal(signal.SIGINT))
        os.kill(os.getpid(), signal.SIGINT)

    use_light_agents(monkeypatch, once_at(60, twice))
    assert script(small_settings(), tmp_path / "run") == 130
    assert seen == [USUAL[signal.SIGINT]]
    assert script(small_settings(), tmp_path / "run") == 0
    check_progress(tmp_path / "run", small_settings())


def test_a_signal_in_the_last_iteration_loses_nothing(tmp_path, monkeypatch):
    settings = small_settings(total_steps=10, log_interval=10, replay_ratio=0.0)
    use_light_agents(monkeypatch, once_at(1, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert script(settings, tmp_path / "run") == 143
    assert steps_at_checkpoint(tmp_path / "run") == 10
    assert script(settings, tmp_path / "run") == 0
    assert [row["steps"] for row in rows_of(tmp_path / "run")] == ["10"]
    assert (tmp_path / "run" / "policy").exists()


def test_a_signal_in_the_last_checkpoint_loses_nothing(tmp_path, monkeypatch):
    settings = small_settings(total_steps=100, log_interval=100)
    use_light_agents(monkeypatch)
    save = Checkpoints.save

    def signalled(self, snapshot, replay, step):
        if step >= settings.total_steps:
            os.kill(os.getpid(), signal.SIGQUIT)
        save(self, snapshot, replay, step)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "save", signalled)
        assert script(settings, tmp_path / "run", checkpoint_minutes=1000.0) == 128 + signal.SIGQUIT
    (row,) = rows_of(tmp_path / "run")
    assert steps_at_checkpoint(tmp_path / "run") == int(row["steps"]) >= 100
    assert script(settings, tmp_path / "run") == 0
    assert rows_of(tmp_path / "run") == [row]
    assert (tmp_path / "run" / "policy").exists()


def test_a_full_disk_stops_the_run_with_the_reason_and_it_continues_later(tmp_path, monkeypatch, capsys, environments):
    """From the second checkpoint on, the kernel refuses to write a state of this size."""
    made = use_light_agents(monkeypatch)
    settings = small_settings()
    light = run.make_agent

    def heavy(*arguments):
        agent = light(*arguments)
        agent.weights.value = np.random.default_rng(0).random(100_000, np.float32)  # hardly compressible
        return agent

    monkeypatch.setattr(run, "make_agent", heavy)
    save, limits = active_run.ActiveRun.save, []

    def limited(self, **kwargs):
        if len(list((tmp_path / "run").glob("checkpoints/*[0-9]/state.npz"))) == 0:
            return save(self, **kwargs)
        limits.append(tree(tmp_path / "run" / "checkpoints"))
        with files_at_most(200_000):
            return save(self, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(active_run.ActiveRun, "save", limited)
        assert script(settings, tmp_path / "run") == 1
    err = capsys.readouterr().err
    assert err.startswith("error: checkpoint at step ")
    assert os.strerror(errno.EFBIG) in err
    assert err.count("\n") == 1
    assert tree(tmp_path / "run" / "checkpoints") == limits[0]
    assert steps_at_checkpoint(tmp_path / "run") == 0
    assert script(settings, tmp_path / "run", checkpoint_minutes=1000.0) == 0
    check_progress(tmp_path / "run", settings)
    assert len(made) == 2


@pytest.mark.parametrize("where", ["progress", "policy", "record"])
def test_a_full_disk_elsewhere_stops_the_run_with_the_reason_and_it_continues_later(
    where, tmp_path, monkeypatch, capsys, environments
):
    use_light_agents(monkeypatch)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if where == "progress":
            patch.setattr(Progress, "write", full)
        elif where == "policy":
            patch.setattr(active_run, "exporting", full)
        else:
            document = active_run.write_json
            patch.setattr(active_run, "write_json", lambda p, d: full() if "finished" in d else document(p, d))
        assert script(small_settings(), tmp_path / "run") == 1
    assert os.strerror(errno.ENOSPC) in capsys.readouterr().err
    before = rows_of(tmp_path / "run")
    assert script(small_settings(), tmp_path / "run") == 0
    check_progress(tmp_path / "run", small_settings())
    if where != "progress":
        assert rows_of(tmp_path / "run") == before  # only the end was still to do


class Broken(gymnasium.Env):
    """One of its rewards or observations is wrong from step 40 of its first episode on."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    reward, shown = 1.0, 0.0

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self._count += 1
        broken = self._count >= 40
        observation = np.array([self._count / 100, self.shown if broken else 0], np.float32)
        return observation, self.reward if broken else 1.0, False, False, {}


@pytest.fixture
def broken(monkeypatch):
    gymnasium.register("Broken-v0", Broken)
    yield lambda **values: [monkeypatch.setattr(Broken, name, value) for name, value in values.items()]
    del gymnasium.registry["Broken-v0"]


@pytest.mark.parametrize(
    ("values", "quantity"),
    [
        ({"reward": np.nan}, "a reward of nan"),
        ({"reward": -np.inf}, "a reward of -inf"),
        ({"shown": np.nan}, "an observation of nan"),
    ],
)
def test_nan_and_infinity_stop_the_run_and_the_last_finite_checkpoint_stays(
    values, quantity, broken, tmp_path, monkeypatch, capsys, environments
):
    use_light_agents(monkeypatch)
    broken(**values)
    assert script(small_settings(env="Broken-v0"), tmp_path / "run") == 1
    err = capsys.readouterr().err
    assert f"Broken-v0 failed in step(): it returned {quantity};" in err and err.count("\n") == 1
    assert 70 <= steps_at_checkpoint(tmp_path / "run") <= 80
    assert not (tmp_path / "run" / "policy").exists()
    broken(reward=1.0, shown=0.0)
    assert script(small_settings(env="Broken-v0"), tmp_path / "run") == 0


def test_an_environment_that_raises_stops_the_run_with_its_traceback_and_a_line(broken, tmp_path, monkeypatch, capsys):
    use_light_agents(monkeypatch)
    broken(reward=property(lambda self: {}["missing"]))
    assert script(small_settings(env="Broken-v0"), tmp_path / "run", checkpoint_minutes=1000.0) == 1
    *shown, line = capsys.readouterr().err.splitlines()
    assert line == (
        "error: stopped: Broken-v0 failed in step(): KeyError: 'missing'; the same command continues from the last "
        "checkpoint"
    )
    assert shown[0].startswith("Traceback") and shown[-1] == "KeyError: 'missing'"
    assert 70 <= steps_at_checkpoint(tmp_path / "run") <= 80
    broken(reward=1.0)
    assert script(small_settings(env="Broken-v0"), tmp_path / "run") == 0


class Gone(Broken):
    """It talks to a program, which a signal to all processes of a job ends too."""

    gone = False

    def step(self, action):
        if self._count == 40:
            self.gone = True
            os.kill(os.getpid(), signal.SIGTERM)
            raise BrokenPipeError("its program has ended")
        return super().step(action)

    def close(self):
        if self.gone:
            raise BrokenPipeError("its program has ended")


def test_an_environment_that_a_signal_ends_too_does_not_keep_the_run_from_its_checkpoint(
    broken, tmp_path, monkeypatch, capsys
):
    use_light_agents(monkeypatch)
    broken()
    monkeypatch.setattr(gymnasium.spec("Broken-v0"), "entry_point", Gone)
    assert script(small_settings(env="Broken-v0"), tmp_path / "run", checkpoint_minutes=1000.0) == 143
    err = capsys.readouterr().err
    assert "warning: EnvironmentFailure: Broken-v0 failed in close(): BrokenPipeError" in err
    assert err.splitlines()[-1].startswith("stopped by SIGTERM") and "Traceback" not in err
    assert 70 <= steps_at_checkpoint(tmp_path / "run") <= 80


def test_nor_does_one_that_ends_in_an_evaluation(tmp_path, monkeypatch, capsys):
    def evaluate(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        raise EnvironmentFailure("its program has ended")

    use_light_agents(monkeypatch)
    monkeypatch.setattr(active_run.Evaluations, "evaluate", evaluate)
    settings = small_settings(log_interval=20, evaluate_every=20)
    assert script(settings, tmp_path / "run", checkpoint_minutes=1000.0) == 143
    assert steps_at_checkpoint(tmp_path / "run") == 20
    assert capsys.readouterr().err.splitlines()[-1].startswith("stopped by SIGTERM")


@pytest.mark.training
def test_a_loss_that_overflows_is_named_by_the_first_quantity_that_does(broken, tmp_path, capsys, environments):
    """The real agent: rewards of 1e30 are finite, and so is Q_ret; its squared error is not."""
    broken(reward=1e30)
    settings = small_settings(env="Broken-v0", preset="baselines")
    assert script(settings, tmp_path / "run") == 1
    err = capsys.readouterr().err
    assert "Broken-v0: critic_loss is inf in on_policy update 8, at step 80" in err
    snapshot = checkpointed(tmp_path / "run")
    assert snapshot.state["actor"]["steps"] == 70
    assert all(np.isfinite(array).all() for array in snapshot.arrays.values())


def test_weights_that_are_not_finite_are_never_checkpointed(tmp_path, monkeypatch, capsys, environments):
    made = use_light_agents(monkeypatch, once_at(40, lambda: made[0].weights.assign(np.full(4, np.nan, np.float32))))
    assert script(small_settings(), tmp_path / "run") == 1
    assert "online/weights" in capsys.readouterr().err
    assert np.isfinite(checkpointed(tmp_path / "run").arrays["online/weights"]).all()


def test_an_error_of_any_kind_closes_agent_and_environments_and_frees_the_folder(tmp_path, monkeypatch, environments):
    def fail():
        raise RuntimeError("of no known kind")

    handler = signal.getsignal(signal.SIGTERM)
    made = use_light_agents(monkeypatch, once_at(20, fail))
    with pytest.raises(RuntimeError, match="of no known kind") as held:  # with the frames, and what they refer to
        train(small_settings(), tmp_path / "run", quiet=True)
    assert held.tb is not None and made[0].closed
    Lock(tmp_path / "run").release()
    assert signal.getsignal(signal.SIGTERM) == handler


# Logs and saves many times a second, so that a kill can hit any operation.
KILLED = {"total_steps": 6_000, "num_envs": 4, "unroll_length": 10, "replay_capacity": 500, "seed": 5}
FLAGS = {**KILLED, "log_interval": 100, "replay_ratio": 1, "replay_start": 10, "env": "CartPole-v1"}


def start(run_dir):
    """The training; what it says is in run_dir.out and run_dir.err."""
    return common.start(run_dir, "train", server=True, run_dir=run_dir, **FLAGS, checkpoint_minutes=0.002)


def logged(run_dir):
    """The steps of the last complete row; 0 without rows."""
    path = run_dir / "progress.csv"
    lines = path.read_text().splitlines()[1:-1] if path.exists() else []
    return int(lines[-1].split(",")[0]) if lines else 0


@pytest.mark.process
def test_a_run_killed_four_times_continues_to_its_end_without_a_gap(tmp_path):
    generator, run_dir = random.Random(2), tmp_path / "run"
    for n in range(4):
        begun, process = logged(run_dir), start(run_dir)
        process.wait_for(lambda begun=begun: logged(run_dir) >= begun + 200)
        if n == 0:
            os.kill(process.process.pid, signal.SIGSTOP)  # at any moment, the lock held
            assert export_run(run_dir, tmp_path / "early") > 0
            os.kill(process.process.pid, signal.SIGCONT)
        time.sleep(generator.uniform(0, 0.1))
        process.process.kill()
        done = process.end()
        assert done.status == -signal.SIGKILL, done.err
        announced, first_line = done.out.splitlines()[:2]
        assert f"in {run_dir}" in announced
        assert first_line.startswith("continuing") == (n > 0)
        assert "Traceback" not in done.err and "damaged" not in done.err
        assert logged(run_dir) >= begun + 200
    done = start(run_dir).end()
    assert done.status == 0, done.err
    assert "Traceback" not in done.err and "damaged" not in done.err
    assert done.out.splitlines()[1].startswith("continuing")
    assert done.out.endswith(f"finished: policy in {run_dir}/policy\n")
    check_progress(run_dir, small_settings(**KILLED))
    policy = load_policy(run_dir / "policy")
    assert policy.metadata["steps"] == int(rows_of(run_dir)[-1]["steps"])
    assert policy(np.zeros((3, 4), np.float32)).shape == (3,)
    assert load_policy(tmp_path / "early").metadata["steps"] > 0
