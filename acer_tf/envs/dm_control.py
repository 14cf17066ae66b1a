"""The DeepMind Control Suite, through shimmy's gymnasium registration."""

from __future__ import annotations

import contextlib
import io

import dm_control.suite
import gymnasium
from gymnasium.wrappers import FlattenObservation

from acer_tf.envs.gymnasium import make_gymnasium
from acer_tf.envs.mujoco_rendering import View
from acer_tf.envs.vector import VectorEnvironment
from acer_tf.errors import InvalidEnvironment

# Without labmaze, shimmy prints that it registers no mazes; standard output belongs to the program.
with contextlib.redirect_stdout(io.StringIO()):
    import shimmy  # noqa: F401 (its import registers the ids)


def make_dm_control(name: str, num_envs: int, seeds: list[int], *, threads: int, render: bool) -> VectorEnvironment:
    """`num_envs` copies of an environment ("cheetah-run-v0"), with dm_control's rewards, starts and time limits.

    Observations are flattened in the order of their names. A time limit is a truncation. Each environment's generator
    draws its starts, and persists across episodes.

    Raises:
        InvalidEnvironment: unknown name, or no OpenGL to draw with.
    """
    env_id = f"dm_control/{name}"
    suite = {f"{domain}-{task}-v0" for domain, task in dm_control.suite.ALL_TASKS}
    if name not in suite and env_id in gymnasium.registry:
        raise InvalidEnvironment(f"{env_id} is not supported: of dm_control, only the Control Suite is")
    return make_gymnasium(
        env_id,
        num_envs,
        seeds,
        threads=threads,
        render=render,
        wrap=_flat,
        steps_per_second=_steps_per_second,
        view=_view,
    )


def _flat(env: gymnasium.Env) -> gymnasium.Env:
    physics = env.unwrapped.physics  # type: ignore[attr-defined]
    # quadruped-escape would make an OpenGL context at each episode's start, to upload the new terrain.
    physics.__class__ = type("Physics", (type(physics),), {"contexts": None})
    return FlattenObservation(env)


def _steps_per_second(env: gymnasium.Env) -> float:
    return 1 / env.unwrapped.control_timestep()  # type: ignore[attr-defined]


def _view(env: gymnasium.Env) -> View:
    return View(env.unwrapped.physics.data.ptr, camera=0)  # type: ignore[attr-defined]
