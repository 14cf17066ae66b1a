"""What is evaluated without a training: policies, and environments that follow a script."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.envs.families import AtariPreset
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import default_network
from acer_tf.policies.evaluation import EvaluationResult, evaluate
from acer_tf.policies.export import export_policy
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.types import EnvironmentSpec, TimeStep

SPEC = EnvironmentSpec((1,), "float32", 1, 2, 3)


class FakePolicy:
    """Equal probabilities, or what it is given, without a SavedModel."""

    def __init__(self, env: str, spec: EnvironmentSpec = SPEC, preset: AtariPreset | None = None) -> None:
        values = dataclasses.asdict(preset) if preset else None
        self.metadata = {"env": env, "atari_preset_values": values}
        self.spec = spec
        self.shares = np.full(spec.num_actions, 1 / spec.num_actions, np.float32)
        self.calls = 0

    def initial_state(self, count: int) -> np.ndarray:
        return np.zeros((count, 0), np.float32)

    def answer(
        self, observation: np.ndarray, state: np.ndarray | None = None, action_mask: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"probabilities": np.tile(self.shares, (len(observation), 1))}


class ScriptedEnvironment:
    """Environment i has episodes of `lengths[i]` steps without end; a step's reward is 10·i + 1, and every second step
    loses a life (discount 0)."""

    def __init__(self, lengths: list[int]) -> None:
        self.spec, self.num_envs = SPEC, len(lengths)
        self.steps_per_second = None
        self.has_time_limit = True
        self.pauses = False
        self._lengths = np.array(lengths)
        self._step = np.zeros(self.num_envs, np.int64)
        self.closed = False

    def reset(self) -> TimeStep:
        return self._answer(np.zeros(self.num_envs, bool))

    def step(self, action: np.ndarray) -> TimeStep:
        assert action.shape == (self.num_envs,) and ((action >= 0) & (action < 2)).all()
        mask = self._step < self._lengths
        self._step = np.where(mask, self._step + 1, 0)
        return self._answer(mask)

    def _answer(self, mask: np.ndarray) -> TimeStep:
        last = self._step == self._lengths
        return TimeStep(
            observation=np.zeros((self.num_envs, 1), np.float32),
            age=np.zeros(self.num_envs, np.uint8),
            reward=np.where(mask, 10 * np.arange(self.num_envs) + 1, 0).astype(np.float32),
            discount=(mask & (self._step % 2 == 1) & ~last).astype(np.float32),
            mask=mask,
            last=last,
        )

    def render(self) -> np.ndarray:
        return np.full((161, 211, 3), self._step[0], np.uint8)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEnvironment]:
    """Makes `evaluate` run scripted episodes of 1, 2, 3, ... steps; returns a list that collects the environments."""
    made: list[ScriptedEnvironment] = []

    def make(env_id: str, num_envs: int, seed: Any, **_: Any) -> ScriptedEnvironment:
        made.append(ScriptedEnvironment(list(range(1, num_envs + 1))))
        return made[-1]

    monkeypatch.setattr(envs, "make", make)
    return made


def run(policy: Any, **arguments: Any) -> EvaluationResult:
    return evaluate(policy, **arguments)


def real_policy(folder: Path, env: str, preset: str | None = None) -> Policy:
    """The exported policy of a random network."""
    spec = envs.spec(env, atari_preset=preset or "acer2016")
    given = {"agent": "acer", "preset": "baselines", "steps": 0, "commit": None, "versions": {}}
    network = Network(spec, architecture=default_network(spec))
    export_policy(network, folder / "policy", {"env": env, "atari_preset": preset, **given})
    return load_policy(folder / "policy")
