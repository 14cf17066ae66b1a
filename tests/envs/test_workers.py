"""Environments in several processes answer, fail and end as they do in one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium
import numpy as np
import optree
import psutil
import pytest
from gymnasium import spaces

from acer_tf import envs
from acer_tf.envs import workers
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment, SettingsError
from acer_tf.runs.signals import USUAL
from acer_tf.settings import make_settings
from acer_tf.training.train import train
from tests.gymnasium_ids import TAXI
from tests.training.scripted import check_progress, small_settings, timeless

ROOT = Path(__file__).resolve().parents[2]
PIXELS = spaces.Box(0, 255, (8, 8, 3), np.uint8)


class Nested(gymnasium.Env):
    """Observations of all kinds, the vector in float64; episodes of random length, and cut ones."""

    observation_space = spaces.Dict(
        vector=spaces.Box(0, 1, (3,), np.float32),
        place=spaces.Discrete(4, start=2),
        pair=spaces.Tuple((spaces.MultiBinary(2), PIXELS)),
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length = 0
        return self._see(), {}

    def step(self, action):
        self.length += 1
        return self._see(), float(action), bool(self.np_random.random() < 0.1), self.length > 9, {}

    def _see(self):
        random = self.np_random
        pair = random.integers(0, 2, 2).astype(np.int8), random.integers(0, 256, PIXELS.shape).astype(np.uint8)
        return {"vector": random.random(3), "place": int(random.integers(2, 6)), "pair": pair}


class Failing(Nested):
    """Raises, dies or answers wrongly in the step that `how` names it for."""

    def __init__(self, how):
        self.how = how

    def step(self, action):
        if self.how == "raises":
            raise KeyError("mine")
        if self.how == "dies":
            os._exit(7)
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, "much", terminated, truncated, info


def steps_of(env_id, num_envs, count=40, **options):
    env = envs.make(env_id, num_envs, 3, **options)
    try:
        found, random = [env.reset()], np.random.default_rng(0)
        for _ in range(count):
            if env.spec.continuous:
                action = random.normal(size=(num_envs, env.spec.action_size)).astype(np.float32)
            else:
                action = random.integers(0, env.spec.num_actions, num_envs)
            found.append(env.step(action))
        return found, env.has_time_limit
    finally:
        env.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("env_id", "factory"),
    [
        ("nested", Nested),
        ("Pendulum-v1", None),
        ("minatar/breakout", None),
        (TAXI, None),
        pytest.param("dm_control/cartpole-swingup-v0", None, marks=pytest.mark.slow),
    ],
)
def test_they_answer_as_in_one_process(env_id, factory):
    here, limited = steps_of(env_id, 6, factory=factory)
    there, also = steps_of(env_id, 6, factory=factory, workers=3)
    assert limited == also
    for one, other in zip(here, there, strict=True):
        for array, same in zip(optree.tree_leaves(one), optree.tree_leaves(other), strict=True):
            np.testing.assert_array_equal(array, same, strict=True)
    assert not [process for process in psutil.Process().children() if "spawn_main" in " ".join(process.cmdline())]


@pytest.mark.process
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raises", r"^mine failed in step\(\): KeyError: 'mine'$"),
        ("dies", r"^mine failed in step\(\): process 1 of 2 that step it ended with status 7$"),
        (
            "answers",
            r"^mine failed in step\(\): it returned a reward of type str, 'much', which must be a real number$",
        ),
    ],
)
def test_a_failure_is_that_of_the_environment(how, message):
    env = envs.make("mine", 4, 0, factory=lambda: Failing(how), workers=2)
    env.reset()
    with pytest.raises(EnvironmentFailure, match=message) as failure:
        env.step(np.zeros(4, int))
    cause = failure.value.__cause__  # of which commands print the traceback
    assert "in step\n    raise KeyError" in str(cause) if how == "raises" else cause is None
    env.close()
    assert not [process for process in psutil.Process().children() if "spawn_main" in " ".join(process.cmdline())]


class Once(Nested):
    """Raises at action 2."""

    def step(self, action):
        if action == 2:
            raise KeyError("mine")
        return super().step(action)


@pytest.mark.process
def test_after_a_failure_no_answer_is_that_of_an_earlier_call():
    env = envs.make("mine", 4, 0, factory=Once, workers=2)
    env.reset()
    with pytest.raises(EnvironmentFailure, match="KeyError: 'mine'"):
        env.step(np.array([2, 0, 0, 0]))
    assert env.step(np.ones(4, int)).reward.tolist() == [1.0] * 4
    env.reset()
    env.close()


class Unsaved(Nested):
    """Fails in close(), but where `maker` is."""

    def __init__(self, maker):
        self.maker = maker

    def close(self):
        if os.getpid() != self.maker:
            raise OSError("the results are not saved")


@pytest.mark.process
def test_what_close_raises_in_a_process_is_raised():
    maker = os.getpid()
    env = envs.make("mine", 4, 0, factory=lambda: Unsaved(maker), workers=2)
    env.reset()
    with pytest.raises(EnvironmentFailure, match=r"^mine failed in close\(\): OSError: the results are not saved$"):
        env.close()
    assert not [process for process in psutil.Process().children() if program(process)]


class Endless(Nested):
    """Does not close within a minute, but in the process that `maker` is, which makes one to look at it."""

    def __init__(self, maker):
        self.maker = maker

    def close(self):
        if os.getpid() != self.maker:
            time.sleep(60)


@pytest.mark.process
def test_a_process_whose_environments_do_not_close_is_killed(monkeypatch):
    monkeypatch.setattr(workers, "_CLOSE_SECONDS", 0.3)
    maker = os.getpid()
    env = envs.make("mine", 4, 0, factory=lambda: Endless(maker), workers=2)
    env.reset()
    processes = workers_of(maker)
    assert len(processes) == 2
    begun = time.monotonic()
    env.close()
    assert 0.3 <= time.monotonic() - begun < 5
    assert not any(process.is_running() for process in processes)


SCRIPT = """
import sys, time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
import acer_tf

class Mine(CartPoleEnv):
    def step(self, action):
        time.sleep(0.002)
        return super().step(action)

gymnasium.register("Mine-v0", Mine, max_episode_steps=50)
settings = acer_tf.make_settings(env="Mine-v0", num_envs=4, total_steps=int(sys.argv[2]), log_interval=100)
try:
    acer_tf.train(settings, sys.argv[1], env_workers=2)
except acer_tf.Interrupted:
    sys.exit(130)
"""


def workers_of(parent):
    return [process for process in psutil.Process(parent).children(recursive=True) if program(process)]


def program(process):
    return "spawn_main" in " ".join(process.cmdline())


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_script_without_a_guard_and_what_is_left_when_it_is_stopped(number, tmp_path):
    """The signal goes to the whole group, as a terminal's or a batch system's does, or to the run alone."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", "run", "1000000"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    err = (tmp_path / "err").open("w")
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, stderr=err)
    try:
        ends = time.monotonic() + 120
        while (
            not (tmp_path / "run/progress.csv").exists() or (tmp_path / "run/progress.csv").read_text().count("\n") < 3
        ):
            assert process.poll() is None and time.monotonic() < ends
            time.sleep(0.2)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        if number == signal.SIGINT:  # a batch system's signal, by default the end of a process, is the run's to answer
            for worker in workers:
                worker.send_signal(signal.SIGUSR2)
        (os.kill if number == signal.SIGKILL else os.killpg)(process.pid, number)
        assert process.wait(60) in (130, -signal.SIGKILL)
        assert not psutil.wait_procs(workers, 20)[1]
        assert "Traceback" not in (tmp_path / "err").read_text()
    finally:
        process.kill()
        err.close()


@pytest.mark.training
@pytest.mark.process
@pytest.mark.parametrize("actors", [0, 1])
def test_a_run_has_the_same_rows(actors, tmp_path):
    evaluated = small_settings(num_envs=4, actors=actors, evaluate_every=200, evaluate_episodes=3)
    train(evaluated, tmp_path / "here", quiet=True)
    train(evaluated, tmp_path / "there", quiet=True, env_workers=2)
    assert timeless(tmp_path / "here") == timeless(tmp_path / "there")
    check_progress(tmp_path / "there", evaluated)


@pytest.mark.parametrize(
    ("given", "workers", "flag"),
    [
        ({"num_envs": 4}, 3, "--env_workers=3: must divide --num_envs=4"),
        ({"num_envs": 4, "actors": 2}, 2, "--env_workers=2: must be 1 with --actors=2"),
        ({"env": "atari/Pong", "num_envs": 4}, 2, "--env_workers=2: .*threads"),
        ({}, 0, "--env_workers=0"),
    ],
)
def test_what_is_refused_before_anything_starts(given, workers, flag, tmp_path):
    settings = make_settings({"env": "CartPole-v1", **given})
    with pytest.raises((InvalidEnvironment, SettingsError), match=flag):
        train(settings, tmp_path / "run", env_workers=workers)
    assert not (tmp_path / "run").exists()


def test_its_processes_leave_to_the_run_all_signals_that_it_answers():
    assert USUAL.keys() == workers._SIGNALS


@pytest.mark.process
def test_a_function_that_cannot_make_one_there_is_refused():
    parent = os.getpid()

    def make():
        if os.getpid() != parent:
            raise OSError("no licence")
        return Nested()

    with pytest.raises(EnvironmentFailure, match="^mine failed when it was made: OSError: no licence$"):
        envs.make("mine", 2, 0, factory=make, workers=2)
    lock = threading.Lock()
    with pytest.raises(
        EnvironmentFailure, match="^mine failed when it was made: TypeError: cannot pickle '_thread.lock'"
    ):
        envs.make("mine", 2, 0, factory=lambda: lock and Nested(), workers=2)
