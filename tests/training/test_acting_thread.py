"""Actors in a thread of their own: what they act with, what they raise, and environments that do not return."""

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from acer_tf.errors import EnvironmentFailure
from acer_tf.training import acting_thread
from acer_tf.training.acting_thread import ActingThread
from acer_tf.training.actor import Actor, LocalActors, Request, Stopped
from acer_tf.training.train import train
from tests.training.scripted import ScriptedEnvironment, act, check_progress, small_settings, timeless

TASKS = {
    "DQN by rank": {"env": "minatar/breakout", "agent": "dqn", "preset": "ddqn_rank"},
    "recurrent": {"env": "minatar/breakout", "network": "small_lstm", "burn_in": 5},
    "normalized observations": {"env": "control/reacher3", "agent": "acer_continuous"},
}


class Learner:
    """An agent whose one weight is the number of its updates, and which acts as `scripted.act` does."""

    def __init__(self) -> None:
        self.weight, self.acted = 0, list[int]()

    def acting_weights(self) -> list[int]:
        return [self.weight]

    def act_as(self, weights: list[int], steps: int) -> None:
        (self.weight,) = weights

    def act(self, *arguments: object) -> tuple[np.ndarray, ...]:
        self.acted.append(self.weight)
        return act(*arguments)


class Slow(ScriptedEnvironment):
    """Waits in each step until `go` is set."""

    def __init__(self) -> None:
        super().__init__([[]])
        self.go, self.stepping, self.closed = threading.Event(), threading.Event(), False

    def step(self, action: np.ndarray):
        self.stepping.set()
        self.go.wait(20)
        return super().step(action)

    def close(self) -> None:
        self.closed = True


class Thread:
    """An `ActingThread` on an environment, with what it needs."""

    def __init__(self, env: ScriptedEnvironment) -> None:
        self.agent, self.acting, self.notes = Learner(), Learner(), list[str]()
        self.stop = SimpleNamespace(signal_number=None)
        self.actors = ActingThread(
            lambda policy: LocalActors([Actor(env, policy, 0)]),
            self.agent,
            self.acting,
            stop=self.stop,
            note=lambda steps, lines: self.notes.extend(f"{steps}: {line}" for line in lines),
        )


def request(rows: int, steps: int = 0) -> Request:
    return Request(rows, steps, steps, steps)


def test_it_collects_beside_the_caller_with_the_weights_that_begin_found():
    env = Slow()
    thread = Thread(env)
    thread.agent.weight = 7
    thread.actors.begin(request(3))
    assert env.stepping.wait(20)  # while this thread goes on
    thread.agent.weight = 8
    env.go.set()
    assert thread.actors.take().mask.shape == (1, 3)
    assert thread.acting.acted == [7, 7, 7]
    thread.actors.begin(request(2, 3))
    thread.actors.take()
    assert thread.acting.acted == [7, 7, 7, 8, 8]
    thread.actors.close()
    assert env.closed
    assert thread.notes == []


@pytest.mark.parametrize("error", [EnvironmentFailure("the physics"), SystemExit(3)])
def test_what_an_environment_raises_is_raised_where_the_run_waits(error):
    class Failing(ScriptedEnvironment):
        def step(self, action):
            raise error

    thread = Thread(Failing([[]]))
    thread.actors.begin(request(3))
    with pytest.raises(type(error)) as raised:
        thread.actors.take()
    assert raised.value is error
    thread.actors.close()


def test_an_environment_that_does_not_return_is_named_and_left_at_a_request_to_stop(monkeypatch):
    monkeypatch.setattr(acting_thread, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(acting_thread, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(acting_thread, "_POLL_SECONDS", 0.2)
    env = Slow()
    thread = Thread(env)
    thread.actors.begin(request(3, steps=40))
    threading.Timer(0.9, lambda: setattr(thread.stop, "signal_number", 15)).start()
    with pytest.raises(Stopped):
        thread.actors.take()
    (note,) = thread.notes  # once, however long it lasts
    assert note.startswith("40: the environments have not returned for 0.1 s, at ")
    assert note.endswith("(wait)")
    thread.actors.close()
    assert not env.closed  # the thread is in it
    assert thread.notes[1].startswith("40: the environments are left as they are, at ")
    env.go.set()


def test_close_ends_an_unroll_between_two_steps():
    env = Slow()
    thread = Thread(env)
    thread.actors.begin(request(10**6))
    env.go.set()
    thread.actors.close()
    assert env.closed


@pytest.mark.training
@pytest.mark.parametrize("task", TASKS)
def test_rows_are_those_of_a_lag_in_turn_also_after_an_interruption(task: str, tmp_path: Path):
    settings = small_settings(**{"num_envs": 4, "total_steps": 300, "acting_lag": 1, **TASKS[task]})
    found = []

    def stop(row, policy):
        if row["steps"] >= 100:
            raise InterruptedError

    for threads in (1, 2):
        if task == "DQN by rank":
            with pytest.raises(InterruptedError):
                train(settings, tmp_path / str(threads), threads=threads, quiet=True, on_row=stop)
            assert not any(thread.name == "acting" for thread in threading.enumerate())
        train(settings, tmp_path / str(threads), threads=threads, quiet=True)
        found.append(timeless(tmp_path / str(threads)))
    assert found[0] == found[1]
    assert int(found[0][-1]["replay_updates"]) > 5


@pytest.mark.training
def test_any_number_of_actors_is_a_lag_of_one(tmp_path: Path):
    lags = {"lag": {"acting_lag": 1}, **{f"{n} actors": {"actors": n} for n in (1, 2, 4)}, "none": {}}
    found = {}
    for name, given in lags.items():
        settings = small_settings(env="minatar/breakout", num_envs=4, total_steps=300, **given)
        train(settings, tmp_path / name, threads=1, quiet=True)
        found[name] = timeless(tmp_path / name)
    assert found["1 actors"] == found["2 actors"] == found["4 actors"] == found["lag"] != found["none"]


@pytest.mark.training
def test_a_failing_environment_leaves_the_last_checkpoint_and_no_thread(tmp_path: Path):
    class Breaking(CartPoleEnv):
        steps = 0

        def step(self, action):
            Breaking.steps += 1
            if Breaking.steps > 500:
                raise ValueError("the motor is hot")
            return super().step(action)

    settings = small_settings(acting_lag=1, env="Breaking", total_steps=1000)
    with pytest.raises(EnvironmentFailure, match="the motor is hot"):
        train(settings, tmp_path / "run", threads=2, quiet=True, checkpoint_minutes=0, env=Breaking)
    assert not any(thread.name == "acting" for thread in threading.enumerate())
    train(settings, tmp_path / "run", threads=2, quiet=True, env=CartPoleEnv)
    check_progress(tmp_path / "run", settings)
