"""The six continuous control tasks of Wang et al. (2017), section 6 and appendix E.1.

docs/control-tasks.md says what is from the paper and what was chosen. The action a, in [-1, 1]^d, is the clipped one.
The dense rewards (all but cartpole_swingup and reacher3) are rates per second, in metres and radians: a step's reward
is the formula times the step's length. This puts returns where the published curves are: an untrained policy has -8 on
fish and -19 on humanoid, where the worst curves of the paper's Figure 3 end at -10 and -23.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dm_control
import mujoco
import numpy as np
from mujoco.batch import Batch

from acer_tf.envs.families import CONTROL_TASKS

SUITE = Path(dm_control.__file__).parent / "suite"  # importing it instead takes seconds, and looks for OpenGL


class Task:
    """A task on a whole `Batch` of N simulations, whose state it reads, and writes at the start of episodes.

    Attributes:
        random: N generators, which draw the starts.
    """

    file: Path  # its model's
    observation_size: int
    substeps: int = 1  # physics steps in one agent step
    per_second: bool = True  # whether the reward is a rate per second, rather than per step
    camera: str = "side"  # of the model, for pictures

    @classmethod
    def model(cls) -> mujoco.MjModel:
        spec = mujoco.MjSpec.from_file(str(cls.file))
        for sensor in list(spec.sensors):  # nothing reads them, and they cost time
            spec.delete(sensor)
        cls.edit(spec)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cheetah's file sets the total mass in a deprecated way
            return spec.compile()

    @staticmethod
    def edit(spec: mujoco.MjSpec) -> None:
        """Changes the model of `file`, before it is compiled."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.random: list[np.random.Generator] = []
        self.qpos, self.qvel = batch.qpos, batch.qvel  # views [N, nq], [N, nv]

    def draw(self, which: np.ndarray, one: Callable[[np.random.Generator], Any]) -> np.ndarray:
        """[M, ...]: `one` called with the generator of each simulation of `which` [M]."""
        return np.stack([one(self.random[i]) for i in which])

    def start(self, which: np.ndarray) -> None:
        """Sets positions and velocities of simulations `which` [M], now at the model's defaults, for a new episode."""
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


def local(axes: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """World vectors [N, 3] in the frames whose axes are the columns of `axes` [N, 3, 3]."""
    return np.einsum("nij,ni->nj", axes, vector)


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


class CartpoleSwingup(Task):
    """Swing up a pole on a cart and balance it at the centre.

    Observation [10]: cart position, velocity; pole angle in [-π, π) from upright, angular velocity; its sine, cosine;
    the tip's x, z; the tip's velocity in x, z.
    """

    file = SUITE / "cartpole.xml"
    observation_size = 10
    substeps = 2
    per_second = False
    camera = "fixed"

    @staticmethod
    def edit(spec: mujoco.MjSpec) -> None:
        spec.joint("slider").range = [-1.2, 1.2]

    def start(self, which: np.ndarray) -> None:
        self.qpos[which, 1] = self.draw(which, lambda r: r.uniform(-np.pi, np.pi))

    def observation(self) -> np.ndarray:
        (x, angle), (speed, turning) = self.qpos.T, self.qvel.T
        sine, cosine = np.sin(angle), np.cos(angle)
        # The pole has length 1, the cart is at height 1.
        tip = [x + sine, 1 + cosine, speed + turning * cosine, -turning * sine]
        return np.column_stack([x, speed, wrapped(angle), turning, sine, cosine, *tip])

    def reward(self, action: np.ndarray) -> np.ndarray:
        x, angle = self.qpos.T
        upright = np.abs(wrapped(angle)) <= np.deg2rad(5)
        return (upright & (np.abs(x) <= 0.05)).astype(np.float64)


class Reacher3(Task):
    """Move the tip of a planar arm of three links to a target.

    Observation [8]: joint angles, the shoulder's in [-π, π); joint velocities; target minus tip, x and y.
    """

    file = Path(__file__).with_name("reacher3.xml")
    observation_size = 8
    per_second = False
    camera = "fixed"

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._target, self._tip = batch.mocap_pos[:, 0], batch.site("tip").xpos

    def start(self, which: np.ndarray) -> None:
        low, high = self.batch.model.jnt_range.T.copy()
        low[0], high[0] = -np.pi, np.pi
        self.qpos[which] = self.draw(which, lambda r: r.uniform(low, high))
        direction, distance = self.draw(which, lambda r: r.uniform([-np.pi, 0.05], [np.pi, 0.25])).T
        self._target[which, :2] = np.column_stack([distance * np.cos(direction), distance * np.sin(direction)])

    def observation(self) -> np.ndarray:
        to_target = (self._target - self._tip)[:, :2]
        return np.column_stack([wrapped(self.qpos[:, 0]), self.qpos[:, 1:], self.qvel, to_target])

    def reward(self, action: np.ndarray) -> np.ndarray:
        return (np.linalg.norm((self._target - self._tip)[:, :2], axis=1) <= 0.05).astype(np.float64)


class Cheetah(Task):
    """Run forward as fast as possible.

    The paper prints the control cost with a plus, which would reward effort.

    Observation [17]: the torso's height, less its initial one, and its pitch, joint angles; velocities of all nine
    degrees of freedom, x and z first.
    """

    file = SUITE / "cheetah.xml"
    observation_size = 17

    def start(self, which: np.ndarray) -> None:
        model = self.batch.model
        low, high = np.where(model.jnt_limited, model.jnt_range.T, [[-np.inf], [np.inf]])
        noise = self.draw(which, lambda r: r.uniform(-0.1, 0.1, model.nq))
        self.qpos[which] = np.clip(self.qpos[which] + noise, low, high)
        self.qvel[which] = self.draw(which, lambda r: r.normal(0, 0.1, model.nv))

    def observation(self) -> np.ndarray:
        return np.column_stack([self.qpos[:, 1:], self.qvel])

    def reward(self, action: np.ndarray) -> np.ndarray:
        return self.qvel[:, 0] - 0.1 * squared(action)


class Fish(Task):
    """Swim to a target in three dimensions.

    Observation [24]: target minus mouth, in the torso's frame; joint angles; joint velocities; cosine of the angle to
    upright; the torso's velocity and angular velocity, in its frame.
    """

    file = SUITE / "fish.xml"
    observation_size = 24
    substeps = 10
    camera = "fixed_top"

    @staticmethod
    def edit(spec: mujoco.MjSpec) -> None:
        # A mocap body's position is part of each simulation's state, a geom's part of the shared model.
        old = spec.geom("target")
        body = spec.worldbody.add_body(name="target", mocap=True, pos=old.pos)
        look = dict(type=old.type, size=old.size, material=old.material, contype=0, conaffinity=0)
        spec.delete(old)
        body.add_geom(name="target", **look)

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._torso = batch.body("torso").xmat.reshape(-1, 3, 3)  # columns are its axes in the world
        self._target, self._mouth = batch.mocap_pos[:, 0], batch.geom("mouth").xpos

    def start(self, which: np.ndarray) -> None:
        self.qpos[which, 3:7] = self.draw(which, orientation)
        self.qpos[which, 7:] = self.draw(which, lambda r: r.uniform(-0.2, 0.2, self.qpos.shape[1] - 7))
        self._target[which] = self.draw(which, lambda r: r.uniform([-0.4, -0.4, 0.1], [0.4, 0.4, 0.3]))

    def observation(self) -> np.ndarray:
        to_target, velocity = (local(self._torso, v) for v in (self._target - self._mouth, self.qvel[:, :3]))
        turning = self.qvel[:, 3:6]  # MuJoCo gives it in the torso's frame
        joints = [self.qpos[:, 7:], self.qvel[:, 6:]]
        return np.column_stack([to_target, *joints, self._torso[:, 2, 2], velocity, turning])

    def reward(self, action: np.ndarray) -> np.ndarray:
        distance = np.linalg.norm(self._target - self._mouth, axis=1)
        return -distance - 0.05 * (1 - self._torso[:, 2, 2]) - 0.01 * squared(action)


class Walker2d(Task):
    """Walk forward as fast as possible without falling.

    Observation [24]: torso height; velocities of all nine degrees of freedom; cosine and sine of the seven bodies'
    orientations.
    """

    file = SUITE / "walker.xml"
    observation_size = 24
    substeps = 10
    height = 1.3  # of the standing model's torso

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._bodies = batch.xmat[:, 1:]

    def start(self, which: np.ndarray) -> None:
        size = self.qpos.shape[1]
        noise = self.draw(which, lambda r: r.uniform(-0.005, 0.005, 2 * size))
        self.qpos[which], self.qvel[which] = noise[:, :size], noise[:, size:]

    def observation(self) -> np.ndarray:
        orientations = self._bodies[:, :, [0, 2]].reshape(len(self.qpos), -1)
        return np.column_stack([self.height + self.qpos[:, 0], self.qvel, orientations])

    def reward(self, action: np.ndarray) -> np.ndarray:
        height, pitch = self.height + self.qpos[:, 0], self.qpos[:, 2]
        walking = self.qvel[:, 1] - 0.001 * squared(action) - (height - self.height) ** 2 - 0.1 * pitch**2
        return walking + np.where(self.terminated(), -10.0, 0.0)

    def terminated(self) -> np.ndarray:
        height, pitch = self.height + self.qpos[:, 0], self.qpos[:, 2]
        return (height < 0.8) | (height > 2.0) | (np.abs(pitch) > 1.0)


class Humanoid(Task):
    """Stand up from lying on the ground.

    To lie down, the limp body falls for 1.5 s from a random pose without contacts.

    Observation [94], all vectors in the torso's frame: joint angles (21); velocity and angular velocity of the torso,
    joint velocities (27); head height; the vertical (3); centre of mass (3) and its velocity (3); positions of hands,
    feet, forearms and shins (24); velocities of hands and feet relative to the torso (12).
    """

    file = SUITE / "humanoid.xml"
    observation_size = 94
    substeps = 5

    @staticmethod
    def edit(spec: mujoco.MjSpec) -> None:
        ends = ("left_hand", "right_hand", "left_foot", "right_foot")
        limbs = (*ends, "left_lower_arm", "right_lower_arm", "left_shin", "right_shin")
        sensor, body = mujoco.mjtSensor, mujoco.mjtObj.mjOBJ_XBODY
        seen = [(sensor.mjSENS_FRAMEPOS, name) for name in limbs] + [(sensor.mjSENS_FRAMELINVEL, name) for name in ends]
        for kind, name in seen:
            spec.add_sensor(type=kind, objtype=body, objname=name, reftype=body, refname="torso")
        spec.add_sensor(type=sensor.mjSENS_SUBTREELINVEL, objtype=mujoco.mjtObj.mjOBJ_BODY, objname="torso")

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        torso = batch.body("torso")
        self._torso = torso.xmat.reshape(-1, 3, 3)  # columns are its axes in the world
        self._torso_position, self._mass_centre = torso.xpos, torso.subtree_com
        self._head = batch.body("head").xpos
        self._sensors = batch.sensordata  # positions 24, velocities 12, the centre of mass's velocity 3
        self._contacts = batch.ncon

    def start(self, which: np.ndarray) -> None:
        low, high = self.batch.model.jnt_range[1:].T
        touching = which
        while touching.size:
            self.qpos[touching, 3:7] = self.draw(touching, orientation)
            self.qpos[touching, 7:] = self.draw(touching, lambda r: r.uniform(low, high))
            self.batch.forward(touching, stage=mujoco.mjtStage.mjSTAGE_POS.value)
            touching = touching[self._contacts[touching] > 0]
        self.batch.step(which, nstep=300)  # 1.5 s
        self.qvel[which] = 0

    def observation(self) -> np.ndarray:
        vectors = self.qvel[:, :3], self._mass_centre - self._torso_position, self._sensors[:, 36:]
        velocity, *mass = (local(self._torso, vector) for vector in vectors)
        pose = [self._head[:, 2:], self._torso[:, 2]]  # the latter is the world's vertical in the torso's frame
        joints, turning = self.qpos[:, 7:], self.qvel[:, 3:]  # MuJoCo gives the torso's turning in its frame
        return np.column_stack([joints, velocity, turning, *pose, *mass, self._sensors[:, :36]])

    def reward(self, action: np.ndarray) -> np.ndarray:
        deviation = np.abs(self._head[:, 2] - 1.4)  # dm_control's standing height
        return -deviation - 0.25 * (1 - self._torso[:, 2, 2]) - 0.01 * squared(action)


_TASKS = (CartpoleSwingup, Reacher3, Cheetah, Fish, Walker2d, Humanoid)
TASKS: dict[str, type[Task]] = dict(zip(CONTROL_TASKS, _TASKS, strict=True))
