"""The DeepMind Control Suite, through shimmy's gymnasium registration."""

import contextlib
import io
from typing import Any

import dm_control.suite
import gymnasium
from gymnasium.wrappers import FlattenObservation

from acer_tf.envs.gymnasium import make_gymnasium, split_arguments
from acer_tf.envs.mujoco_rendering import View
from acer_tf.envs.vector import VectorEnvironment
from acer_tf.errors import InvalidEnvironment

# Without labmaze, shimmy prints that it registers no mazes; standard output belongs to the program.
with contextlib.redirect_stdout(io.StringIO()):
    import shimmy  # noqa: F401 (its import registers the ids)


def make_dm_control(name: str, num_envs: int, seeds: list[int], **options: Any) -> VectorEnvironment:
    """`num_envs` copies of an environment ("cheetah-run-v0"), with dm_control's rewards, starts and time limits.

    Observations are flattened in the order of their names. A time limit is a truncation. For `options` see
    `make_gymnasium`, for errors `make`.
    """
    env_id = f"dm_control/{name}"
    suite = {f"{domain}-{task}-v0" for domain, task in dm_control.suite.ALL_TASKS}
    registered = split_arguments(env_id)[0]
    if registered in gymnasium.registry and registered.removeprefix("dm_control/") not in suite:
        raise InvalidEnvironment(f"{env_id} is not supported: of dm_control, only the Control Suite is")
    return make_gymnasium(env_id, num_envs, seeds, has_time_limit=True, wrap=_wrapped, view=_view, **options)


def _wrapped(env: gymnasium.Env) -> gymnasium.Env:
    task: Any = env.unwrapped
    # quadruped-escape would make an OpenGL context at each episode's start, to upload the new terrain.
    task.physics.__class__ = type("Physics", (type(task.physics),), {"contexts": None})
    flat = FlattenObservation(env)
    flat.metadata = {**env.metadata, "render_fps": 1 / task.control_timestep()}
    return flat


def _view(env: gymnasium.Env) -> View:
    return View(env.unwrapped.physics.data.ptr, camera=0)  # type: ignore[attr-defined]
