"""The data that flows through the package: every field's shape, dtype and time index.

Notation: N environments, B trajectories, T rows, S stacked frames, A discrete actions or d components of one. Recurrent
networks have a state of U numbers (0 for others), and W rows of burn-in before x_0.
Row t holds what was known when a_t was chosen, and what the environment answered to a_t. All arrays are batch-major.

Reset convention (NEXT_STEP): after a_t ends a game, x_{t+1} is the game's true final observation. Row t+1 is a *masked*
row: the environment ignores its action and answers with the next game's first observation x_{t+2}.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """What an agent must know of an environment to act in it.

    Attributes:
        observation_shape: one observation as the environment shows it; with frame stacking [S, height, width], oldest
            first.
        observation_dtype: NumPy name of its dtype: "uint8" (pixels: networks scale them to [0, 1]), "bool" or
            "float32".
        stack: S, the number of stacked frames; 1 where the environment does not stack.
        num_actions: A, the number of discrete actions; 0 where actions are continuous.
        frames_per_step: emulator frames in one agent step (4 for Atari, else 1).
        action_low: where actions are continuous, each component's least value in the environment's own units; else ().
        action_high: and its greatest. Policies act in [-1, 1]^d; environments clip, then scale to these bounds.
    """

    observation_shape: tuple[int, ...]
    observation_dtype: str
    stack: int
    num_actions: int
    frames_per_step: int = 1
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if (self.num_actions > 0) == self.continuous or len(self.action_high) != self.action_size:
            raise ValueError(
                f"want num_actions, or action_low and action_high: got {self.num_actions}, {self.action_low} and "
                f"{self.action_high}"
            )

    @property
    def action_size(self) -> int:
        """d, the length of a continuous action; 0 where actions are discrete."""
        return len(self.action_low)

    @property
    def continuous(self) -> bool:
        """Whether actions are vectors in [-1, 1]^d rather than numbers in [0, A)."""
        return self.action_size > 0

    @property
    def action_shape(self) -> tuple[int, ...]:
        """One action: () or (d,)."""
        return (self.action_size,) if self.continuous else ()

    @property
    def action_dtype(self) -> str:
        """NumPy name of an action's dtype: "int32" or "float32"."""
        return "float32" if self.continuous else "int32"

    @property
    def statistics_size(self) -> int:
        """Length of the policy's statistics φ: A probabilities, or a mean of d components."""
        return self.action_size if self.continuous else self.num_actions

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """The newest part of one observation: what replay stores per step."""
        return self.observation_shape[1:] if self.stack > 1 else self.observation_shape


class TimeStep(NamedTuple):
    """The answer of N environments to one action each: the rest of row t, and x_{t+1}.

    After `reset()` only `observation` and `age` have a meaning.
    """

    observation: np.ndarray  # [N, *observation_shape] x_{t+1}, frames stacked as the environment shows them
    age: np.ndarray  # [N] uint8: rows since x_{t+1}'s episode began, capped at S - 1
    reward: np.ndarray  # [N] float32 raw r_t; 0 on masked rows
    discount: np.ndarray  # [N] float32: 0 where a_t ended the return (terminated, or life lost by preset), else 1
    mask: np.ndarray  # [N] bool: False where the environment ignored a_t
    last: np.ndarray  # [N] bool: x_{t+1} is the final observation of a whole game, so row t+1 will be masked


class Draw(NamedTuple):
    """What one update learns from, or M of them, one after another: then all but `items` has a first axis of M."""

    trajectory: Trajectory  # [B, T, ...]
    weight: np.ndarray | None = None  # [B] float32, factors of the trajectories' gradients; None for 1
    items: np.ndarray | None = None  # [B] int64: what a prioritized replay knows them by


class Memory(NamedTuple):
    """What a recurrent network knows before a run of R rows, and where it forgets that.

    A row's observation is read by the state that the row before left, or by zeros where a new episode begins. The
    masked row still belongs to the old episode, since V there bootstraps a truncation: the row after it begins the new.
    """

    state: Any  # [B, U] float32: of the behaviour's network before the first row, cleared already where that is due
    carry: Any  # [B, R] bool: whether the state goes on into the row: True in the first, then the row before's mask


class Trajectory(NamedTuple):
    """B windows of T consecutive rows, each of one environment, with the bootstrap observation x_T.

    NumPy arrays as replay gives them, or tensors of the same shapes inside a compiled update. Recurrent networks have W
    more rows, the burn-in, before x_0; W is 0 in what was just collected, and always for other networks.
    """

    observation: Any  # [B, S-1+W+T+1, *frame_shape]: single frames, the S-1 frames before the first row's first
    age: Any  # [B, W+T+1] uint8: rows since the episode's first observation, capped at S - 1
    action: Any  # [B, T] int32, or [B, T, d] float32 as the policy drew it: the environment clips, the learner does not
    reward: Any  # [B, T] float32, raw
    discount: Any  # [B, T] float32, 0 or 1; γ is applied in the equations
    mask: Any  # [B, T] bool
    behaviour: Any  # [B, T, A or d] float32: the statistics φ of μ(·|x_t): a probability vector, or a Gaussian's mean
    memory: Memory | None = None  # of the W+T+1 rows that are observed; None where the network is not recurrent

    def arrays(self) -> list[Any]:
        """All fields in order, those of `memory` last where there is one."""
        return [*self[:-1], *(self.memory or ())]

    def reshaped(self, *lead: int) -> Trajectory:
        """The same windows, their first axis split in several of these lengths."""
        return Trajectory.of(array.reshape(*lead, *array.shape[1:]) for array in self.arrays())

    @classmethod
    def of(cls, arrays: Iterable[Any]) -> Trajectory:
        """The trajectory whose `arrays` these are."""
        observation, age, action, reward, discount, mask, behaviour, *memory = arrays
        fields = observation, age, action, reward, discount, mask, behaviour
        return cls(*fields, Memory(*memory) if memory else None)
