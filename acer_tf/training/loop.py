"""Algorithm 1: an on-policy update, then Poisson(replay ratio) updates from replay, repeated.

In the paper, each asynchronous thread has its environment, replay memory and updates. Here the environments step in
lockstep, and groups of them update in turn, as the threads would.
"""

import collections
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import optree

from acer_tf.agents.agent import Agent
from acer_tf.errors import NonFiniteError
from acer_tf.replay import TrajectoryReplay
from acer_tf.schedules import progress
from acer_tf.settings import Settings
from acer_tf.training.actor import Actor, LocalActors
from acer_tf.training.build import derive_seed
from acer_tf.training.collector import Collector
from acer_tf.training.logged import Log
from acer_tf.types import Batch, map_leaves

MOST_UPDATES, MOST_BYTES = 512, 90_000_000  # in one call of `learn`, for whose end a signal waits


class Loop:
    """One iteration is one unroll of every environment and the updates that follow it.

    With `settings.trajectories_per_update` 1, every environment has its updates, as in the paper. Without
    `settings.on_policy_updates`, rows are only stored, as in the paper's continuous runs.
    """

    def __init__(self, collector: Collector, agent: Agent, replay: TrajectoryReplay, settings: Settings) -> None:
        self.collector, self.agent, self.replay, self.settings = collector, agent, replay, settings
        self._groups = np.arange(replay.num_envs).reshape(-1, settings.trajectories_per_update or replay.num_envs)
        usual = len(self._groups) * settings.replay_ratio
        # Enough for most Poisson draws; the rest takes another call.
        most = math.ceil(usual + math.sqrt(usual) * settings.replay_poisson)
        most += len(self._groups) * settings.on_policy_updates
        one = sum(array.nbytes for array in optree.tree_leaves(replay.blank(1, self._groups.shape[1])))
        most = min(most, MOST_UPDATES, MOST_BYTES // one) if replay.draws_together else 1
        self._updates_per_call = max(1, most)
        self._generator = np.random.default_rng(derive_seed(settings, "poisson"))
        self._scheduled: int | None = None  # the steps that the agent's schedule was set for
        self.updates = {"on_policy": 0, "replay": 0}
        names = agent.prepare(replay.blank(self._updates_per_call, self._groups.shape[1]))
        self.diagnostics = [f"{kind}/{name}" for kind in self.updates for name in names]
        self._sums: dict[str, float] = collections.defaultdict(float)
        self._counts: dict[str, int] = collections.defaultdict(int)

    def iterate(self) -> None:
        """One unroll and its updates; after a NonFiniteError, the weights must be discarded."""
        self._schedule()
        unroll = self.collector.collect(self.settings.unroll_length)
        self.agent.observe_rewards(unroll)
        for kinds, batch in self._batches():
            self.replay.update_priorities(batch, self._learn(kinds, batch))
        self.agent.update_normalization(map_leaves(lambda leaf: leaf[:, :-1], unroll.observation))
        # Again, so that nothing is due at a checkpoint: a restored agent does not know what was.
        self._schedule()

    def fill(self, log: Log) -> None:
        """Puts logged rows into the empty replay as if they had just been collected, without updates."""
        env: Any = log
        actor = Actor(env, log.act_with(self.agent.act), 0, self.replay.state_size)
        logged, length = Collector(LocalActors([actor]), self.replay), self.settings.unroll_length
        for first in range(0, log.rows, length):
            unroll = logged.collect(min(length, log.rows - first))
            self.agent.observe_rewards(unroll)
            self.agent.update_normalization(map_leaves(lambda leaf: leaf[:, :-1], unroll.observation))

    def replays_due(self) -> int:
        """The number of updates from replay after an on-policy update, drawn anew at each call."""
        if self.replay.stored < self.settings.replay_start or not self.replay.can_sample:
            return 0
        ratio = self.settings.replay_ratio
        return int(self._generator.poisson(ratio) if self.settings.replay_poisson else ratio)

    def _schedule(self) -> None:
        # Not for the same steps again: assigning variables takes half a millisecond.
        if self.collector.steps != self._scheduled:
            self.agent.schedule(self.collector.steps)
            self._scheduled = self.collector.steps

    def _batches(self) -> Iterator[tuple[Sequence[str], Batch]]:
        """The iteration's updates in order, one call's at a time: their kinds, and the batches they learn from."""
        share = progress(self.collector.steps, self.settings.total_steps)
        on_policy = ["on_policy"] * self.settings.on_policy_updates
        updates = [(kind, group) for group in self._groups for kind in on_policy + ["replay"] * self.replays_due()]
        for first in range(0, len(updates), self._updates_per_call):
            kinds, groups = zip(*updates[first : first + self._updates_per_call], strict=True)
            yield kinds, self.replay.batch(np.array(kinds) == "on_policy", np.stack(groups), share)

    def take_diagnostics(self) -> dict[str, float]:
        """Means since the last call (maxima of "..._max"), named "on_policy/..." and "replay/..."."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        self._sums.clear()
        self._counts.clear()
        return means

    def state(self) -> dict[str, Any]:
        """JSON-able: counters, the generator, and the diagnostics since the last `take_diagnostics`."""
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

    def _learn(self, kinds: Sequence[str], batch: Batch) -> np.ndarray:
        """Makes those of the M updates that have an unmasked row; returns their errors [M, B], 0 of the others."""
        errors = np.zeros(batch.weight.shape, np.float32)
        # Without a gradient the optimizer's momentum would still move the weights, and the average would follow them.
        read = np.flatnonzero(batch.trajectory.mask.any(axis=(1, 2)))
        if len(read) == 0:
            return errors
        if len(read) < len(kinds):
            trajectory = optree.tree_map(lambda array: array[read], batch.trajectory)
            batch = Batch(trajectory, batch.weight[read])
        for number, update in zip(read.tolist(), self.agent.learn(batch, self._updates_per_call), strict=True):
            kind, errors[number] = kinds[number], update.errors
            self.updates[kind] += 1
            for name, value in update.diagnostics.items():
                if not math.isfinite(value):
                    raise NonFiniteError(
                        f"{name} is {value} in {kind} update {self.updates[kind]:,}, at step {self.collector.steps:,}"
                    )
                key = f"{kind}/{name}"
                if name.endswith("_max"):
                    self._sums[key], self._counts[key] = max(self._sums.get(key, value), value), 1
                else:
                    self._sums[key] += value
                    self._counts[key] += 1
        return errors
