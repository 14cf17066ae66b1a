"""The six continuous control tasks of the paper, simulated by MuJoCo."""

from __future__ import annotations

import os

from acer_tf.envs.families import CONTROL_TASKS, missing_control, unknown
from acer_tf.envs.headless import require_gl, without_gl
from acer_tf.envs.vector import VectorEnvironment


def make_control(task: str, num_envs: int, seeds: list[int], *, threads: int, render: bool) -> VectorEnvironment:
    """`num_envs` copies of a task of `control_tasks` ("cheetah"); see `acer_tf.envs.make`.

    Episodes are truncated after 500 steps. Each environment's generator draws its starts, and persists across episodes.

    Raises:
        InvalidEnvironment: unknown task, mujoco or dm_control not installed, or no OpenGL to draw with.
    """
    env_id = f"control/{task}"
    if task not in CONTROL_TASKS:
        raise unknown(env_id)
    if render:
        require_gl(env_id)
    try:
        with without_gl():
            import dm_control  # noqa: F401
            import mujoco  # noqa: F401
    except ImportError as error:
        raise missing_control(env_id, error) from error
    from acer_tf.envs.control_tasks import TASKS
    from acer_tf.envs.control_vector import ControlVector

    env = ControlVector(TASKS[task], num_envs, threads=threads or len(os.sched_getaffinity(0)), render=render)
    return VectorEnvironment(env, seeds, steps_per_second=env.steps_per_second)
