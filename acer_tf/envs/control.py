"""The six continuous control tasks of the paper, in copies that MuJoCo's own threads step together."""

from typing import Any

import mujoco
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from mujoco.batch import Batch

from acer_tf.envs.control_tasks import TASKS, Task
from acer_tf.envs.mujoco_rendering import View, require_gl
from acer_tf.envs.vector import VectorEnvironment

EPISODE_STEPS = 500

_VELOCITY = mujoco.mjtStage.mjSTAGE_VEL.value
# On these warnings MuJoCo resets the simulation during the episode.
_DIVERGED = [int(getattr(mujoco.mjtWarning, f"mjWARN_BAD{what}")) for what in ("QPOS", "QVEL", "QACC")]


def make_control(
    name: str, num_envs: int, seeds: list[int], *, threads: int, render: bool, max_episode_steps: int
) -> VectorEnvironment:
    """`num_envs` copies of a task of `control_tasks` ("cheetah"), truncated after 500 steps; for errors see `make`."""
    env_id = f"control/{name}"
    if render:
        require_gl(env_id)
    env = ControlVector(TASKS[name], num_envs, threads, min(max_episode_steps, EPISODE_STEPS))
    return VectorEnvironment(
        env_id, env, seeds, steps_per_second=env.steps_per_second, picture=env.view if render else None
    )


class ControlVector(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """A gymnasium vector environment in NEXT_STEP mode over one `mujoco.batch.Batch`.

    Rewards, observations and terminations are computed for all N at once: a Python loop over environments would take
    longer than the physics. Each environment's generator draws its starts, and persists across episodes.
    """

    def __init__(self, task: type[Task], num_envs: int, threads: int, max_episode_steps: int = EPISODE_STEPS) -> None:
        model = task.model()
        # persistent: keeps what a step computed for the observation for the next step.
        self._batch = Batch(model, num_envs, min(threads, num_envs), persistent=True)
        self._task = task(self._batch)
        self.num_envs = num_envs
        self.steps_per_second = float(1 / (model.opt.timestep * task.substeps))  # seconds of simulated time
        self._reward_unit = 1 / self.steps_per_second if task.per_second else 1.0
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = Box(-np.inf, np.inf, (task.observation_size,), np.float32)
        self.single_action_space = Box(-1, 1, (model.nu,), np.float32)
        self._ctrl = self._batch.ctrl
        self._max_episode_steps = max_episode_steps
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode everywhere. `seed`: one number per environment; None later, to keep their generators."""
        if seed is not None:
            self._task.random = [np.random.default_rng(one) for one in seed]
        self._start(np.arange(self.num_envs))
        return self._task.observation().astype(np.float32), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Applies `actions` [N, d] in [-1, 1] for one step, or starts a new episode where the last one ended.

        Raises:
            RuntimeError: a simulation diverged.
        """
        idle = self._over
        playing = np.flatnonzero(~idle) if idle.any() else None
        self._ctrl[:] = actions
        if playing is None or playing.size:
            self._batch.step(playing, nstep=self._task.substeps, stage=_VELOCITY)
            diverged = self._batch.warning[:, _DIVERGED, 1].any(axis=1)
            if diverged.any():
                raise RuntimeError(f"MuJoCo's simulation of environment {np.flatnonzero(diverged)[0]} diverged")
        reward = np.where(idle, 0, self._reward_unit * self._task.reward(actions))
        terminated = ~idle & self._task.terminated()
        self._elapsed += 1
        if idle.any():
            self._start(np.flatnonzero(idle))
        truncated = ~idle & (self._elapsed >= self._max_episode_steps)
        self._over = terminated | truncated
        return self._task.observation().astype(np.float32), reward, terminated, truncated, {}

    def view(self) -> View:
        """What a picture of environment 0 shows."""
        return View(self._batch.get_data(0), self._task.camera)

    def _start(self, which: np.ndarray) -> None:
        self._batch.reset(which, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._task.start(which)
        self._batch.forward(which, stage=_VELOCITY)
        self._elapsed[which] = 0
        self._over[which] = False
