"""Algorithm 1: an on-policy update, then Poisson(replay ratio) updates from replay, again and again.

The paper's asynchronous threads have an environment, a replay memory and updates of their own. Here the environments
move in lockstep, and groups of them take the threads' turns one after another.
"""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from acer_tf.agents.agent import Agent
from acer_tf.replay import TrajectoryReplay
from acer_tf.training.actor import Actor, NonFiniteError
from acer_tf.types import Draw, Trajectory


class Loop:
    """One iteration is one unroll of every environment with the updates that follow it.

    Args:
        actor: collects the rows.
        agent: learns from them.
        replay: where the actor puts them.
        unroll_length: k, rows per environment in one iteration.
        trajectories_per_update: environments per group, a divisor of their number. With 1, every environment has
            updates of its own, as in the paper; with 0, they are one group.
        on_policy_updates: whether the rows just collected make an update of their own (in the paper's continuous runs
            they only join the replay).
        replay_ratio: mean number r of replayed updates per on-policy update.
        poisson: whether that number is drawn anew each time, or is always r, a whole number.
        replay_start: rows per environment that must be stored before any is replayed.
        total_steps: of the run; by its end what a prioritized replay anneals has gone all its way. 0 for not at all.
        seed: of the Poisson draws.
    """

    def __init__(
        self,
        actor: Actor,
        agent: Agent,
        replay: TrajectoryReplay,
        *,
        unroll_length: int,
        trajectories_per_update: int = 0,
        on_policy_updates: bool = True,
        replay_ratio: float,
        poisson: bool = True,
        replay_start: int,
        total_steps: int = 0,
        seed: int,
    ) -> None:
        self.actor, self.agent, self.replay = actor, agent, replay
        self._poisson, self._total_steps = poisson, total_steps
        self._unroll_length, self._replay_ratio, self._replay_start = unroll_length, replay_ratio, replay_start
        self._on_policy_updates = on_policy_updates
        size = trajectories_per_update or replay.num_envs
        self._groups = [slice(first, first + size) for first in range(0, replay.num_envs, size)]
        agent.prepare(replay.blank(self._groups[0]))
        self._generator = np.random.default_rng(seed)
        self._background = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.updates = {"on_policy": 0, "replay": 0}
        self._sums: dict[str, float] = collections.defaultdict(float)
        self._counts: dict[str, int] = collections.defaultdict(int)

    def iterate(self) -> None:
        """Raises NonFiniteError as soon as something is not finite; the weights are then not to be kept."""
        self.agent.schedule(self.actor.steps)
        self.actor.collect(self._unroll_length)
        for group in self._groups:
            latest = self.replay.latest(group)
            for kind, draw in self._draws(group, latest):
                self.replay.refresh(draw, self._update(kind, draw))
            self.agent.note(latest)
        # Also here, so that nothing is due when a checkpoint is written: a restored agent does not know since when.
        self.agent.schedule(self.actor.steps)

    def replays_due(self) -> int:
        """Draws how many updates from replay follow an on-policy one."""
        if self.replay.stored < self._replay_start or not self.replay.can_sample:
            return 0
        return int(self._generator.poisson(self._replay_ratio) if self._poisson else self._replay_ratio)

    def _draws(self, group: slice, latest: Trajectory) -> Iterator[tuple[str, Draw]]:
        """A group's on-policy batch, then those of its replay, if possible prepared while the update before it runs.

        Nothing is appended meanwhile, and one thread draws them in order: the draws are those without it.
        """
        progress = self.actor.steps / self._total_steps if self._total_steps else 0.0
        draw = functools.partial(self.replay.draw, group, min(progress, 1.0))
        due, ahead = self.replays_due(), self.replay.draws_ahead
        upcoming = self._background.submit(draw) if due and ahead else None
        if self._on_policy_updates:
            yield "on_policy", Draw(latest)
        for left in reversed(range(due)):
            batch = draw() if upcoming is None else upcoming.result()
            upcoming = self._background.submit(draw) if left and ahead else None
            yield "replay", batch

    def take_diagnostics(self) -> dict[str, float]:
        """Means since the last call (maxima of those named so), as "on_policy/..." and "replay/..."."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        self._sums.clear()
        self._counts.clear()
        return means

    def state(self) -> dict[str, Any]:
        """JSON-able: counters, the generator, and the diagnostics of the interval under way."""
        return {
            "updates": self.updates,
            "generator": json.dumps(self._generator.bit_generator.state),
            "sums": dict(self._sums),
            "counts": dict(self._counts),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.updates = dict(state["updates"])
        self._generator.bit_generator.state = json.loads(state["generator"])
        self._sums.update(state["sums"])
        self._counts.update(state["counts"])

    def _update(self, kind: str, draw: Draw) -> np.ndarray:
        diagnostics, errors = self.agent.update(draw.trajectory, draw.weight)
        self.updates[kind] += 1
        for name, value in diagnostics.items():
            if not math.isfinite(value):
                raise NonFiniteError(
                    f"{name} is {value} in {kind} update {self.updates[kind]:,}, at step {self.actor.steps:,}"
                )
            key = f"{kind}/{name}"
            if name.endswith("_max"):
                self._sums[key], self._counts[key] = max(self._sums.get(key, value), value), 1
            else:
                self._sums[key] += value
                self._counts[key] += 1
        return errors
