"""What an environment's gymnasium spaces say of it; those that agents cannot learn in are refused with a way out.

    observation space ── observed() ──► a `Leaf`, or several by name ── Leaf.read() ──► the arrays that agents see

Each way out is a line that wraps an environment `env`, and that works as it is written after `import gymnasium` and
`import numpy as np`.
"""

import contextlib
import dataclasses
import functools
import math
import operator
from typing import Any, TypeGuard

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, flatten_space

from acer_tf.errors import InvalidEnvironment
from acer_tf.types import EnvironmentSpec, PerLeaf, input_name, map_leaves, tuples_of

MOST_LEVELS = 65_535  # of a pixel; a larger bound, such as the largest number of a dtype, stands for none
MOST_CATEGORIES = 65_535  # of one leaf
MOST_COMBINATIONS = 4_096  # of a composite action's parts, each an action of its own


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A part of observations that agents see as one array: as it is, or of categories, one-hot."""

    space: Any  # a Box, MultiBinary, Discrete or MultiDiscrete
    path: tuple[Any, ...]  # the keys of Dicts and places in Tuples that lead to it

    @functools.cached_property
    def categories(self) -> np.ndarray:
        """The sizes of the parts of a one-hot vector; empty for other leaves."""
        return np.atleast_1d(getattr(self.space, "n" if isinstance(self.space, Discrete) else "nvec", ())).ravel()

    @property
    def shape(self) -> tuple[int, ...]:
        if isinstance(self.space, Box | MultiBinary):
            return self.space.shape
        return (int(sum(self.categories.tolist())),)

    @functools.cached_property
    def dtype(self) -> str:
        if isinstance(self.space, Box):
            return str(self.space.dtype) if self.space.dtype in (np.uint8, np.bool_) else "float32"
        return "uint8"

    @property
    def scale(self) -> float | None:
        return _scale(self.space) if isinstance(self.space, Box) else 1.0

    def read(self, observation: Any) -> np.ndarray:
        """[N, *shape] of N observations, given as gymnasium batches them; ValueError if one is not in the space."""
        values = functools.reduce(operator.getitem, self.path, observation)
        if isinstance(self.space, Box):
            return values
        values = np.asarray(values)
        if isinstance(self.space, MultiBinary):
            inside = (values == 0) | (values == 1)
        else:
            values = (values.astype(np.int64) - self.space.start).reshape(len(values), -1)
            inside = (values >= 0) & (values < self.categories)
        if not inside.all():
            row = np.flatnonzero(~inside.reshape(len(values), -1).all(axis=1))[0]
            found = np.asarray(functools.reduce(operator.getitem, self.path, observation))[row].tolist()
            raise ValueError(f"an observation of {found}, but its space is {self.space}")
        if isinstance(self.space, MultiBinary):
            return values
        one_hot = np.zeros((len(values), *self.shape), np.uint8)
        np.put_along_axis(one_hot, values + self.categories.cumsum() - self.categories, 1, axis=1)
        return one_hot


def spec_of(
    env_id: str,
    observations: Any,
    actions: Any,
    *,
    stack: int = 1,
    frames_per_step: int = 1,
    action_masks: bool = False,
) -> EnvironmentSpec:
    """The spec of an environment with these gymnasium spaces; the other arguments are as in `VectorEnvironment`.

    Raises:
        InvalidEnvironment: agents cannot act in `actions`, or not with masks, or not see `observations`.
    """
    leaves = observed(env_id, observations)
    about: dict[str, Any] = dict(
        observation_shape=map_leaves(lambda leaf: leaf.shape, leaves),
        observation_dtype=map_leaves(lambda leaf: leaf.dtype, leaves),
        stack=stack,
        frames_per_step=frames_per_step,
        observation_scale=map_leaves(lambda leaf: leaf.scale, leaves),
        action_masks=action_masks,
    )
    if isinstance(actions, Discrete):
        return EnvironmentSpec(**about, num_actions=int(actions.n), action_start=int(actions.start))
    if 0 < (count := math.prod(_sizes(actions).ravel().tolist())) <= MOST_COMBINATIONS:
        start = getattr(actions, "start", np.zeros(()))
        sizes, first = tuples_of(_sizes(actions).tolist()), tuples_of(start.tolist()) if start.any() else 0
        return EnvironmentSpec(**about, num_actions=count, action_start=first, action_sizes=sizes)
    if not (isinstance(actions, Box) and _is_bounded_vector(actions)):
        raise _refusal(env_id, "action", actions, _actions_way(actions))
    if action_masks:
        raise _refusal(env_id, "action", actions, "action masks are of discrete ones: give --noaction_masks")
    low, high = tuple(actions.low.tolist()), tuple(actions.high.tolist())
    return EnvironmentSpec(**about, num_actions=0, action_low=low, action_high=high)


def observed(env_id: str, space: Any) -> PerLeaf:
    """The `Leaf`s of an observation space by name, in alphabetical order; of a single one, the leaf itself.

    A leaf's name joins the keys that lead to it by "/". Parts without elements are left out.

    Raises:
        InvalidEnvironment: agents cannot see such observations.
    """
    leaves = [Leaf(part, path) for path, part in paths_of(space)]
    if not all(isinstance(leaf.space, Box | MultiBinary | Discrete | MultiDiscrete) for leaf in leaves):
        raise _refusal(env_id, "observation", space, _observations_way(space))
    leaves = [leaf for leaf in leaves if 0 not in leaf.shape]
    if not leaves:
        raise _refusal(env_id, "observation", space, _NOTHING)
    if any(sum(leaf.categories.tolist()) > MOST_CATEGORIES for leaf in leaves):
        raise _refusal(env_id, "observation", space, _TOO_MANY)
    named = {"/".join(map(str, leaf.path)): leaf for leaf in leaves}
    if len(set(map(input_name, named))) < len(leaves):
        clear = "parts must have names that differ in letters of ASCII, their case aside, or digits: rename them"
        raise _refusal(env_id, "observation", space, f"{clear}, or join them, with {_FLAT}")
    return dict(sorted(named.items())) if len(named) > 1 else leaves[0]


def parts_of(space: Any) -> dict[Any, Any] | None:
    """The parts of a Dict or Tuple by their keys; None for another space."""
    if isinstance(space, Dict):
        return dict(space.spaces)
    return dict(enumerate(space.spaces)) if isinstance(space, Tuple) else None


def paths_of(space: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The spaces that a Dict or Tuple, or those in it, consist of, each with the keys that lead to it."""
    if (parts := parts_of(space)) is None:
        return [(path, space)]
    return [found for key, part in parts.items() for found in paths_of(part, (*path, key))]


def _sizes(space: Any) -> np.ndarray:
    """The numbers of values of the entries of a composite action; 0 for another one."""
    if isinstance(space, MultiBinary):
        return np.full(space.shape, 2)
    return space.nvec if isinstance(space, MultiDiscrete) else np.zeros(1, np.int64)


def _refusal(env_id: str, kind: str, space: Any, way: str) -> InvalidEnvironment:
    written = " ".join(str(space).split())  # large bounds are written in several lines
    return InvalidEnvironment(f"{env_id} has the {kind} space {written}; {way}")


def _scale(space: Box) -> float | None:
    """The number that `EnvironmentSpec.observation_scale` describes."""
    high = float(space.high.max())
    if space.dtype == np.uint8:
        return max(high, 1.0)
    # The pairs of axes that `networks.torsos` reads as images.
    image = len(space.shape) >= 3 or (len(space.shape) == 2 and min(space.shape) >= 36)
    if space.dtype == np.bool_ or not image or not 0 < high <= MOST_LEVELS:
        return None
    return max(high, 1.0) if (space.low >= 0).all() and (space.high == high).all() else None


@np.errstate(over="ignore", invalid="ignore")  # of bounds so far apart that their distance is infinite
def _bounded(space: Box) -> bool:
    return bool(np.isfinite(space.high - space.low).all())


def _real(space: Any) -> TypeGuard[Box]:
    return isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)


def _is_bounded_vector(space: Box) -> bool:
    return _real(space) and len(space.shape) == 1 and 0 not in space.shape and _bounded(space)


_FLAT = "gymnasium.wrappers.FlattenObservation(env)"
_FUNCTION = (
    "with a FUNCTION of yours that turns an observation into an array of a fixed SHAPE, and gymnasium.wrappers."
    "TransformObservation(env, FUNCTION, gymnasium.spaces.Box(-np.inf, np.inf, SHAPE))"
)
_NOTHING = (
    "it must have at least one element: if there is nothing to see, show a constant, with gymnasium.wrappers."
    "TransformObservation(env, lambda x: np.zeros(1, np.float32), gymnasium.spaces.Box(0, 1, (1,)))"
)
_TOO_MANY = f"at most {MOST_CATEGORIES:,} categories are shown one-hot: show more as numbers, {_FUNCTION}"


def _observations_way(space: Any) -> str:
    """Why observations of `space` are refused, and what makes them a Box."""
    if not isinstance(space, Space):
        return "must be one of gymnasium's: set the environment's observation_space to a gymnasium.spaces.Box"
    known = Box | MultiBinary | Discrete | MultiDiscrete
    kinds = sorted({type(part).__name__ for _, part in paths_of(space) if not isinstance(part, known)})
    reason = f"{' and '.join(kinds)} {'is' if len(kinds) == 1 else 'are'} not supported: "
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):  # parts that gymnasium cannot flatten
        if isinstance(flatten_space(space), Box):
            return f"{reason}make it a Box, with {_FLAT}"
    parts = (parts_of(space) or {}).items()
    if rest := [key for key, part in parts if all(isinstance(leaf, known) for _, leaf in paths_of(part))]:
        return f"{reason}make it a Box, or leave it out, with gymnasium.wrappers.FilterObservation(env, {rest})"
    return f"{reason}make it a Box, {_FUNCTION}"


def _actions_way(space: Any) -> str:
    """Why actions of `space` are refused, and what makes them numbers or bounded vectors."""
    if not isinstance(space, Space):
        return "must be one of gymnasium's: set the environment's action_space to a gymnasium.spaces.Discrete or Box"
    if isinstance(space, Box):
        return _box_way(space)
    reason = "only a Discrete, MultiDiscrete, MultiBinary or Box one is supported"
    if isinstance(space, MultiDiscrete | MultiBinary):
        reason = f"at most {MOST_COMBINATIONS:,} combinations of its parts can be told apart"
    if (parts := [part for _, part in paths_of(space)]) and all(map(_real, parts)):
        flat = "gymnasium.spaces.flatten_space(env.action_space)"
        return (
            f"{reason}: join its vectors, with gymnasium.wrappers.TransformAction(env, lambda a, "
            f"space=env.action_space: gymnasium.spaces.unflatten(space, a), {flat})"
        )
    return f"{reason}: list the actions to choose from as ACTIONS, and number them, with " + _acting(
        "ACTIONS[a]", "Discrete(len(ACTIONS))"
    )


def _box_way(space: Box) -> str:
    size, dtype = math.prod(space.shape), space.dtype.name
    if not size:
        nothing = f"np.zeros({space.shape}, np.{dtype})"
        return f"a Box must have at least one component: name the only action, with {_acting(nothing, 'Discrete(1)')}"
    low, high, action = space.low, space.high, "a"
    if not _real(space):
        reason = "a Box must be of real numbers: round them"
        low, high = low.astype(np.float64), high.astype(np.float64)
        action, dtype = f"np.rint(a).astype(np.{'bool_' if dtype == 'bool' else dtype})", "float64"
    elif not _bounded(space):
        reason = "a Box must be bounded, since policies act in [-1, 1], scaled to its bounds: choose some, as these"
        middle = np.clip(0, low, high)
        low, high = np.clip(middle - 1, low, high), np.clip(middle + 1, low, high)
    else:
        reason = "a Box must be of vectors: reshape them"
    action += f".reshape({space.shape})" if len(space.shape) != 1 else ""
    if (low == low.flat[0]).all() and (high == high.flat[0]).all():
        bounds = f"{low.flat[0].item()}, {high.flat[0].item()}, ({size},), np.{dtype}"
    else:
        bounds = ", ".join(f"np.{dtype}({bound.ravel().tolist()})" for bound in (low, high)) + f", dtype=np.{dtype}"
    return f"{reason}, with {_acting(action, f'Box({bounds})')}"


def _acting(action: str, space: str) -> str:
    """The wrapper that turns actions `a` of `space` into `action`."""
    return f"gymnasium.wrappers.TransformAction(env, lambda a: {action}, gymnasium.spaces.{space})"
