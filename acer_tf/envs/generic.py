"""Any gymnasium environment with discrete actions and a Box of observations."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv

from acer_tf.envs.names import InvalidEnvironment, unknown
from acer_tf.envs.vector import VectorEnvironment


def make_gym(
    env_id: str, num_envs: int, seeds: list[int], *, render: bool, max_episode_steps: int | None = None
) -> VectorEnvironment:
    """`num_envs` copies of a gymnasium environment, all stepped in this process; see `acer_tf.envs.make`.

    Args:
        env_id: an id of gymnasium's registry, or "package:id".
        max_episode_steps: a time limit in steps; None keeps the registered one.

    Raises:
        InvalidEnvironment: unknown id, package not installed, or spaces that do not suit.
    """

    def make_one() -> gymnasium.Env:
        return gymnasium.make(
            env_id,
            max_episode_steps=max_episode_steps,
            render_mode="rgb_array" if render else None,
            disable_env_checker=True,
        )

    _check(env_id, make_one, render)
    return VectorEnvironment(SyncVectorEnv([make_one] * num_envs), seeds)


def _check(env_id: str, make_one: Callable[[], gymnasium.Env], render: bool) -> None:
    """Makes and closes one environment, so that whatever is wrong shows before N of them start."""
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
        actions, observations = env.action_space, env.observation_space
        if isinstance(actions, Box):
            raise InvalidEnvironment(
                f"{env_id} has the continuous action space {actions}: a discrete agent (acer, a3c, trust_a3c) cannot "
                "act in it; it takes --agent=acer_continuous"
            )
        if not isinstance(actions, Discrete):
            raise InvalidEnvironment(f"{env_id} has the action space {actions}; only a Discrete one is supported")
        if not isinstance(observations, Box):
            raise InvalidEnvironment(f"{env_id} has the observation space {observations}; only a Box is supported")
        if render:
            _check_render(env_id, env)
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
