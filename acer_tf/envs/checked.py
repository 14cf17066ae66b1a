"""gymnasium's environments, stepped in turn; what they answer is checked where it arrives."""

import contextlib
import functools
import numbers
import os
import reprlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.spaces import Dict
from gymnasium.vector import SyncVectorEnv

from acer_tf.envs.masks import KEY, Reader, as_array
from acer_tf.envs.spaces import parts_of
from acer_tf.errors import EnvironmentFailure

_FORMS = {"reset": ("observation", "info"), "step": ("observation", "reward", "terminated", "truncated", "info")}
_WRAPPERS = os.path.dirname(gymnasium.wrappers.__file__), gymnasium.core.__file__


class CheckedVector(SyncVectorEnv):
    """gymnasium's vector environment, whose infos hold action masks alone: gymnasium cannot always join others.

    These are what `mask_of` reads, unless an episode has terminated; there are none without it.

    `reset` and `step` raise EnvironmentFailure where an environment answers what gymnasium or its spaces do not allow;
    the message shows it. All answers of a step are checked at once, and one by one only if that fails.
    """

    def __init__(
        self, env_id: str, make_each: Sequence[Callable[[], gymnasium.Env]], mask_of: Reader | None = None
    ) -> None:
        self._id, self._mask_of = env_id, mask_of
        made: list[gymnasium.Env] = []

        def make(make_one: Callable[[], gymnasium.Env]) -> gymnasium.Env:
            made.append(make_one())
            return made[-1]

        try:
            super().__init__([functools.partial(make, make_one) for make_one in make_each])
        except BaseException:
            for env in made:
                with contextlib.suppress(Exception):  # the first error is the one to report
                    env.close()
            raise
        self._over = [False] * self.num_envs

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self._over = [False] * self.num_envs
        seeds = [None] * self.num_envs if seed is None else seed
        observations: list[Any] = []
        masks: list[Any] = []
        for env, one in zip(self.envs, seeds, strict=True):
            answer = self._begin(env, seed=one, options=options)
            observations.append(_copy(answer[0]))
            masks.append(self._mask(env, observations[-1], answer))
        return self._batch("reset", self.single_observation_space, observations), self._infos(masks)

    def step(self, actions: Any) -> Any:
        answers: list[Any] = []
        observations: list[Any] = []
        masks: list[Any] = []
        try:
            for env, action, over in zip(self.envs, actions, self._over, strict=True):
                answers.append(answer := self._begin(env) if over else env.step(action))
                observations.append(_copy(answer[0]) if isinstance(answer, tuple | list) and answer else None)
                masks.append(self._mask(env, observations[-1], answer))
        except (TypeError, ValueError) as error:
            self._require_no_wrapper("step", error)
            raise
        try:
            _, rewards, terminated, truncated, infos = zip(*answers, strict=True)
        except (TypeError, ValueError):
            infos = (None,)
        if not {dict}.issuperset(map(type, infos)):
            for answer in answers:
                self._require_form("step", answer)
        ended, cut = self._flags("terminated", terminated), self._flags("truncated", truncated)
        self._over = (ended | cut).tolist()
        seen = self._batch("step", self.single_observation_space, observations)
        return seen, self._rewards_of(rewards), ended, cut, self._infos(masks)

    def _mask(self, env: gymnasium.Env, observation: Any, answer: Any) -> Any:
        """A copy of the mask at the observation, which the next environment may overwrite; None after a termination."""
        if self._mask_of is None:
            return None
        self._require_form("step", answer)
        terminated = self._flags("terminated", answer[2:3])[0]
        return None if terminated else _copy(self._mask_of(env, observation, answer[-1]))

    def _infos(self, masks: list[Any]) -> dict[str, Any]:
        return {} if self._mask_of is None else {KEY: masks}

    def _begin(self, env: gymnasium.Env, **options: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The first observation of an episode, in the form of a step's answer."""
        try:
            answer: Any = env.reset(**options)
        except (TypeError, ValueError) as error:
            self._require_no_wrapper("reset", error)
            raise
        self._require_form("reset", answer)
        return answer[0], 0.0, False, False, answer[1]

    def _require_no_wrapper(self, method: str, error: Exception) -> None:
        """Raises if a wrapper of gymnasium's, such as a time limit, could not take an environment's answer."""
        if "unpack" in str(error) and traceback.extract_tb(error.__traceback__)[-1].filename.startswith(_WRAPPERS):
            self._refuse_form(method, str(error))

    def _require_form(self, method: str, answer: Any) -> None:
        if not isinstance(answer, tuple | list):
            self._refuse_form(method, f"got one value of {_described(answer)}")
        if len(answer) != len(_FORMS[method]):
            self._refuse_form(method, f"got {len(answer)} values")
        if not isinstance(answer[-1], dict):
            self._refuse_form(method, f"got an info of {_described(answer[-1])}")

    def _refuse_form(self, method: str, found: str) -> NoReturn:
        if method == "step" and "got 4" in found:
            found += " (old gym's: its done is now terminated, or truncated where a time limit ends an episode)"
        self._fail(method, f"{method}() must return ({', '.join(_FORMS[method])}): {found}")

    def _batch(self, method: str, space: Any, found: Sequence[Any]) -> Any:
        """N observations, or parts of them, as gymnasium batches those of their space."""
        if (parts := parts_of(space)) is not None:
            for each in found:
                of_kind = isinstance(each, Mapping if isinstance(space, Dict) else tuple | list)
                if not of_kind or set(each if isinstance(space, Dict) else range(len(each))) != parts.keys():
                    self._fail(method, f"it returned an observation of {_described(each)}, but its space is {space}")
            return {key: self._batch(method, part, [each[key] for each in found]) for key, part in parts.items()}

        def fits(array: np.ndarray, shape: tuple[int, ...]) -> bool:
            return array.shape == shape and np.can_cast(array.dtype, space.dtype, "same_kind")

        if fits(observations := as_array(found), (self.num_envs, *space.shape)):
            return observations
        for each in found:
            if not fits(as_array(each), space.shape):
                self._fail(method, f"it returned an observation of {_described(each)}, but its space is {space}")
        return np.stack([np.asarray(each, space.dtype) for each in found])

    def _rewards_of(self, found: Sequence[Any]) -> np.ndarray:
        rewards = as_array(found)
        if rewards.shape != (len(found),) or rewards.dtype.kind not in "fiub":
            for each in found:
                one = as_array(each)
                if (one.ndim or one.dtype.kind not in "fiub") and not isinstance(each, numbers.Real):
                    self._fail("step", f"it returned a reward of {_described(each)}, which must be a real number")
        return rewards.astype(np.float64)

    def _flags(self, name: str, found: Sequence[Any]) -> np.ndarray:
        flags = as_array(found)
        if flags.dtype != bool or flags.shape != (len(found),):
            for each in found:
                if as_array(each).ndim or each not in (0, 1):
                    self._fail("step", f"it returned {name} of {_described(each)}, which must be True or False")
        return flags.astype(bool)

    def _fail(self, method: str, what: str) -> NoReturn:
        # Without a cause: its traceback would be of code of gymnasium's, not of the environment's.
        raise EnvironmentFailure(f"{self._id} failed in {method}(): {what}") from None


def _copy(observation: Any) -> Any:
    """A copy of the arrays of an observation or a mask, which the next environment may overwrite."""
    if type(observation) is np.ndarray:
        return observation.copy()
    if isinstance(observation, dict):
        return {key: _copy(part) for key, part in observation.items()}
    return type(observation)(map(_copy, observation)) if type(observation) in (tuple, list) else observation


def _described(value: Any) -> str:
    """Words that follow "of": a shape and dtype, or else a type and value."""
    array = as_array(value)
    if array.ndim:
        return f"shape {array.shape} and dtype {array.dtype}"
    return f"type {type(value).__name__}, {reprlib.repr(value)}"
