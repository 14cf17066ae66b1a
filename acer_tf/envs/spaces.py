"""What an environment's gymnasium spaces say of it; those that agents cannot learn in are refused with a way out.

Each way out is a line that wraps an environment `env`, and that works as it is written after `import gymnasium` and
`import numpy as np`.
"""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, flatten_space

from acer_tf.errors import InvalidEnvironment
from acer_tf.types import EnvironmentSpec

MOST_LEVELS = 65_535  # of a pixel; a larger bound, such as the largest number of a dtype, stands for none
MOST_COMBINATIONS = 1_000  # of a composite action's parts, each an action of its own


def spec_of(
    env_id: str, observations: Any, actions: Any, *, stack: int = 1, frames_per_step: int = 1
) -> EnvironmentSpec:
    """The spec of an environment with these gymnasium spaces; `stack` and `frames_per_step` as in `VectorEnvironment`.

    Raises:
        InvalidEnvironment: agents cannot act in `actions`, or not see `observations`.
    """
    if not isinstance(observations, Box) or 0 in observations.shape:
        raise _refusal(env_id, "observation", observations, _observations_way(observations))
    dtype = str(observations.dtype) if observations.dtype in (np.uint8, np.bool_) else "float32"
    about: dict[str, Any] = dict(
        observation_shape=observations.shape,
        observation_dtype=dtype,
        stack=stack,
        frames_per_step=frames_per_step,
        observation_scale=_scale(observations),
    )
    if isinstance(actions, Discrete):
        return EnvironmentSpec(**about, num_actions=int(actions.n), action_start=int(actions.start))
    if not (isinstance(actions, Box) and _is_bounded_vector(actions)):
        raise _refusal(env_id, "action", actions, _actions_way(actions))
    low, high = tuple(actions.low.tolist()), tuple(actions.high.tolist())
    return EnvironmentSpec(**about, num_actions=0, action_low=low, action_high=high)


def _refusal(env_id: str, kind: str, space: Any, way: str) -> InvalidEnvironment:
    written = " ".join(str(space).split())  # large bounds are written in several lines
    return InvalidEnvironment(f"{env_id} has the {kind} space {written}; {way}")


def _scale(space: Box) -> float | None:
    """The number that `EnvironmentSpec.observation_scale` describes."""
    high = space.high.max()
    if space.dtype == np.uint8:
        return max(float(high), 1.0)
    # The pairs of axes that `networks.torsos` reads as images.
    image = len(space.shape) >= 3 or (len(space.shape) == 2 and min(space.shape) >= 36)
    if space.dtype == np.bool_ or not image or not 0 < high <= MOST_LEVELS:
        return None
    return max(float(high), 1.0) if (space.low >= 0).all() and (space.high == high).all() else None


@np.errstate(over="ignore", invalid="ignore")  # of bounds so far apart that their distance is infinite
def _bounded(space: Box) -> bool:
    return bool(np.isfinite(space.high - space.low).all())


def _real(space: Any) -> TypeGuard[Box]:
    return isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)


def _is_bounded_vector(space: Box) -> bool:
    return _real(space) and len(space.shape) == 1 and 0 not in space.shape and _bounded(space)


def _observations_way(space: Any) -> str:
    """Why observations of `space` are refused, and what makes them a Box."""
    if not isinstance(space, Space):
        return "must be one of gymnasium's: set the environment's observation_space to a gymnasium.spaces.Box"
    if isinstance(space, Box):
        constant = "lambda x: np.zeros(1, np.float32), gymnasium.spaces.Box(0, 1, (1,))"
        return (
            f"a Box must have at least one element: if there is nothing to see, show a constant, with "
            f"gymnasium.wrappers.TransformObservation(env, {constant})"
        )
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):  # parts that gymnasium cannot flatten
        if isinstance(flatten_space(space), Box):
            return "only a Box is supported: make it one, with gymnasium.wrappers.FlattenObservation(env)"
    return (
        "only a Box is supported: make it one, with a FUNCTION of yours that turns an observation into an array of a "
        "fixed SHAPE, and gymnasium.wrappers.TransformObservation(env, FUNCTION, gymnasium.spaces.Box(-np.inf, np.inf, "
        "SHAPE))"
    )


def _actions_way(space: Any) -> str:
    """Why actions of `space` are refused, and what makes them numbers or bounded vectors."""
    if not isinstance(space, Space):
        return "must be one of gymnasium's: set the environment's action_space to a gymnasium.spaces.Discrete or Box"
    if isinstance(space, Box):
        return _box_way(space)
    reason = "only a Discrete or a Box one is supported"
    if isinstance(space, MultiDiscrete | MultiBinary):
        start, sizes = 0, [2] * math.prod(space.shape)
        if isinstance(space, MultiDiscrete):
            start, sizes = space.start.tolist(), space.nvec.ravel().tolist()
        if math.prod(sizes) <= MOST_COMBINATIONS:
            action = f"np.array(np.unravel_index(a, {sizes}))"
            action += f".reshape({space.shape})" if len(space.shape) != 1 else ""
            action += f" + {start}" if np.any(start) else ""
            return f"{reason}: number the combinations, with {_acting(action, f'Discrete({math.prod(sizes)})')}"
    if (parts := _parts(space)) and all(map(_real, parts)):
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


def _parts(space: Any) -> Sequence[Any]:
    """The spaces that a Tuple or Dict, or those in it, consist of."""
    if not isinstance(space, Tuple | Dict):
        return [space]
    return [part for one in (space.values() if isinstance(space, Dict) else space) for part in _parts(one)]
