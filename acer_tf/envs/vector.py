"""One vector environment for all backends: gymnasium's answers become `TimeStep`s."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from acer_tf.types import EnvironmentSpec, TimeStep

# Small pictures (MinAtar's are 10 x 10) are enlarged to at least this many pixels a side.
MIN_PICTURE_SIDE = 160


class VectorEnvironment:
    """N copies of one environment, stepped together.

    Termination, truncation, reset and lost lives follow `acer_tf.types.TimeStep`. The environment below must reset in
    NEXT_STEP mode (gymnasium's and ALE's default), which already has the shape of a masked row, and must answer with
    fresh arrays: what `reset` and `step` return is never written to again.

    Attributes:
        spec: what an agent must know to act.
        num_envs: N.
    """

    spec: EnvironmentSpec
    num_envs: int

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        seeds: Any,
        *,
        stack: int = 1,
        frames_per_step: int = 1,
        life_loss_ends_return: bool = False,
    ) -> None:
        """Wraps `env`, whose spaces must be a Box of observations and a Discrete of actions.

        Args:
            env: a gymnasium vector environment in NEXT_STEP mode.
            seeds: one seed per environment, in the form that `env.reset(seed=...)` takes.
            stack: S, the leading axis of an observation where it is a stack of frames, zero-filled at a reset.
            frames_per_step: emulator frames in one step.
            life_loss_ends_return: whether the discount is 0 where `info["lives"]` falls to a value above 0.
        """
        if env.metadata.get("autoreset_mode") != AutoresetMode.NEXT_STEP:
            raise ValueError(f"{env} does not reset in NEXT_STEP mode: {env.metadata.get('autoreset_mode')}")
        observations, actions = env.single_observation_space, env.single_action_space
        assert isinstance(observations, gymnasium.spaces.Box)
        assert isinstance(actions, gymnasium.spaces.Discrete)
        self.spec = EnvironmentSpec(
            observation_shape=observations.shape,
            observation_dtype=str(observations.dtype) if observations.dtype in (np.uint8, np.bool_) else "float32",
            stack=stack,
            num_actions=int(actions.n),
            frames_per_step=frames_per_step,
        )
        self.num_envs = env.num_envs
        self._env = env
        self._seeds = seeds
        self._first_action = int(actions.start)
        self._life_loss_ends_return = life_loss_ends_return
        self._last: np.ndarray | None = None
        self._age = np.zeros(self.num_envs, np.uint8)
        self._lives = np.zeros(self.num_envs, np.int64)

    def reset(self) -> TimeStep:
        """Starts a new game in every environment; the first call seeds them, a later one continues their generators.

        Returns:
            A TimeStep whose `observation` [N, *observation_shape] and `age` [N] (zeros) alone have a meaning.
        """
        observation, info = self._env.reset(seed=self._seeds)
        self._seeds = None
        self._last = np.zeros(self.num_envs, bool)
        self._age = np.zeros(self.num_envs, np.uint8)
        self._lives = self._read_lives(info)
        return TimeStep(
            observation=self._cast(observation),
            age=self._age,
            reward=np.zeros(self.num_envs, np.float32),
            discount=np.ones(self.num_envs, np.float32),
            mask=np.zeros(self.num_envs, bool),
            last=self._last,
        )

    def step(self, action: np.ndarray) -> TimeStep:
        """Acts once in every environment, or starts its next game where its last one is over.

        Args:
            action: [N] integers in [0, A). Where `last` was True the action is ignored (but must be in range).

        Raises:
            ValueError: `action` has another shape or type, or is out of range.
            RuntimeError: `reset` was never called.
        """
        if self._last is None:
            raise RuntimeError("call reset() before the first step()")
        mask = ~self._last
        observation, reward, terminated, truncated, info = self._env.step(self._checked(action) + self._first_action)
        lives = self._read_lives(info)
        # The last life's loss is the game's end, which the environment reports itself.
        ended = terminated | ((lives < self._lives) & (lives > 0))
        self._lives = lives
        self._age = np.where(mask, np.minimum(self._age + 1, self.spec.stack - 1), 0).astype(np.uint8)
        self._last = mask & (terminated | truncated)
        return TimeStep(
            observation=self._cast(observation),
            age=self._age,
            reward=np.where(mask, reward, 0).astype(np.float32),
            discount=np.where(mask & ended, 0, 1).astype(np.float32),
            mask=mask,
            last=self._last,
        )

    def render(self) -> np.ndarray:
        """Pictures of the present state: [N, height, width, 3] uint8, each side at least 160 pixels.

        After a step that ended a game this is its final picture, as `observation` is.

        Raises:
            RuntimeError: the environments were not made with `render=True`.
        """
        if self._env.render_mode != "rgb_array":
            raise RuntimeError("these environments draw no pictures: make them with render=True")
        pictures = np.stack(self._env.render())  # type: ignore[arg-type]
        if np.issubdtype(pictures.dtype, np.floating):
            pictures = (255 * pictures).round()
        scale = -(-MIN_PICTURE_SIDE // min(pictures.shape[1:3]))
        return pictures.astype(np.uint8).repeat(scale, axis=1).repeat(scale, axis=2)

    def close(self) -> None:
        """Frees what the environments hold."""
        self._env.close()

    def _checked(self, action: np.ndarray) -> np.ndarray:
        # Checked here because ALE's vector environment waits forever for the worker that an invalid action has killed.
        action = np.asarray(action)
        if action.shape != (self.num_envs,) or not np.issubdtype(action.dtype, np.integer):
            raise ValueError(f"want [{self.num_envs}] integer actions, got {action.dtype} of shape {action.shape}")
        if action.min() < 0 or action.max() >= self.spec.num_actions:
            raise ValueError(f"want actions in [0, {self.spec.num_actions}), got {action}")
        return action.astype(np.int64)

    def _read_lives(self, info: dict[str, Any]) -> np.ndarray:
        return info["lives"] if self._life_loss_ends_return else self._lives

    def _cast(self, observation: np.ndarray) -> np.ndarray:
        return np.asarray(observation, self.spec.observation_dtype)
