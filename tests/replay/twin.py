"""For comparison in replay tests: random environments, and a replay that is a plain list of rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import optree

from acer_tf.replay import TrajectoryReplay
from acer_tf.types import EnvironmentSpec, RecurrentContext, TimeStep, Trajectory, Unroll


def spec_of(
    stack: int, num_actions: int = 3, frame: tuple[int, ...] = (2, 3), dtype: str = "uint8", masks: bool = False
) -> EnvironmentSpec:
    shape = (stack, *frame) if stack > 1 else frame
    return EnvironmentSpec(shape, dtype, stack, num_actions, action_masks=masks)


def stack_frames(observation: np.ndarray, age: np.ndarray, stack: int) -> np.ndarray:
    """Frames [B, S-1+T+1, ...] to stacks [B, T+1, S, ...], oldest frame first, frames older than `age` zero."""
    stacks = np.stack([observation[:, i : i + age.shape[1]] for i in range(stack)], axis=2)
    old = np.arange(stack)[::-1] > age[..., None]
    stacks[old] = 0
    return stacks


def latest(replay: TrajectoryReplay) -> Trajectory:
    """The last T rows [N, T, ...] of all environments."""
    return _one(replay, np.array([True]))


def sample(replay: TrajectoryReplay) -> Trajectory:
    """A drawn window [N, T, ...] of each environment, or of a prioritized replay a batch of items."""
    return _one(replay, np.array([False]))


def _one(replay: TrajectoryReplay, which: np.ndarray) -> Trajectory:
    batch = replay.batch(which, np.arange(replay.num_envs)[None])
    return optree.tree_map(lambda array: array[0], batch.trajectory)


class World:
    """N environments with random frames and rewards, whose games end and whose lives are lost at random."""

    def __init__(self, spec: EnvironmentSpec, num_envs: int, seed: int, game_over: float = 0.15) -> None:
        self.spec, self.num_envs, self.game_over = spec, num_envs, game_over
        self.rng = np.random.default_rng(seed)
        self.shown: list[np.ndarray] = []  # the stacked observations of all rows

    def reset(self) -> TimeStep:
        self.last = np.zeros(self.num_envs, bool)
        self.age = np.zeros(self.num_envs, np.uint8)
        self.observation = np.zeros((self.num_envs, *self.spec.observation_shape), self.spec.observation_dtype)
        return self._answer(reset=~self.last)

    def step(self) -> TimeStep:
        reset = self.last
        self.last = ~reset & (self.rng.random(self.num_envs) < self.game_over)
        return self._answer(reset)

    def _answer(self, reset: np.ndarray) -> TimeStep:
        frames = self.rng.integers(1, 256, (self.num_envs, *self.spec.frame_shape))
        if self.spec.stack > 1:
            self.observation[:, :-1] = self.observation[:, 1:]
            self.observation[reset] = 0
            self.observation[:, -1] = frames
        else:
            self.observation[:] = frames
        self.age = np.where(reset, 0, np.minimum(self.age + 1, self.spec.stack - 1)).astype(np.uint8)
        self.shown.append(self.observation.copy())
        terminated = self.last & (self.rng.random(self.num_envs) < 0.5)
        life_lost = ~reset & (self.rng.random(self.num_envs) < 0.1)
        return TimeStep(
            observation=self.observation.copy(),
            age=self.age,
            reward=np.where(reset, 0, self.rng.normal(size=self.num_envs)).astype(np.float32),
            discount=np.where(terminated | life_lost, 0, 1).astype(np.float32),
            mask=~reset,
            last=self.last,
            legal=self.rng.random((self.num_envs, self.spec.num_actions)) < 0.5 if self.spec.action_masks else None,
        )

    def unroll(self, rows: int = 1, state: np.ndarray | None = None) -> Unroll:
        state = np.zeros((self.num_envs, 0), np.float32) if state is None else state
        steps = [(*self.act(), self.step()) for _ in range(rows)]
        unread = steps[0][2]._replace(observation=np.full_like(self.observation, 99), age=np.full_like(self.age, 99))
        return Unroll.of_rows(self.spec, unread, steps, state, state)

    def first(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The newest frames, the ages and the masks after a reset."""
        step = self.reset()
        return self.spec.newest_frame(step.observation), step.age, step.legal

    def act(self) -> tuple[np.ndarray, np.ndarray]:
        action = self.rng.integers(0, self.spec.num_actions, self.num_envs).astype(np.int32)
        behaviour = self.rng.dirichlet(np.ones(self.spec.num_actions), self.num_envs).astype(np.float32)
        return action, behaviour


@dataclasses.dataclass
class Row:
    """One row of one environment; the pending row has no outcome yet."""

    frame: np.ndarray
    age: int
    legal: np.ndarray | None
    outcome: dict[str, Any] = dataclasses.field(default_factory=dict)


class Twin:
    """Keeps all rows, and enumerates the windows that a replay of some capacity may return."""

    def __init__(
        self,
        spec: EnvironmentSpec,
        num_envs: int,
        capacity: int,
        unroll_length: int,
        state_size: int = 0,
        burn_in: int = 0,
    ) -> None:
        self.spec, self.num_envs, self.capacity, self.unroll_length = spec, num_envs, capacity, unroll_length
        self.state_size, self.burn_in = state_size, burn_in
        self.memory: list[list[Row]] = [[] for _ in range(num_envs)]
        self.segments: dict[int, np.ndarray] = {}

    @property
    def rows(self) -> int:
        return len(self.memory[0]) - 1

    @property
    def first(self) -> int:
        return max(0, self.rows - self.capacity)

    def reset(self, frame: np.ndarray, age: np.ndarray, legal: np.ndarray | None) -> None:
        if self.memory[0]:
            uniform = np.full(self.spec.num_actions, 1 / self.spec.num_actions, np.float32)
            for rows in self.memory:
                rows[-1].outcome = {"action": 0, "behaviour": uniform, "reward": 0, "discount": 1, "mask": False}
        self._show(frame, age, legal)

    def append(self, unroll: Unroll) -> None:
        self.segments[self.rows] = unroll.state
        for row in range(unroll.reward.shape[1]):
            for env, rows in enumerate(self.memory):
                names = ("action", "behaviour", "reward", "discount", "mask")
                rows[-1].outcome = {name: getattr(unroll, name)[env, row] for name in names}
            legal = None if unroll.legal is None else unroll.legal[:, row + 1]
            self._show(unroll.observation[:, row + 1], unroll.age[:, row + 1], legal)

    def _show(self, frame: np.ndarray, age: np.ndarray, legal: np.ndarray | None) -> None:
        for env, rows in enumerate(self.memory):
            rows.append(Row(frame[env].copy(), int(age[env]), None if legal is None else legal[env].copy()))

    def valid_starts(self, env: int, segments_only: bool = False) -> list[int]:
        rows = self.memory[env]
        return [
            s
            for s in range(self.first, self.rows)
            if s + self.burn_in + self.unroll_length <= self.rows
            and (not self.state_size or s in self.segments)
            and all(s - older >= self.first for older in range(rows[s].age + 1))
            and (not segments_only or s in self.segments)
            and (not segments_only or not set(self.segments) & set(range(s + 1, s + self.unroll_length)))
        ]

    def window(self, env: int, start: int, burn_in: int = 0) -> Trajectory:
        """The window without a batch axis, in the dtypes of `Trajectory`."""
        rows = self.memory[env]
        shown = rows[start : start + burn_in + self.unroll_length + 1]
        acted = shown[burn_in:-1]
        older = range(start - self.spec.stack + 1, start)
        blank = np.zeros(self.spec.frame_shape, self.spec.observation_dtype)
        frames = [rows[i].frame if i >= self.first else blank for i in older] + [row.frame for row in shown]
        return Trajectory(
            observation=np.array(frames),
            age=np.array([row.age for row in shown], np.uint8),
            action=np.array([row.outcome["action"] for row in acted], np.int32),
            reward=np.array([row.outcome["reward"] for row in acted], np.float32),
            discount=np.array([row.outcome["discount"] for row in acted], np.float32),
            mask=np.array([row.outcome["mask"] for row in acted], bool),
            behaviour=np.array([row.outcome["behaviour"] for row in acted], np.float32),
            memory=self._memory_of(env, start, shown),
            legal=np.array([row.legal for row in shown[burn_in:]]) if self.spec.action_masks else None,
        )

    def _memory_of(self, env: int, start: int, shown: list[Row]) -> RecurrentContext | None:
        if not self.state_size:
            return None
        # A row begins an episode if the environment ignored the previous row's action.
        carry = np.array([True, *(bool(row.outcome["mask"]) for row in shown[:-1])])
        return RecurrentContext(self.segments[start][env], carry)

    def starts_of(self, trajectory: Trajectory, segments_only: bool = False) -> list[int]:
        """The start of each environment's window; fails unless it equals exactly one valid window bit for bit."""

        def content(window: Trajectory) -> list[Any]:
            return [(field.dtype, field.shape, field.tobytes()) for field in optree.tree_leaves(window)]

        found = []
        for env in range(self.num_envs):
            given = content(optree.tree_map(lambda array, env=env: array[env], trajectory))
            valid = self.valid_starts(env, segments_only)
            starts = [s for s in valid if content(self.window(env, s, self.burn_in)) == given]
            assert len(starts) == 1, f"environment {env}: the window equals {len(starts)} of the valid ones"
            found += starts
        return found
