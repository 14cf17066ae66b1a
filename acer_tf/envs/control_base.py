"""What the continuous control tasks share: the model, the state of N simulations, and helpers on arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dm_control
import mujoco
import numpy as np
from mujoco.batch import Batch


class Task:
    """A task on one `Batch`, whose state it reads, and writes at the start of episodes.

    Attributes:
        suite: name of its model in dm_control's suite.
        observation_size: length of an observation.
        substeps: physics steps in one agent step.
        per_second: whether the reward is a rate per second, rather than per step.
        camera: the model's camera for pictures.
    """

    suite: str
    observation_size: int
    substeps: int = 1
    per_second: bool = True
    camera: str = "side"

    @classmethod
    def spec(cls) -> mujoco.MjSpec:
        """The editable model: dm_control's, without its sensors, which cost time."""
        # Importing the suite instead of reading the file takes seconds, and looks for OpenGL.
        spec = mujoco.MjSpec.from_file(str(Path(dm_control.__file__).parent / "suite" / f"{cls.suite}.xml"))
        for sensor in list(spec.sensors):
            spec.delete(sensor)
        return spec

    @classmethod
    def model(cls) -> mujoco.MjModel:
        """The physical model, to make the `Batch` of."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cheetah's file sets the total mass in a deprecated way
            return cls.spec().compile()

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.qpos, self.qvel = batch.bind("qpos"), batch.bind("qvel")  # views [N, nq], [N, nv]

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        """Puts simulations `which` [M], which are at the model's defaults, at the start of an episode.

        Sets positions and velocities only; the caller computes what derives from them.
        """
        raise NotImplementedError

    def observation(self) -> np.ndarray:
        """[N, observation_size] float64, of the current state."""
        raise NotImplementedError

    def reward(self, action: np.ndarray) -> np.ndarray:
        """[N] float64, per second or per step, for `action` [N, d] that led to the current state."""
        raise NotImplementedError

    def terminated(self) -> np.ndarray:
        """[N] bool: whether the current state ends the return; only Walker2d's does."""
        return np.zeros(self.batch.nsim, bool)


class FreeBody(Task):
    """A task whose torso moves freely in space."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        xmat = batch.bind("xmat")[:, batch.model.body("torso").id]
        self._torso = xmat.reshape(batch.nsim, 3, 3)  # view; columns are the torso's axes in the world

    def _upright(self) -> np.ndarray:
        """Cosine [N] of the torso's angle to upright."""
        return self._torso[:, 2, 2]

    def _local(self, vector: np.ndarray) -> np.ndarray:
        """World vectors [N, 3] in the torso's frame."""
        return np.einsum("nij,ni->nj", self._torso, vector)


def draw(random: Sequence[np.random.Generator], one: Callable[[np.random.Generator], Any]) -> np.ndarray:
    """[M, ...]: `one` called with each generator."""
    return np.stack([one(generator) for generator in random])


def orientation(random: np.random.Generator) -> np.ndarray:
    """A uniform random rotation: a unit quaternion [4]."""
    quaternion = random.normal(size=4)
    return quaternion / np.linalg.norm(quaternion)


def squared(action: np.ndarray) -> np.ndarray:
    """‖a‖² [N]."""
    return np.square(action, dtype=np.float64).sum(axis=1)


def wrapped(angle: np.ndarray) -> np.ndarray:
    """Angles in [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
