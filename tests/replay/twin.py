"""For comparison in replay tests: random environments, and a replay that is a plain list of rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from acer_tf.types import EnvironmentSpec, RecurrentContext, TimeStep, Trajectory


def spec_of(stack: int, num_actions: int = 3, frame: tuple[int, ...] = (2, 3), dtype: str = "uint8") -> EnvironmentSpec:
    shape = (stack, *frame) if stack > 1 else frame
    return EnvironmentSpec(shape, dtype, stack, num_actions)


def stack_frames(observation: np.ndarray, age: np.ndarray, stack: int) -> np.ndarray:
    """Frames [B, S-1+T+1, ...] to stacks [B, T+1, S, ...], oldest frame first, frames older than `age` zero."""
    stacks = np.stack([observation[:, i : i + age.shape[1]] for i in range(stack)], axis=2)
    old = np.arange(stack)[::-1] > age[..., None]
    stacks[old] = 0
    return stacks


class World:
    """N environments with random frames and rewards, whose games end and whose lives are lost at random."""

    def __init__(self, spec: EnvironmentSpec, num_envs: int, seed: int, game_over: float = 0.15) -> None:
        self.spec, self.num_envs, self.game_over = spec, num_envs, game_over
        self.rng = np.random.default_rng(seed)

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
        terminated = self.last & (self.rng.random(self.num_envs) < 0.5)
        life_lost = ~reset & (self.rng.random(self.num_envs) < 0.1)
        return TimeStep(
            observation=self.observation.copy(),
            age=self.age,
            reward=np.where(reset, 0, self.rng.normal(size=self.num_envs)).astype(np.float32),
            discount=np.where(terminated | life_lost, 0, 1).astype(np.float32),
            mask=~reset,
            last=self.last,
        )

    def act(self) -> tuple[np.ndarray, np.ndarray]:
        action = self.rng.integers(0, self.spec.num_actions, self.num_envs).astype(np.int32)
        behaviour = self.rng.dirichlet(np.ones(self.spec.num_actions), self.num_envs).astype(np.float32)
        return action, behaviour


@dataclasses.dataclass
class Row:
    """One row of one environment; the pending row has no outcome yet."""

    shown: np.ndarray  # the stacked observation
    age: int
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
        self.segments: dict[int, np.ndarray | None] = {}

    @property
    def rows(self) -> int:
        return len(self.memory[0]) - 1

    @property
    def first(self) -> int:
        return max(0, self.rows - self.capacity)

    def start(self, observation: np.ndarray, age: np.ndarray) -> None:
        for env, rows in enumerate(self.memory):
            rows.append(Row(observation[env].copy(), int(age[env])))

    def append(self, action: np.ndarray, behaviour: np.ndarray, step: TimeStep) -> None:
        outcome = {"action": action, "behaviour": behaviour} | {
            name: getattr(step, name) for name in ("reward", "discount", "mask")
        }
        for env, rows in enumerate(self.memory):
            rows[-1].outcome = {name: value[env] for name, value in outcome.items()}
        self.start(step.observation, step.age)

    def begin_segment(self, state: np.ndarray | None = None) -> None:
        self.segments[self.rows] = None if state is None else state.copy()

    def seam(self, observation: np.ndarray, age: np.ndarray) -> None:
        self.segments.pop(self.rows, None)
        uniform = np.full(self.spec.num_actions, 1 / self.spec.num_actions, np.float32)
        for rows in self.memory:
            rows[-1].outcome = {"action": 0, "behaviour": uniform, "reward": 0, "discount": 1, "mask": False}
        self.start(observation, age)

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
        frames = [self._frame(rows[i]) if i >= self.first else blank for i in older] + [
            self._frame(row) for row in shown
        ]
        return Trajectory(
            observation=np.array(frames),
            age=np.array([row.age for row in shown], np.uint8),
            action=np.array([row.outcome["action"] for row in acted], np.int32),
            reward=np.array([row.outcome["reward"] for row in acted], np.float32),
            discount=np.array([row.outcome["discount"] for row in acted], np.float32),
            mask=np.array([row.outcome["mask"] for row in acted], bool),
            behaviour=np.array([row.outcome["behaviour"] for row in acted], np.float32),
            memory=self._memory_of(env, start, shown),
        )

    def _memory_of(self, env: int, start: int, shown: list[Row]) -> RecurrentContext | None:
        if not self.state_size:
            return None
        state = self.segments[start]
        assert state is not None
        # A row begins an episode if the environment ignored the previous row's action.
        return RecurrentContext(state[env], np.array([True, *(bool(row.outcome["mask"]) for row in shown[:-1])]))

    def shown(self, env: int, start: int) -> np.ndarray:
        """The window's stacked observations [T+1, S, ...]."""
        return np.array([row.shown for row in self.memory[env][start : start + self.unroll_length + 1]])

    def starts_of(self, trajectory: Trajectory, segments_only: bool = False) -> list[int]:
        """The start of each environment's window; fails unless it equals exactly one valid window bit for bit."""
        found = []
        for env in range(self.num_envs):
            given = [(field.dtype, field[env].shape, field[env].tobytes()) for field in trajectory.arrays()]
            starts = [
                s
                for s in self.valid_starts(env, segments_only)
                if [(field.dtype, field.shape, field.tobytes()) for field in self.window(env, s, self.burn_in).arrays()]
                == given
            ]
            assert len(starts) == 1, f"environment {env}: the window equals {len(starts)} of the valid ones"
            found += starts
        return found

    def _frame(self, row: Row) -> np.ndarray:
        return row.shown[-1] if self.spec.stack > 1 else row.shown
