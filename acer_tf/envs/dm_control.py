"""The DeepMind Control Suite, through shimmy's gymnasium registration."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FlattenObservation

from acer_tf.envs.generic import make_gym
from acer_tf.envs.headless import Screen, require_gl
from acer_tf.envs.names import InvalidEnvironment, missing_control
from acer_tf.envs.vector import VectorEnvironment


def make_dm_control(name: str, num_envs: int, seeds: list[int], *, render: bool) -> VectorEnvironment:
    """`num_envs` copies of "cheetah-run-v0", with dm_control's own rewards, starts and time limits.

    Observations are dm_control's, flattened in the order of their names. A time limit is a truncation. One generator
    per environment draws its starts, and carries over from game to game.

    Raises:
        InvalidEnvironment: unknown name, dm_control or shimmy not installed, or no OpenGL to draw with.
    """
    env_id = f"dm_control/{name}"
    if render:
        require_gl(env_id)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GLFW looks for a screen, which nobody needs
            import dm_control.suite
            import shimmy  # its import registers the ids

            if env_id not in gymnasium.registry:
                gymnasium.register_envs(shimmy)
    except ImportError as error:
        raise missing_control(env_id, error) from error
    suite = {f"{domain}-{task}-v0" for domain, task in dm_control.suite.ALL_TASKS}
    if name not in suite and env_id in gymnasium.registry:
        raise InvalidEnvironment(f"{env_id} is not of the Control Suite, which is all of dm_control that is supported")
    return make_gym(env_id, num_envs, seeds, render=render, wrap=_Flat, steps_per_second=_steps_per_second)


class _Flat(FlattenObservation):
    """Flattens observations, and draws without dm_control.

    When it was imported, dm_control may have settled on an OpenGL that needs a screen.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._screen: Screen | None = None

    def render(self) -> Any:
        physics = self.unwrapped.physics  # type: ignore[attr-defined]
        if self._screen is None:
            self._screen = Screen(physics.model.ptr, camera=0)
        return np.array(self._screen.draw(physics.data.ptr))

    def close(self) -> None:
        if self._screen is not None:
            self._screen.close()
            self._screen = None
        super().close()


def _steps_per_second(env: gymnasium.Env) -> float:
    return 1 / env.unwrapped.control_timestep()  # type: ignore[attr-defined]
