"""Prioritized draws: what they cost beside one DQN update, how that grows with size, and what C++ takes (cpprb)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.replay import Priorities, RankHeap, SumTree
from acer_tf.replay.priorities import importance_weights
from benchmarks.timing import Group, interleaved, milliseconds

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
STORED = 1_000_000  # transitions, as in the paper
BATCHES = (32, 512)
STRUCTURES: dict[str, tuple[type[Priorities], float]] = {"proportional": (SumTree, 0.6), "rank": (RankHeap, 0.7)}


def priorities(repetitions: int, scratch: Path) -> Group:
    """A draw with its weights, and the new priorities of what was drawn, in memories of several sizes."""
    workloads = {}
    for size in SIZES:
        for name, (structure, alpha) in STRUCTURES.items():
            for batch in BATCHES if size == STORED else BATCHES[:1]:
                call = _ours(structure(size, alpha), batch)
                workloads[f"{name}, {size:,} items, batch {batch}"] = milliseconds(call, 200)
    if importlib.util.find_spec("cpprb") is not None:
        for batch in BATCHES:
            workloads[f"cpprb, {STORED:,} items, batch {batch}"] = milliseconds(_cpprb(STORED, batch), 200)
    for precision in ("float32", "bfloat16"):
        workloads[f"DQN update, batch 32, {precision}"] = milliseconds(_dqn_update(precision), 5)
    measurements = interleaved(workloads, repetitions)
    update = min(measurements[f"DQN update, batch 32, {p}"].median for p in ("float32", "bfloat16"))
    shares = {n: measurements[f"{n}, {STORED:,} items, batch 32"].median / update for n in STRUCTURES}
    return Group(measurements, {"shares_of_a_dqn_update": shares})


def _errors(size: int) -> np.ndarray:
    return np.random.default_rng(0).exponential(size=size)


def _ours(structure: Priorities, batch: int) -> Callable[[], Any]:
    structure.set(np.arange(structure.capacity), _errors(structure.capacity))
    generator = np.random.default_rng(1)

    def call() -> None:
        items, probabilities = structure.sample(batch, generator)
        importance_weights(probabilities, 0.5)
        structure.set(items, generator.exponential(size=batch))

    return call


def _cpprb(size: int, batch: int) -> Callable[[], Any]:
    from cpprb import PrioritizedReplayBuffer

    # Its draw includes the items themselves, here one small number each.
    buffer = PrioritizedReplayBuffer(size, {"item": {"dtype": np.int64}}, alpha=0.6)
    buffer.add(item=np.arange(size), priorities=_errors(size))
    generator = np.random.default_rng(1)

    def call() -> None:
        drawn = buffer.sample(batch, beta=0.5)
        buffer.update_priorities(drawn["indexes"], generator.exponential(size=batch))

    return call


def _dqn_update(precision: str) -> Callable[[], Any]:
    from acer_tf import envs
    from acer_tf.settings import make_settings
    from acer_tf.training.build import make_agent
    from acer_tf.training.device import use_threads
    from acer_tf.training.resolve import resolve
    from acer_tf.types import Trajectory

    spec = envs.spec("atari/Pong")
    given = {"env": "atari/Pong", "agent": "dqn", "preset": "ddqn_proportional", "precision": precision}
    settings = resolve(make_settings(given), spec)
    use_threads(0, settings)
    agent = make_agent(settings, spec)
    random = np.random.default_rng(0)
    batch = Trajectory(
        observation=random.integers(0, 256, (32, 5, 84, 84), np.uint8),
        age=np.full((32, 2), 3, np.uint8),
        action=random.integers(0, spec.num_actions, (32, 1)).astype(np.int32),
        reward=random.choice([-1.0, 0.0, 1.0], (32, 1)).astype(np.float32),
        discount=np.ones((32, 1), np.float32),
        mask=np.ones((32, 1), bool),
        behaviour=np.full((32, 1, spec.num_actions), 1 / spec.num_actions, np.float32),
    )
    weight = random.random(32).astype(np.float32)
    return lambda: agent.update(batch, weight)
