"""One vector environment for all backends: converts gymnasium's results to `TimeStep`s."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from acer_tf.errors import InvalidEnvironment
from acer_tf.types import EnvironmentSpec, TimeStep

MIN_PICTURE_SIDE = 160  # pixels that small pictures (MinAtar's are 10 x 10) are enlarged to


def check_action_space(env_id: str, space: gymnasium.Space[Any]) -> None:
    """Raises InvalidEnvironment unless agents can act in `space`: Discrete, or a bounded Box of real vectors."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return
    if not isinstance(space, gymnasium.spaces.Box):
        reason = "only a Discrete or a Box one is supported"
    elif len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
        reason = "a Box must be of vectors of real numbers"
    elif 0 in space.shape:
        reason = "a Box must have at least one component"
    elif not _width_is_finite(space):
        reason = "a Box must be bounded: policies act in [-1, 1], which is scaled to its bounds"
    else:
        return
    raise InvalidEnvironment(f"{env_id} has the action space {space}; {reason}")


def _width_is_finite(box: gymnasium.spaces.Box) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(box.high - box.low).all())


class VectorEnvironment:
    """N copies of one environment, stepped together.

    Termination, truncation, reset and lost lives follow `acer_tf.types.TimeStep`. The wrapped environment must reset in
    NEXT_STEP mode (the default of gymnasium and ALE), which yields masked rows, and must return new arrays: what
    `reset` and `step` returned is never overwritten.

    Continuous actions are vectors in [-1, 1]^d: they are clipped to [-1, 1], then scaled to the bounds of the
    environment's action space.

    Attributes:
        spec: what an agent must know to act.
        num_envs: N.
        steps_per_second: agent steps in one simulated second; None if the environment has no clock.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        seeds: Any,
        *,
        stack: int = 1,
        frames_per_step: int = 1,
        life_loss_ends_return: bool = False,
        steps_per_second: float | None = None,
    ) -> None:
        """Wraps `env`, whose spaces must be a Box of observations, and a Discrete or a bounded Box of actions.

        Args:
            env: a gymnasium vector environment in NEXT_STEP mode, whose `render` returns one picture: environment 0's.
            seeds: one per environment, as `env.reset(seed=...)` takes them.
            stack: S, the leading axis of an observation if it is a stack of frames, zero-filled at a reset.
            frames_per_step: emulator frames in one step.
            life_loss_ends_return: whether the discount is 0 where `info["lives"]` falls to a value above 0.
            steps_per_second: of a video at the environment's own speed; None if the environment declares none.

        Raises:
            InvalidEnvironment: an unsupported action space.
            ValueError: `env` does not reset in NEXT_STEP mode.
        """
        if env.metadata.get("autoreset_mode") != AutoresetMode.NEXT_STEP:
            raise ValueError(f"{env} does not reset in NEXT_STEP mode: {env.metadata.get('autoreset_mode')}")
        check_action_space(str(env), env.single_action_space)
        observations, actions = env.single_observation_space, cast(Any, env.single_action_space)
        assert isinstance(observations, gymnasium.spaces.Box)
        box = isinstance(actions, gymnasium.spaces.Box)
        self.spec = EnvironmentSpec(
            observation_shape=observations.shape,
            observation_dtype=str(observations.dtype) if observations.dtype in (np.uint8, np.bool_) else "float32",
            stack=stack,
            num_actions=0 if box else int(actions.n),
            frames_per_step=frames_per_step,
            action_low=tuple(actions.low.tolist()) if box else (),
            action_high=tuple(actions.high.tolist()) if box else (),
            action_start=0 if box else int(actions.start),
        )
        self.num_envs, self.steps_per_second = env.num_envs, steps_per_second
        self._env, self._seeds, self._actions = env, seeds, actions
        self._life_loss_ends_return = life_loss_ends_return
        self._last: np.ndarray | None = None
        self._age = np.zeros(self.num_envs, np.uint8)
        self._lives = np.zeros(self.num_envs, np.int64)

    def reset(self) -> TimeStep:
        """Starts a new episode in every environment; the first call seeds them, later ones keep their generators."""
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
        """Acts once in every environment, or starts a new episode where the last one ended.

        Args:
            action: [N] integers in [0, A), or [N, d] float32, clipped to [-1, 1]. Where `last` was True the action is
                ignored (but must be valid).

        Raises:
            ValueError: `action` has another shape or type, is out of range, or is not finite.
            RuntimeError: `reset` was never called.
            EnvironmentFailure: the environment raised, or returned what its spaces do not promise.
        """
        if self._last is None:
            raise RuntimeError("call reset() before the first step()")
        mask = ~self._last
        observation, reward, terminated, truncated, info = self._env.step(self._native(np.asarray(action)))
        lives = self._read_lives(info)
        # Losing the last life ends the episode, which the environment reports.
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
        """A picture of environment 0 as it is: [height, width, 3] uint8, each side at least 160 pixels.

        After a step that ended an episode this is its final picture, as `observation` is.

        Raises:
            RuntimeError: the environments were not made with `render=True`.
            EnvironmentFailure: the environment raised, or the process that renders MuJoCo died.
        """
        if self._env.render_mode != "rgb_array":
            raise RuntimeError("these environments cannot render: make them with render=True")
        (picture,) = map(np.asarray, self._env.render())  # type: ignore[arg-type]
        if np.issubdtype(picture.dtype, np.floating):
            picture = (255 * picture).round()
        scale = -(-MIN_PICTURE_SIDE // min(picture.shape[:2]))
        return picture.astype(np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)

    def close(self) -> None:
        self._env.close()

    def _native(self, action: np.ndarray) -> np.ndarray:
        """`action` in the environment's action space."""
        want = (self.num_envs, *self.spec.action_shape)
        kind = np.floating if self.spec.continuous else np.integer
        if action.shape != want or not np.issubdtype(action.dtype, kind):
            name = "real" if self.spec.continuous else "integer"
            raise ValueError(f"expected {list(want)} {name} actions, got {action.dtype} of shape {action.shape}")
        if self.spec.continuous:
            if not np.isfinite(action).all():
                raise ValueError(f"expected finite actions, got {action}")
            low, high = self._actions.low, self._actions.high
            share = (np.clip(action, -1, 1) + np.float64(1)) / 2
            # Clipped again: rounding may exceed the bounds, which some environments assert.
            return np.clip(low + share * (high - low), low, high).astype(self._actions.dtype)
        # An invalid action would kill a worker of ALE's vector environment, which then waits for it forever.
        if action.min() < 0 or action.max() >= self.spec.num_actions:
            raise ValueError(f"expected actions in [0, {self.spec.num_actions}), got {action}")
        return action.astype(np.int64) + self.spec.action_start

    def _read_lives(self, info: dict[str, Any]) -> np.ndarray:
        return info["lives"] if self._life_loss_ends_return else self._lives

    def _cast(self, observation: np.ndarray) -> np.ndarray:
        return np.asarray(observation, self.spec.observation_dtype)
