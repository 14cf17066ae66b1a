"""A vector environment of the caller's, in the convention of `acer_tf.types`."""

import inspect
import signal
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from acer_tf.envs import masks
from acer_tf.envs.spaces import parts_of
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment, first_line

PAUSED = "acer_tf_paused"  # in infos: nothing was stepped, but episodes have begun where they had ended


def made_by(env_id: str, factory: Callable[..., Any], num_envs: int, seed: int) -> Any:
    """The environment or vector environment that the caller's function makes.

    One with a parameter `num_envs` makes a vector environment of so many; if it also has `seed`, it is to be seeded by
    that alone, as EnvPool is.

    Raises:
        InvalidEnvironment: it has a parameter `num_envs`, and does not make so many; or it returns a vector environment
            that has been closed.
    """
    # A terminal's Ctrl-C would end AsyncVectorEnv's processes before the run's checkpoint; it closes them by messages.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        made = _made_by(env_id, factory, num_envs, seed)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if isinstance(made, VectorEnv) and getattr(made, "closed", False):  # the one that was checked before
        raise InvalidEnvironment(f"{env_id}: its function must make a new vector environment at each call")
    return made


def _made_by(env_id: str, factory: Callable[..., Any], num_envs: int, seed: int) -> Any:
    try:
        names = {"num_envs", "seed"} & inspect.signature(factory).parameters.keys()
    except (TypeError, ValueError):  # a class of C code
        names = set()
    if "num_envs" not in names:
        return _as_vector(factory())
    given = {"num_envs": num_envs, "seed": seed}
    made = _as_vector(factory(**{name: given[name] for name in names}))
    if not isinstance(made, VectorEnv):
        raise InvalidEnvironment(
            f"{env_id}: its function takes num_envs, so it must make a gymnasium.vector.VectorEnv, not a "
            f"{type(made).__name__}"
        )
    if made.num_envs != num_envs:
        raise InvalidEnvironment(f"{env_id}: its function made {made.num_envs} environments for num_envs={num_envs}")
    cast(Any, made).seeded = "seed" in names
    return made


class _EnvPool(VectorEnv[Any, Any, Any]):
    """EnvPool's environments before its version 1.2.5, which are no VectorEnv; seeds are given where they are made."""

    seeded = True
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, pool: Any) -> None:
        self._pool, self.num_envs = pool, len(pool)
        self.single_observation_space, self.single_action_space = pool.observation_space, pool.action_space

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        return self._pool.reset()

    def step(self, actions: Any) -> Any:
        return self._pool.step(actions)

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.close()


def _as_vector(made: Any) -> Any:
    pool = "EnvPoolMixin" in (kind.__name__ for kind in type(made).__mro__)
    return _EnvPool(made) if pool and not isinstance(made, VectorEnv) else made


class OwnVector(VectorEnv[Any, Any, Any]):
    """`env`, with the shapes of its answers checked, in NEXT_STEP mode.

    In SAME_STEP mode an answer has the first observation of the next episode, and the final one in its infos. Here the
    final one comes first. The next step then *pauses* all environments: it steps none, and its row is masked; where
    episodes have ended it brings the first observations of the next ones, elsewhere the same as before.
    """

    def __init__(self, env_id: str, env: VectorEnv[Any, Any, Any]) -> None:
        found = (env.metadata or {}).get("autoreset_mode")
        try:
            mode = AutoresetMode(found)
        except ValueError:
            mode = AutoresetMode.DISABLED
        if mode == AutoresetMode.DISABLED:
            raise InvalidEnvironment(
                f"{env_id}: its vector environment must begin the next episodes by itself: its "
                f'metadata["autoreset_mode"] is {found}, and must be AutoresetMode.NEXT_STEP or SAME_STEP'
            )
        self._id, self._env, self.pauses = env_id, env, mode == AutoresetMode.SAME_STEP
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = env.num_envs
        self.single_observation_space, self.single_action_space = env.single_observation_space, env.single_action_space
        self._ended = np.zeros(self.num_envs, bool)  # in SAME_STEP mode: where the last answer had a final observation
        self._silent = np.zeros(self.num_envs, bool)  # where `action_masks()` of the copies cannot be asked
        self._next: Any = None  # the first observations of the next episodes, and those of the others; their infos
        self.mask_of: Callable[[Any, dict[str, Any]], Any] | None = None  # how to read action masks, if there are some

    def find_masks(self) -> None:
        """Sets `mask_of`, by a reset, as in `masks.reader_of`; methods are found only in a `SyncVectorEnv`."""
        _, info = self._form("reset", self._env.reset(), 2)
        copies = getattr(self._env.unwrapped, "envs", ()) if isinstance(self._env.unwrapped, SyncVectorEnv) else ()
        methods = [masks.method_of(copy) for copy in copies]
        if info.get(masks.KEY) is not None:
            self.mask_of = lambda observation, info: info.get(masks.KEY)
        elif masks.shows_masks(self.single_observation_space):
            self.mask_of = lambda observation, info: observation[masks.KEY]
        elif methods and all(methods):
            self.mask_of = lambda observation, info: [
                None if silent else method() for method, silent in zip(methods, self._silent, strict=True)
            ]

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None and getattr(self._env, "seeded", False):
            seed = None
        elif seed is not None and not isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv):
            seed = seed[0]  # gymnasium says no more of others than that they take one
        self._ended[:] = self._silent[:] = False
        observation, info = self._form("reset", self._env.reset(seed=seed), 2)
        observation = self._checked("reset", self.single_observation_space, observation)
        return observation, self._infos("reset", observation, info)

    def step(self, actions: Any) -> Any:
        nothing = np.zeros(self.num_envs, bool)
        if self._ended.any():
            self._ended, self._silent = nothing.copy(), nothing.copy()
            observation, info = self._next
            infos = self._infos("step", observation, info) | {PAUSED: True}
            return observation, np.zeros(self.num_envs), nothing, nothing, infos
        observation, reward, terminated, truncated, info = self._form("step", self._env.step(actions), 5)
        observation = self._checked("step", self.single_observation_space, observation)
        reward = self._numbers("step", "rewards", reward, "fiub").astype(np.float64)
        terminated = self._numbers("step", "terminated", terminated, "b")
        truncated = self._numbers("step", "truncated", truncated, "b")
        # In SAME_STEP mode the end of an episode is over when they could be asked; in NEXT_STEP a cut one has a mask.
        self._silent = terminated | truncated if self.pauses else terminated
        if self.pauses and (ended := terminated | truncated).any():
            self._ended, self._next = ended, (observation, info)
            if "final_obs" not in info:
                self._fail("step", "in SAME_STEP mode infos must have final_obs where episodes end")
            try:
                observation = self._final(self.single_observation_space, observation, info["final_obs"], ended)
            except (TypeError, KeyError, IndexError) as error:
                self._fail("step", f"final_obs must have an observation where an episode ends: {first_line(error)}")
        return observation, reward, terminated, truncated, self._infos("step", observation, info)

    def _infos(self, method: str, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        """The action masks alone, None where there is none.

        After an end in SAME_STEP mode, infos are of the reset, and have those of the final observation in `final_info`.
        """
        if self.mask_of is None:
            return {}
        found = self._masks(method, observation, info)
        if self._ended.any():
            final = info.get("final_info", {})
            if isinstance(final, np.ndarray | list | tuple):  # of dictionaries
                final = {masks.KEY: [each.get(masks.KEY) if isinstance(each, dict) else None for each in final]}
            last = self._masks(method, observation, final if isinstance(final, dict) else {})
            found = [last[i] if ended else found[i] for i, ended in enumerate(self._ended)]
        return {masks.KEY: found}

    def _masks(self, method: str, observation: Any, info: dict[str, Any]) -> list[Any]:
        assert self.mask_of is not None
        if (given := self.mask_of(observation, info)) is None:
            return [None] * self.num_envs
        there = self._numbers(method, f"_{masks.KEY}", info.get(f"_{masks.KEY}", np.ones(self.num_envs, bool)), "b")
        if not (isinstance(given, list | tuple) or np.ndim(given)) or len(given) != self.num_envs:
            self._fail(method, f"it returned action masks {given!r:.100}, but {self.num_envs} are due")
        return [mask if flag else None for mask, flag in zip(given, there, strict=True)]

    def close_extras(self, **kwargs: Any) -> None:
        self._env.close()

    def _form(self, method: str, answer: Any, count: int) -> Any:
        if not isinstance(answer, tuple) or len(answer) != count:
            found = f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
            self._fail(method, f"it must return {count} values, got {found}")
        if not isinstance(answer[-1], dict):
            self._fail(method, f"its infos must be a dictionary, got a {type(answer[-1]).__name__}")
        return answer

    def _checked(self, method: str, space: Any, found: Any) -> Any:
        """A copy of N observations, which a vector environment may overwrite."""
        if (parts := parts_of(space)) is not None:
            try:
                return {key: self._checked(method, part, found[key]) for key, part in parts.items()}
            except (KeyError, IndexError, TypeError):
                self._fail(method, f"it returned observations of {type(found).__name__}, but their space is {space}")
        values = masks.as_array(found).copy()
        if values.shape != (self.num_envs, *space.shape) or not np.can_cast(values.dtype, space.dtype, "same_kind"):
            what = f"shape {values.shape} and dtype {values.dtype}"
            self._fail(method, f"it returned observations of {what}, but {self.num_envs} of {space} are due")
        return values

    def _final(self, space: Any, shown: Any, final: Any, ended: np.ndarray) -> Any:
        """`shown` with the final observations where episodes ended: a batch, or each in an array of objects."""
        if (parts := parts_of(space)) is not None:
            if isinstance(final, np.ndarray | list):  # of objects
                final = {key: [None if each is None else each[key] for each in final] for key in shown}
            return {key: self._final(part, shown[key], final[key], ended) for key, part in parts.items()}
        values = shown.copy()
        for number in np.flatnonzero(ended):
            one = masks.as_array(final[number])
            if one.shape != space.shape or not np.can_cast(one.dtype, space.dtype, "same_kind"):
                what = f"shape {one.shape} and dtype {one.dtype}"
                self._fail("step", f"final_obs of environment {number} has {what}, but its space is {space}")
            values[number] = one
        return values

    def _numbers(self, method: str, name: str, found: Any, kinds: str) -> np.ndarray:
        values = masks.as_array(found).copy()
        if values.shape != (self.num_envs,) or values.dtype.kind not in kinds:
            what = f"shape {values.shape} and dtype {values.dtype}"
            due = f"{self.num_envs} {'booleans' if kinds == 'b' else 'real numbers'}"
            self._fail(method, f"it returned {name} of {what}, but {due} are due")
        return values

    def _fail(self, method: str, what: str) -> NoReturn:
        raise EnvironmentFailure(f"{self._id} failed in {method}(): {what}") from None
