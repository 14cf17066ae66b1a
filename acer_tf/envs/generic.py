"""Any gymnasium environment with a Box of observations, and discrete or bounded continuous actions."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv

from acer_tf.envs.headless import require_gl
from acer_tf.envs.names import InvalidEnvironment, unknown
from acer_tf.envs.vector import VectorEnvironment, check_action_space


def make_gym(
    env_id: str,
    num_envs: int,
    seeds: list[int],
    *,
    render: bool,
    max_episode_steps: int | None = None,
    wrap: Callable[[gymnasium.Env], gymnasium.Env] | None = None,
    steps_per_second: Callable[[gymnasium.Env], float] | None = None,
) -> VectorEnvironment:
    """`num_envs` copies of a gymnasium environment, all stepped in this process; see `acer_tf.envs.make`.

    Args:
        env_id: an id of gymnasium's registry, or "package:id".
        max_episode_steps: a time limit in steps; None keeps the registered one.
        wrap: goes around every environment.
        steps_per_second: reads the attribute of that name from one environment.

    Raises:
        InvalidEnvironment: unknown id, package not installed, or spaces that do not suit.
    """
    registered = gymnasium.registry.get(env_id)
    if render and registered is not None and ".mujoco." in str(registered.entry_point):
        require_gl(env_id)

    def make_one() -> gymnasium.Env:
        env = gymnasium.make(
            env_id,
            max_episode_steps=max_episode_steps,
            render_mode="rgb_array" if render else None,
            disable_env_checker=True,
        )
        return env if wrap is None else wrap(env)

    rate = _check(env_id, make_one, render, steps_per_second)
    return VectorEnvironment(SyncVectorEnv([make_one] * num_envs), seeds, steps_per_second=rate)


def _check(
    env_id: str,
    make_one: Callable[[], gymnasium.Env],
    render: bool,
    steps_per_second: Callable[[gymnasium.Env], float] | None,
) -> float | None:
    """Makes and closes one environment, so that whatever is wrong shows before N of them start.

    Returns:
        Its steps per second, where `steps_per_second` is given.
    """
    try:
        env = make_one()
    except (ImportError, DependencyNotInstalled) as error:
        raise InvalidEnvironment(f"{env_id} needs a package that is not installed: {error}") from error
    except gymnasium.error.Error as error:
        raise unknown(env_id) from error
    try:
        # gymnasium answers an id without a version ("Pong") with the newest one; a run must say what it ran.
        if env.spec is None or env.spec.id != env_id.rpartition(":")[2]:
            raise unknown(env_id)
        check_action_space(env_id, env.action_space)
        if not isinstance(env.observation_space, Box):
            raise InvalidEnvironment(
                f"{env_id} has the observation space {env.observation_space}; only a Box is supported"
            )
        if render:
            _check_render(env_id, env)
        return None if steps_per_second is None else steps_per_second(env)
    finally:
        env.close()


def _check_render(env_id: str, env: gymnasium.Env) -> None:
    try:
        env.reset()
        picture = env.render()
    except (ImportError, DependencyNotInstalled) as error:
        raise InvalidEnvironment(f"to draw {env_id} needs a package that is not installed: {error}") from error
    if np.ndim(picture) != 3:  # type: ignore[arg-type]
        raise InvalidEnvironment(f"{env_id} cannot draw itself as rgb_array")
