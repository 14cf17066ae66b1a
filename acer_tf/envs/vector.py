"""One vector environment for all families: converts gymnasium's results to `TimeStep`s."""

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import AutoresetMode, VectorEnv

from acer_tf.envs import masks
from acer_tf.envs.mujoco_rendering import RenderProcess, View
from acer_tf.envs.own_vectors import PAUSED
from acer_tf.envs.spaces import Leaf, observed, spec_of
from acer_tf.errors import AcerError, EnvironmentFailure, InvalidEnvironment, first_line
from acer_tf.types import TimeStep, map_leaves

MIN_PICTURE_SIDE = 160  # pixels that small pictures (MinAtar's are 10 x 10) are enlarged to
# Packages that environments import, and the extra that installs each. gymnasium's own have other versions than ours.
_EXTRAS = {"minatar": "minatar", "pygame": "classic", "mujoco": "control", "dm_control": "control", "shimmy": "control"}


@contextlib.contextmanager
def blamed(env_id: str, where: str, *, trial: bool = False) -> Iterator[None]:
    """What the environment raises becomes an EnvironmentFailure that names it, and where it failed.

    In a `trial`, before anything has begun, a package that is missing becomes an InvalidEnvironment, which says how to
    install it.
    """
    try:
        yield
    except AcerError:
        raise
    except (Exception, SystemExit) as error:
        if not (trial and isinstance(error, ModuleNotFoundError | DependencyNotInstalled)):
            raise EnvironmentFailure(f"{env_id} failed {where}: {type(error).__name__}: {error}") from error
        hint = f"a package that is not installed: {error}"
        for package, extra in _EXTRAS.items():
            installed = importlib.util.find_spec(package) is not None
            if package in str(error).lower() and not installed:
                hint = f"{package}, which is not installed ({error.__cause__ or error}): pip install 'acer_tf[{extra}]'"
        raise InvalidEnvironment(f"{env_id} failed {where}: it needs {hint}") from error


_Opened = TypeVar("_Opened")


@contextlib.contextmanager
def closing(opened: _Opened, env_id: str = "") -> Iterator[_Opened]:
    """As `contextlib.closing`, but a failure to close is printed: what was done until then stands.

    Args:
        opened: has a method `close`.
        env_id: the id of an environment whose errors do not name it.
    """
    try:
        yield opened
    finally:
        try:
            with blamed(env_id, "in close()") if env_id else contextlib.nullcontext():
                cast(Any, opened).close()
        except Exception as error:
            print(f"warning: {first_line(error)}", file=sys.stderr)


class VectorEnvironment:
    """N copies of one environment, stepped together.

    Termination, truncation, reset and lost lives follow `acer_tf.types.TimeStep`. What `reset` and `step` returned is
    never overwritten. Continuous actions are vectors in [-1, 1]^d: they are clipped to [-1, 1], then scaled to the
    bounds of the environment's action space.

    Attributes:
        spec: what an agent must know to act.
        num_envs: N.
        steps_per_second: agent steps in one simulated second; None if the environment has no clock.
        has_time_limit: whether episodes are known to be cut after some number of steps.
        pauses: whether there are masked rows also in the middle of an episode: see `own_vectors.OwnVector`.
    """

    def __init__(
        self,
        env_id: str,
        env: VectorEnv[Any, Any, Any],
        seeds: Any,
        *,
        stack: int = 1,
        frames_per_step: int = 1,
        life_loss_ends_return: bool = False,
        action_masks: bool = False,
        steps_per_second: float | None = None,
        has_time_limit: bool = True,
        picture: Callable[[], View | Any] | None = None,
    ) -> None:
        """Wraps `env`, of spaces that `envs.spaces.spec_of` accepts.

        Args:
            env_id: its name in errors.
            env: a gymnasium vector environment that returns new arrays, and resets in NEXT_STEP mode: with masked rows.
            seeds: one per environment, as `env.reset(seed=...)` takes them.
            stack: S, the leading axis of an observation if it is a stack of frames, zero-filled at a reset.
            frames_per_step: emulator frames in one step.
            life_loss_ends_return: whether the discount is 0 where `info["lives"]` falls to a value above 0.
            action_masks: whether `info["action_mask"]` has the mask of each environment; see `masks.valid_actions`.
            steps_per_second, has_time_limit: see the attributes.
            picture: a picture [height, width, 3] of environment 0, or the view of it that MuJoCo renders, which needs
                `require_gl` before; None if these environments are not rendered.

        Raises:
            InvalidEnvironment: an unsupported space.
            ValueError: `env` does not reset in NEXT_STEP mode.
        """
        if env.metadata.get("autoreset_mode") != AutoresetMode.NEXT_STEP:
            raise ValueError(f"{env} does not reset in NEXT_STEP mode: {env.metadata.get('autoreset_mode')}")
        observations, actions = masks.seen(env.single_observation_space, action_masks), env.single_action_space
        about: dict[str, Any] = dict(stack=stack, frames_per_step=frames_per_step, action_masks=action_masks)
        self.spec = spec_of(env_id, observations, actions, **about)
        self.num_envs, self.steps_per_second, self.has_time_limit = env.num_envs, steps_per_second, has_time_limit
        self._env_id, self._env, self._seeds, self._actions = env_id, env, seeds, cast(Any, actions)
        self._leaves = observed(env_id, observations)
        self._picture, self._renderer = picture, cast(RenderProcess | None, None)
        self._shape: tuple[int, ...] = ()  # of the first picture
        self._life_loss_ends_return = life_loss_ends_return
        self.pauses: bool = getattr(env, "pauses", False)
        self._last: Any = None  # before the first reset
        self._age = np.zeros(self.num_envs, np.uint8)
        self._lives = np.zeros(self.num_envs, np.int64)
        self._length = np.zeros(self.num_envs, np.int64)  # steps of the episodes so far, if there are action masks

    def reset(self) -> TimeStep:
        """Starts a new episode in every environment; the first call seeds them, later ones keep their generators.

        Raises:
            EnvironmentFailure: as `step`.
        """
        with blamed(self._env_id, "in reset()"):
            observation, info = self._env.reset(seed=self._seeds)
        self._seeds = None
        self._last = np.ones(self.num_envs, bool)  # the row of a reset is masked
        nothing = np.zeros(self.num_envs, bool)
        return self._time_step("reset", observation, nothing, nothing, nothing, info)

    def step(self, action: np.ndarray) -> TimeStep:
        """Acts once in every environment, or starts a new episode where the last one ended.

        Args:
            action: [N] integers in [0, A), or [N, d] float32, clipped to [-1, 1]. Where `last` was True the action is
                ignored (but must be valid).

        Raises:
            ValueError: `action` has another shape or type, is out of range, or is not finite.
            RuntimeError: `reset` was never called.
            EnvironmentFailure: the environment raised, or returned what gymnasium or its spaces do not allow, NaN or
                infinity; or a mask that is none, or forbids every action.
        """
        if self._last is None:
            raise RuntimeError("call reset() before the first step()")
        native = self._native(np.asarray(action))
        with blamed(self._env_id, "in step()"):
            answer = self._env.step(native)
        return self._time_step("step", *answer)

    def render(self) -> np.ndarray:
        """A picture of environment 0 as it is: [height, width, 3] uint8, each side at least 160 pixels.

        After a step that ended an episode this is its final picture, as `observation` is.

        Raises:
            RuntimeError: the environments were not made with `render=True`.
            EnvironmentFailure: the environment raised, returned no picture or one of another size than before, or the
                process that renders MuJoCo died.
        """
        if self._picture is None:
            raise RuntimeError("these environments cannot render: make them with render=True")
        with blamed(self._env_id, "in render()"):
            picture = self._picture()
            if isinstance(picture, View):
                self._renderer = self._renderer or RenderProcess(picture)
                picture = self._renderer.render(picture.data)
        picture = np.asarray(picture)
        self._shape = self._shape or picture.shape
        if picture.shape[2:] != (3,) or picture.shape != self._shape:
            raise EnvironmentFailure(
                f"{self._env_id} failed in render(): it returned a picture of shape {picture.shape}, which must be "
                f"[height, width, 3] and the same for all pictures (the first: {self._shape})"
            )
        if np.issubdtype(picture.dtype, np.floating):  # colours from 0 to 1, or to 255
            picture = (picture if picture.max() > 1 else 255 * picture).round()
        scale = -(-MIN_PICTURE_SIDE // min(picture.shape[:2]))
        return picture.astype(np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
        with blamed(self._env_id, "in close()"):
            self._env.close()

    @np.errstate(over="ignore")  # of float64 numbers that are beyond float32, which `_finite` finds
    def _time_step(
        self, method: str, observation: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]
    ) -> TimeStep:
        mask, lives = (
            ~(self._last | info.get(PAUSED, False)),
            info["lives"] if self._life_loss_ends_return else self._lives,
        )
        # Losing the last life ends the episode, which the environment reports.
        ended = terminated | ((lives < self._lives) & (lives > 0))
        self._lives, begun = lives, self._last
        self._age = np.where(mask, np.minimum(self._age + 1, self.spec.stack - 1), 0).astype(np.uint8)
        self._last = mask & (terminated | truncated)
        return TimeStep(
            observation=map_leaves(functools.partial(self._seen, method, observation), self._leaves),
            age=self._age,
            reward=self._finite(method, "a reward", np.where(mask, reward, 0), "float32"),
            discount=np.where(mask & ended, 0, 1).astype(np.float32),
            mask=mask,
            last=self._last,
            legal=self._legal(method, info, mask & terminated, mask, begun) if self.spec.action_masks else None,
        )

    def _seen(self, method: str, observation: Any, leaf: Leaf) -> np.ndarray:
        try:
            values = leaf.read(observation)
        except ValueError as error:
            raise EnvironmentFailure(f"{self._env_id} failed in {method}(): it returned {error}") from error
        return self._finite(method, "an observation", values, leaf.dtype)

    def _legal(
        self, method: str, info: dict[str, Any], ended: np.ndarray, mask: np.ndarray, begun: np.ndarray
    ) -> np.ndarray:
        self._length = np.where(begun, 0, self._length + mask)

        def fail(number: int, what: str) -> NoReturn:
            raise EnvironmentFailure(
                f"{self._env_id} failed in {method}(): environment {number}, "
                f"{self._length[number]} steps after its reset, gave an action mask that {what}"
            )

        given = info.get(masks.KEY, [None] * self.num_envs)
        return masks.valid_actions(given, self.spec, ended, self._last, fail)

    def _finite(self, method: str, name: str, given: Any, dtype: str) -> np.ndarray:
        """`given` in `dtype`, whose values must be finite there."""
        given = np.asarray(given)
        values = given.astype(dtype, copy=False)
        if values.dtype.kind in "iu" and values.dtype != given.dtype and not (same := values == given).all():
            raise EnvironmentFailure(
                f"{self._env_id} failed in {method}(): it returned {name} of {given[~same][0]}, which is no {dtype}"
            )
        if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            value = given[~finite][0]
            beyond = f", which is beyond {dtype}'s ±{np.finfo(dtype).max:.2g}" if np.isfinite(value) else ""
            raise EnvironmentFailure(f"{self._env_id} failed in {method}(): it returned {name} of {value}{beyond}")
        return values

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
        return self.spec.native_action(action.astype(np.int64)).astype(self._actions.dtype, copy=False)
