"""Actors in threads of their own: what they act with, what they raise, and environments that do not return."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from acer_tf.errors import EnvironmentFailure
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.training import acting_threads
from acer_tf.training.acting_threads import ActingThreads
from acer_tf.training.actor import Actor, Request, Stopped
from acer_tf.training.train import train
from tests.training.scripted import Row, ScriptedEnvironment, act, check_progress, small_settings, timeless

TASKS = {
    "DQN by rank": {"env": "minatar/breakout", "agent": "dqn", "preset": "ddqn_rank"},
    "recurrent": {"env": "minatar/breakout", "network": "small", "lstm_units": 256, "burn_in": 5},
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
    """`ActingThreads`, one for each environment, with what they need."""

    def __init__(self, *envs: ScriptedEnvironment) -> None:
        self.agent, self.acting, self.notes = Learner(), Learner(), list[str]()
        self.stop = SimpleNamespace(signal_number=None)
        self.actors = ActingThreads(
            lambda policy: [Actor(env, policy, 0) for env in envs],
            self.agent,
            self.acting,
            len(envs),
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


def test_the_environments_of_one_actor_step_while_those_of_another_wait_and_the_order_is_kept():
    waiting, others = Slow(), ScriptedEnvironment([[Row(1.0), Row(2.0)], [Row(3.0)]])
    thread = Thread(waiting, others)
    thread.actors.begin(request(2))
    while len(others.actions) < 2:
        time.sleep(0.01)
    assert waiting.actions == []
    waiting.go.set()
    assert thread.actors.take().reward.tolist() == [[0, 0], [1, 2], [3, 0]]
    thread.actors.close()


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


def test_what_one_raises_is_raised_while_another_does_not_return():
    class Failing(ScriptedEnvironment):
        def step(self, action):
            raise EnvironmentFailure("the physics")

    waiting = Slow()
    thread = Thread(waiting, Failing([[]]))
    thread.actors.begin(request(3))
    with pytest.raises(EnvironmentFailure, match="the physics"):
        thread.actors.take()
    assert not waiting.go.is_set()
    waiting.go.set()
    thread.actors.close()
    assert waiting.closed


def test_an_environment_that_does_not_return_is_named_and_left_at_a_request_to_stop(monkeypatch):
    monkeypatch.setattr(acting_threads, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(acting_threads, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(acting_threads, "_POLL_SECONDS", 0.2)
    env = Slow()
    thread = Thread(env)
    thread.actors.begin(request(3, steps=40))
    threading.Timer(0.9, lambda: setattr(thread.stop, "signal_number", 15)).start()
    with pytest.raises(Stopped):
        thread.actors.take()
    (note,) = thread.notes  # once, however long it lasts
    assert note.startswith("40: the environments have not returned for 0.1 s, at ")
    assert "test_acting_threads.py:" in note and note.endswith("(step)")  # not where threading waits
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


@pytest.mark.usefixtures("light_policies")
@pytest.mark.xla
@pytest.mark.training
@pytest.mark.parametrize("task", TASKS)
def test_rows_are_those_of_a_lag_in_turn_also_after_an_interruption(task: str, tmp_path: Path):
    settings = small_settings(**{"num_envs": 4, "total_steps": 300, "actors": 1, **TASKS[task]})
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


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
def test_any_number_of_actors_is_a_lag_of_one(tmp_path: Path):
    given = [{"actors": number} for number in (0, 1, 2, 4)]
    found = []
    for number, (threads, each) in enumerate(zip((1, 1, 2, 1), given, strict=True)):
        run_dir = tmp_path / str(number)
        train(small_settings(num_envs=4, total_steps=300, **each), run_dir, threads=threads, quiet=True)
        found.append(timeless(run_dir))
    without, lag, *others = found
    assert all(rows == lag for rows in others)
    assert without != lag


@pytest.mark.usefixtures("light_policies")
@pytest.mark.training
def test_a_failing_environment_leaves_the_last_checkpoint_and_no_thread(tmp_path: Path):
    class Breaking(CartPoleEnv):
        steps = 0

        def step(self, action):
            Breaking.steps += 1
            if Breaking.steps > 500:
                raise ValueError("the motor is hot")
            return super().step(action)

    settings = small_settings(actors=1, env="Breaking", total_steps=1000)
    with pytest.raises(EnvironmentFailure, match="the motor is hot"):
        train(settings, tmp_path / "run", threads=2, quiet=True, checkpoint_minutes=0, env=Breaking)
    assert not any(thread.name == "acting" for thread in threading.enumerate())
    assert Checkpoints(tmp_path / "run" / "checkpoints").restore(None).state["actor"]["steps"] > 400
    train(settings, tmp_path / "run", threads=2, quiet=True, env=CartPoleEnv)
    check_progress(tmp_path / "run", settings)
