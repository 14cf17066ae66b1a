"""Action masks: where an environment gives them, and their checks."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from gymnasium.spaces import Dict

from acer_tf.types import EnvironmentSpec

KEY, METHOD = "action_mask", "action_masks"

# The mask at an observation: of an environment, the observation and its info. Anything, or None for no mask.
Reader = Callable[[Any, Any, dict[str, Any]], Any]


def reader_of(env: Any) -> Reader | None:
    """How to read the masks of `env`, which is reset for it; None if it gives none.

    They are in its infos, as "action_mask" (gymnasium's Taxi), or are a part of that name of its observations
    (PettingZoo), or are what its method `action_masks` returns (sb3-contrib); the first of these counts.
    """
    answer = env.reset()
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(info := answer[1], dict)):
        return None  # which is refused where episodes begin
    if info.get(KEY) is not None:
        return lambda env, observation, info: info.get(KEY)
    if shows_masks(env.observation_space):
        # An observation of another form is refused later.
        return lambda env, observation, info: observation.get(KEY) if isinstance(observation, dict) else None
    return None if method_of(env) is None else lambda env, observation, info: method_of(env)()


def seen(observations: Any, action_masks: bool) -> Any:
    """The space of observations without the masks in them, if masks are used."""
    if not (action_masks and shows_masks(observations)):
        return observations
    return Dict({name: part for name, part in observations.spaces.items() if name != KEY})


def valid_actions(
    given: Any, spec: EnvironmentSpec, ended: np.ndarray, last: np.ndarray, fail: Callable[[int, str], NoReturn]
) -> np.ndarray:
    """[N, A] bool of the masks that N environments gave, in the convention of `acer_tf.types`.

    Args:
        given: N masks of zeros and ones or booleans, or None: a sequence, or an array. A mask has a number for each of
            the A actions. If actions are arrays, its axes are those of their entries; or it has a row of numbers for
            each entry, in a tuple or joined, and an action is valid if its entries are.
        spec: the environments'.
        ended: [N] bool: the episode terminated.
        last: [N] bool: the observation is the final one of its episode.
        fail: raises for the number of an environment, with what its mask does or is not.
    """
    masks = as_array(given)
    if masks.shape == (len(last), spec.num_actions) and _is_mask(masks) and not spec.action_sizes:
        legal = masks.astype(bool) | ended[:, None]
        if legal.any(axis=1).all():
            return legal
    legal = np.ones((len(last), spec.num_actions), bool)
    for number in np.flatnonzero(~ended).tolist():
        if given[number] is None and last[number]:
            continue
        mask = _of_all(given[number], spec.action_sizes or (spec.num_actions,))
        if mask is None:
            found, form = as_array(given[number]), f"{spec.num_actions} numbers 0 or 1, one for each action"
            if sizes := np.ravel(spec.action_sizes).tolist():
                form = f"an array of 0 or 1 of shape {tuple(sizes)}, or {sum(sizes)} numbers, a row for each entry"
            shown = f"shape {found.shape} and dtype {found.dtype}" if found.ndim else repr(given[number])
            fail(number, f"is not {form}: {shown:.200}")
        if mask.any():
            legal[number] = mask
        elif not last[number]:
            fail(number, "forbids every action")
    return legal


def _of_all(given: Any, nested_sizes: Any) -> np.ndarray | None:
    """The mask [A] of the joint actions, whose entries have these sizes; None if `given` is not a mask."""
    mask, entries = as_array(given), [*_entries(given, np.ndim(nested_sizes))]
    sizes = np.ravel(nested_sizes).tolist()
    if isinstance(given, tuple) and len(entries) == len(sizes):
        parts = [np.ravel(as_array(part)) for part in entries]
        mask = np.concatenate(parts) if [len(part) for part in parts] == sizes else np.array(None)
    if not _is_mask(mask):
        return None
    if mask.shape == tuple(sizes):
        return mask.ravel()
    if mask.shape != (sum(sizes),):
        return None
    parts = np.split(mask.astype(bool), np.cumsum(sizes)[:-1])
    return functools.reduce(np.multiply.outer, parts).reshape(math.prod(sizes))


def _entries(given: Any, axes: int) -> Iterator[Any]:
    """What tuples nested as deep as the entries' axes hold, as gymnasium gives the masks of MultiDiscrete."""
    if axes and isinstance(given, tuple):
        for each in given:
            yield from _entries(each, axes - 1)
    else:
        yield given


def shows_masks(observations: Any) -> bool:
    return isinstance(observations, Dict) and KEY in observations.spaces


def method_of(env: Any) -> Any:
    """The method of an environment, or of one that it wraps; None if there is none."""
    while env is not None:
        if callable(found := getattr(env, METHOD, None)):
            return found
        env = getattr(env, "env", None)
    return None


def as_array(value: Any) -> np.ndarray:
    """`value` as NumPy takes it; an object if it takes it for no array."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):  # lists of different lengths, say
        return np.array(None)


def _is_mask(masks: np.ndarray) -> bool:
    return masks.dtype == bool or (masks.dtype.kind in "iuf" and bool(((masks == 0) | (masks == 1)).all()))
