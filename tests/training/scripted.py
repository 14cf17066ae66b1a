"""Helpers of the training tests: environments that follow a script, and an agent that costs no time."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acer_tf.agents.agent import Agent, Update
from acer_tf.commands.train import run as run_script
from acer_tf.files import POLICY_METADATA, POLICY_PARTS
from acer_tf.replay import TrajectoryReplay
from acer_tf.settings import Settings, make_settings
from acer_tf.training import active_run, export_run, run
from acer_tf.training.actor import Act, Actor, LocalActors
from acer_tf.training.collector import Collector
from acer_tf.types import Batch, EnvironmentSpec, TimeStep, Trajectory, Unroll

SPEC = EnvironmentSpec((2,), "float32", stack=1, num_actions=3)
SMALL = {"num_envs": 2, "unroll_length": 5, "replay_ratio": 1.0, "replay_start": 10, "replay_capacity": 200}
SMALL_FLAGS = ["--env=CartPole-v1", *(f"--{name}={value}" for name, value in SMALL.items())]


class Row(NamedTuple):
    """The environment's answer to one action. `end`: "", a "life" lost, game "over", or "cut" by a time limit."""

    reward: float = 0.0
    end: str = ""


class ScriptedEnvironment:
    """N environments that answer by their scripts, whatever the actions, and without end after them.

    The observation of environment i after n steps is [i, first + n]. It has VectorEnvironment's interface.
    """

    pauses = False

    def __init__(self, scripts: Sequence[Sequence[Row]], first: float = 0.0) -> None:
        self.spec, self.num_envs = SPEC, len(scripts)
        self._scripts = [list(script) for script in scripts]
        self._count = first
        self.actions: list[np.ndarray] = []

    def reset(self) -> TimeStep:
        self._last = np.zeros(self.num_envs, bool)
        return self._answer([Row()] * self.num_envs, mask=self._last)

    def step(self, action: np.ndarray) -> TimeStep:
        self.actions.append(action)
        self._count += 1
        mask = ~self._last
        rows = [(s.pop(0) if s else Row()) if m else Row() for s, m in zip(self._scripts, mask, strict=True)]
        self._last = np.array([row.end in ("over", "cut") for row in rows])
        return self._answer(rows, mask)

    def close(self) -> None:
        pass

    def _answer(self, rows: list[Row], mask: np.ndarray) -> TimeStep:
        return TimeStep(
            observation=np.array([[i, self._count] for i in range(self.num_envs)], np.float32),
            age=np.zeros(self.num_envs, np.uint8),
            reward=np.array([row.reward for row in rows], np.float32),
            discount=np.array([row.end not in ("over", "life") for row in rows], np.float32),
            mask=mask,
            last=self._last,
        )


def act(
    observation: np.ndarray, seed: np.ndarray, state: np.ndarray, legal: np.ndarray | None = None, first: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Actions of the uniform policy, by the seed and the environment's number alone, without a state."""
    count = len(observation)
    action = np.random.default_rng(seed).integers(0, SPEC.num_actions, first + count)[first:].astype(np.int32)
    return action, np.full((count, SPEC.num_actions), 1 / SPEC.num_actions, np.float32), state


def replay_of(num_envs: int, capacity: int = 1000, unroll_length: int = 4, seed: int = 0) -> TrajectoryReplay:
    return TrajectoryReplay(SPEC, num_envs, capacity, unroll_length, seed)


def collector_of(env: Any, act: Act, replay: TrajectoryReplay, seed: int, **options: Any) -> Collector:
    """A collector with one actor in this process; `options` are those of `Collector`."""
    return Collector(LocalActors([Actor(env, act, seed, replay.state_size)]), replay, **options)


def same(a: Trajectory, b: Trajectory) -> bool:
    """Whether two trajectories are equal, bit for bit."""
    return all(
        x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(*map(optree.tree_leaves, (a, b)), strict=True)
    )


class Box:
    """A variable, as a checkpoint needs it."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def assign(self, value: np.ndarray) -> None:
        self.value = np.array(value)


class LightAgent:
    """Has an agent's interface, counts its updates in its weights, and keeps the trajectories that it receives."""

    def __init__(self, spec: EnvironmentSpec, diagnostics: Any = lambda update: {"value": float(update)}) -> None:
        self.network = SimpleNamespace(spec=spec)
        self.weights = Box(np.zeros(4, np.float32))
        self.trajectories: list[Trajectory] = []
        self.collected: list[np.ndarray] = []  # observations
        self.rewards: list[np.ndarray] = []  # those observed
        self.closed = False
        self._diagnostics = diagnostics

    def act(
        self,
        observation: np.ndarray,
        seed: np.ndarray,
        state: np.ndarray,
        legal: np.ndarray | None = None,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        actions = self.network.spec.num_actions
        action = np.random.default_rng(seed).integers(0, actions, len(observation)).astype(np.int32)
        return action, np.full((len(observation), actions), 1 / actions, np.float32), state

    def prepare(self, batch: Batch) -> list[str]:
        self.blank, self.updates_per_call = batch, len(batch.weight)
        return ["value"]

    def close(self) -> None:
        self.closed = True

    def schedule(self, steps: int) -> None:
        pass

    def update(self, trajectory: Trajectory, weight: np.ndarray | None = None) -> Update:
        self.trajectories.append(trajectory)
        self.weights.assign(self.weights.value + 1)
        return Update(self._diagnostics(len(self.trajectories)), np.zeros(len(trajectory.mask), np.float32))

    def learn(self, batch: Batch, at_most: int = 1) -> list[Update]:
        trajectories = [
            optree.tree_map(lambda array, i=i: array[i], batch.trajectory) for i in range(len(batch.weight))
        ]
        return [self.update(*each) for each in zip(trajectories, batch.weight, strict=True)]

    def observe_rewards(self, unroll: Unroll) -> None:
        self.rewards.append(unroll.reward)

    def update_normalization(self, observation: np.ndarray) -> None:
        self.collected.append(observation)

    def variables(self) -> dict[str, Box]:
        return {"online/weights": self.weights}

    arrays, restore = Agent.arrays, Agent.restore


def use_light_agents(monkeypatch: pytest.MonkeyPatch, diagnostics: Any = None) -> list[LightAgent]:
    """Makes the runs of a test use light agents and write light policies; returns a list that collects the agents."""
    made: list[LightAgent] = []

    def make_agent(settings: Settings, spec: EnvironmentSpec) -> LightAgent:
        made.append(LightAgent(spec, *([diagnostics] if diagnostics else [])))
        return made[-1]

    monkeypatch.setattr(run, "make_network", lambda *_: None)
    for module in (run, export_run):
        monkeypatch.setattr(module, "make_agent", make_agent)
    for module in (active_run, export_run):
        monkeypatch.setattr(module, "exporting", light_exporting)
    return made


@contextlib.contextmanager
def light_exporting(directory: Path) -> Iterator[Callable[[Any, Mapping[str, Any]], None]]:
    """In place of `exporting`."""
    yield lambda network, metadata: leave_policy(directory, metadata)


def leave_policy(directory: Path, metadata: Mapping[str, Any] | None = None) -> None:
    """The files of a policy, without content but for the metadata."""
    for part in POLICY_PARTS:
        (directory / part).parent.mkdir(parents=True, exist_ok=True)
        (directory / part).touch()
    about = {"env": "CartPole-v1", "agent": "acer", "commit": None} | dict(metadata or {})
    (directory / POLICY_METADATA).write_text(json.dumps(about))


def small_settings(**given: Any) -> Settings:
    """A run of a second."""
    return make_settings({"env": "CartPole-v1", "total_steps": 600, "log_interval": 100, **SMALL, **given})


def script(settings: Settings, run_dir: Path, **options: Any) -> int:
    """The command's exit status."""
    return run_script(settings, run_dir, checkpoint_minutes=10.0, threads=0, **options)


def tree(folder: Path) -> dict[str, bytes | None]:
    """The content of a folder, in bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def rows_of(run_dir: Path) -> list[dict[str, str]]:
    with (run_dir / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def timeless(run_dir: Path) -> list[dict[str, str]]:
    """progress.csv without times."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "steps_per_second")} for row in rows_of(run_dir)]


def check_progress(run_dir: Path, settings: Settings) -> None:
    """progress.csv has no gaps or duplicates, and counters increase; TensorBoard shows the same points."""
    rows = rows_of(run_dir)
    steps = [int(row["steps"]) for row in rows]
    crossed = [s // settings.log_interval for s in steps]
    intervals = list(range(1, settings.total_steps // settings.log_interval + 1))
    assert crossed == intervals or crossed == [*intervals, intervals[-1]]  # the end of a run always has a row
    assert steps == sorted(set(steps))
    assert steps[-2] < settings.total_steps <= steps[-1]
    for name in ("episodes", "on_policy_updates", "replay_updates", "seconds", "frames"):
        values = [float(row[name]) for row in rows]
        assert values == sorted(values), name
    events = EventAccumulator(str(run_dir / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("episodes")] == steps
    assert [event.value for event in events.Scalars("episodes")] == [float(row["episodes"]) for row in rows]
