"""The six continuous control tasks of Wang et al. (2017), section 6 and appendix E.1.

The paper's models are not public and its text leaves numbers out. Each class says what is the paper's and what had to
be chosen; the models are those of dm_control's suite unless said otherwise. Common to all: games of 500 steps; the
action a, in [-1, 1]^d, is meant after clipping. The dense rewards (all but cartpole_swingup and reacher3) are rates per
second, in metres and radians: a step earns its formula times its length. This puts returns where the published curves
are: an untrained policy has -8 on fish and -19 on humanoid, where the paper's worst curves end at -10 and -23.

Each task works on a whole `mujoco.batch.Batch` of N simulations: what it reads and returns has N rows.
"""

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
    """What the tasks have in common: one instance per `Batch`, whose state it reads and, at a start, writes.

    Attributes:
        observation_size: numbers in one observation.
        substeps: physics steps in one agent step.
        per_second: whether the reward is a rate per second, and a step earns it times its length; else it is per step.
        camera: the model's camera for pictures.
    """

    observation_size: int
    substeps: int
    per_second: bool
    camera: str

    @staticmethod
    def model() -> mujoco.MjModel:
        """The physical model, to make the `Batch` of."""
        raise NotImplementedError

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.qpos, self.qvel = batch.bind("qpos"), batch.bind("qvel")  # [N, nq], [N, nv]; live

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        """Puts simulations `which` [M], which are at the model's defaults, at a game's start.

        Positions and velocities alone need be set: what derives from them is computed afterwards.
        """
        raise NotImplementedError

    def observation(self) -> np.ndarray:
        """[N, observation_size] float64, of the present state."""
        raise NotImplementedError

    def reward(self, action: np.ndarray) -> np.ndarray:
        """[N] float64, per second or per step: for `action` [N, d], which led to the present state."""
        raise NotImplementedError

    def terminated(self) -> np.ndarray:
        """[N] bool: the present state ends the return. Never so, but in Walker2d."""
        return np.zeros(self.batch.nsim, bool)


class CartpoleSwingup(Task):
    """Swing a pole up on a cart and hold it there, at the centre.

    From the paper: the pole starts at a random angle, at rest; 1 where it is within 5° of upright and the cart within
    0.05 of the centre, else 0; a track of length 2.4; the kinds of observed quantities.

    Chosen: the cart starts at the centre, the angle is uniform. A step is 0.02 s, two of the model's, so that a game
    lasts the 10 s of dm_control's; its track is shortened from 3.6.

    Observation [10]: cart position, velocity; pole angle in [-π, π) from upright, angular velocity; its sine, cosine;
    the tip's x, z; the tip's velocity in x, z.
    """

    observation_size = 10
    substeps = 2
    per_second = False
    camera = "fixed"

    @staticmethod
    def model() -> mujoco.MjModel:
        spec = _suite_spec("cartpole")
        spec.joint("slider").range = [-1.2, 1.2]
        return spec.compile()

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        self.qpos[which, 1] = _draw(random, lambda r: r.uniform(-np.pi, np.pi))

    def observation(self) -> np.ndarray:
        (x, angle), (speed, turning) = self.qpos.T, self.qvel.T
        sine, cosine = np.sin(angle), np.cos(angle)
        # The pole is 1 long, on a cart at height 1.
        tip = [x + sine, 1 + cosine, speed + turning * cosine, -turning * sine]
        return np.stack([x, speed, _wrapped(angle), turning, sine, cosine, *tip], axis=1)

    def reward(self, action: np.ndarray) -> np.ndarray:
        x, angle = self.qpos.T
        upright = np.abs(_wrapped(angle)) <= np.deg2rad(5)
        return (upright & (np.abs(x) <= 0.05)).astype(np.float64)


class Reacher3(Task):
    """Bring the tip of a planar arm of three links to a target.

    From the paper: arm and target start at random; 1 within 0.05 of the target, else 0; actions are torques; the eight
    observed quantities.

    Chosen: an own model after dm_control's two-link reacher (reacher3.xml), arm length 0.3; the shoulder turns freely,
    elbow and wrist by ±160°, all uniform at the start and at rest; the target's direction is uniform, its distance from
    the shoulder uniform in [0.05, 0.25]. A step is 0.02 s.

    Observation [8]: joint angles, the shoulder's in [-π, π); joint velocities; target minus tip, x and y.
    """

    observation_size = 8
    substeps = 1
    per_second = False
    camera = "fixed"
    reached = 0.05

    @staticmethod
    def model() -> mujoco.MjModel:
        return mujoco.MjModel.from_xml_path(str(Path(__file__).with_name("reacher3.xml")))

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._target = batch.bind("mocap_pos")[:, 0]
        self._tip = batch.bind("site_xpos")[:, batch.model.site("tip").id]
        self._low, self._high = batch.model.jnt_range.T.copy()
        self._low[0], self._high[0] = -np.pi, np.pi

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        self.qpos[which] = _draw(random, lambda r: r.uniform(self._low, self._high))
        direction, distance = _draw(random, lambda r: r.uniform([-np.pi, 0.05], [np.pi, 0.25])).T
        self._target[which, 0] = distance * np.cos(direction)
        self._target[which, 1] = distance * np.sin(direction)

    def _to_target(self) -> np.ndarray:
        return (self._target - self._tip)[:, :2]

    def observation(self) -> np.ndarray:
        angles = self.qpos.copy()
        angles[:, 0] = _wrapped(angles[:, 0])
        return np.concatenate([angles, self.qvel, self._to_target()], axis=1)

    def reward(self, action: np.ndarray) -> np.ndarray:
        return (np.linalg.norm(self._to_target(), axis=1) <= self.reached).astype(np.float64)


class Cheetah(Task):
    """Run forward as fast as possible.

    From the paper: v_x minus 0.1 ‖a‖² (printed with a plus, which would reward effort); the kinds of observed
    quantities.

    Chosen: v_x is the torso's. The start is the model's pose with gymnasium's HalfCheetah's noise: uniform ±0.1
    on positions (within the joints' ranges), normal 0.1 on velocities. A step is 0.01 s, as in dm_control.

    Observation [17]: torso height and pitch, joint angles; velocities of all nine degrees of freedom, x and z first.
    """

    observation_size = 17
    substeps = 1
    per_second = True
    camera = "side"

    @staticmethod
    def model() -> mujoco.MjModel:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # dm_control's file sets the total mass in a way that MuJoCo will drop
            return _suite_spec("cheetah").compile()

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        model = batch.model
        self._low, self._high = np.where(model.jnt_limited, model.jnt_range.T, [[-np.inf], [np.inf]])

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        noise = _draw(random, lambda r: r.uniform(-0.1, 0.1, self.qpos.shape[1]))
        self.qpos[which] = np.clip(self.qpos[which] + noise, self._low, self._high)
        self.qvel[which] = _draw(random, lambda r: r.normal(0, 0.1, self.qvel.shape[1]))

    def observation(self) -> np.ndarray:
        return np.concatenate([self.qpos[:, 1:], self.qvel], axis=1)

    def reward(self, action: np.ndarray) -> np.ndarray:
        return self.qvel[:, 0] - 0.1 * _squared(action)


class Fish(Task):
    """Swim to a target in three dimensions.

    From the paper: the distance from the head to the target counts against the fish, as do a small penalty for not
    being upright and a control cost; it starts facing in a random direction; 24 observed quantities.

    Chosen: -distance - 0.05 (1 - cosine of the angle to upright) - 0.01 ‖a‖². Starts and targets are those of
    dm_control's fish-swim: a random orientation, fins and tail uniform ±0.2, the target uniform in a box of 0.8 × 0.8 ×
    0.2. A step is 0.04 s, as there. The target can be swum through.

    Observation [24]: target minus mouth, in the torso's frame; joint angles; joint velocities; cosine of the angle to
    upright; the torso's velocity and angular velocity, in its frame.
    """

    observation_size = 24
    substeps = 10
    per_second = True
    camera = "fixed_top"

    @staticmethod
    def model() -> mujoco.MjModel:
        spec = _suite_spec("fish")
        # As a mocap body, the target's place belongs to a simulation and not to the model that all share.
        old = spec.geom("target")
        body = spec.worldbody.add_body(name="target", mocap=True, pos=old.pos)
        place = dict(type=old.type, size=old.size, material=old.material, contype=0, conaffinity=0)
        spec.delete(old)
        body.add_geom(name="target", **place)
        return spec.compile()

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._target = batch.bind("mocap_pos")[:, 0]
        self._mouth = batch.bind("geom_xpos")[:, batch.model.geom("mouth").id]
        self._torso = _frame(batch, "torso")

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        self.qpos[which, 3:7] = _draw(random, _orientation)
        self.qpos[which, 7:] = _draw(random, lambda r: r.uniform(-0.2, 0.2, self.qpos.shape[1] - 7))
        self._target[which] = _draw(random, lambda r: r.uniform([-0.4, -0.4, 0.1], [0.4, 0.4, 0.3]))

    def _upright(self) -> np.ndarray:
        return self._torso[:, 2, 2]

    def _to_target(self) -> np.ndarray:
        return self._target - self._mouth

    def observation(self) -> np.ndarray:
        return np.concatenate(
            [
                _seen_from(self._torso, self._to_target()),
                self.qpos[:, 7:],
                self.qvel[:, 6:],
                self._upright()[:, None],
                _seen_from(self._torso, self.qvel[:, :3]),
                self.qvel[:, 3:6],  # MuJoCo's free joints turn in their own frame
            ],
            axis=1,
        )

    def reward(self, action: np.ndarray) -> np.ndarray:
        distance = np.linalg.norm(self._to_target(), axis=1)
        return -distance - 0.05 * (1 - self._upright()) - 0.01 * _squared(action)


class Walker2d(Task):
    """Walk forward as fast as possible without falling.

    From the paper: the torso's v_x, minus a quadratic control cost and penalties on deviations from the preferred
    height and orientation; a game ends early, with a negative reward, where the torso leaves its limits of height and
    orientation; 24 observed quantities.

    Chosen: v_x - 0.001 ‖a‖² - (height - 1.3)² - 0.1 pitch²; -10 in addition where the game ends. Control cost,
    limits (height in [0.8, 2.0], pitch in [-1, 1]) and start (standing, uniform ±0.005 on positions and velocities)
    are those of gymnasium's Walker2d; 1.3 is the height of the standing model's torso. A step is 0.025 s, as in
    dm_control.

    Observation [24]: torso height; velocities of all nine degrees of freedom; cosine and sine of the seven bodies'
    orientations.
    """

    observation_size = 24
    substeps = 10
    per_second = True
    camera = "side"
    height = 1.3
    height_limits = (0.8, 2.0)
    pitch_limit = 1.0
    fall = -10.0

    @staticmethod
    def model() -> mujoco.MjModel:
        return _suite_spec("walker").compile()

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._bodies = batch.bind("xmat")[:, 1:]

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        size = self.qpos.shape[1]
        noise = _draw(random, lambda r: r.uniform(-0.005, 0.005, 2 * size))
        self.qpos[which], self.qvel[which] = noise[:, :size], noise[:, size:]

    def _posture(self) -> tuple[np.ndarray, np.ndarray]:
        """Height and pitch [N] of the torso."""
        return self.height + self.qpos[:, 0], self.qpos[:, 2]

    def observation(self) -> np.ndarray:
        orientations = self._bodies[:, :, [0, 2]].reshape(len(self.qpos), -1)
        return np.concatenate([self._posture()[0][:, None], self.qvel, orientations], axis=1)

    def reward(self, action: np.ndarray) -> np.ndarray:
        height, pitch = self._posture()
        walking = self.qvel[:, 1] - 0.001 * _squared(action) - (height - self.height) ** 2 - 0.1 * pitch**2
        return walking + np.where(self.terminated(), self.fall, 0.0)

    def terminated(self) -> np.ndarray:
        height, pitch = self._posture()
        low, high = self.height_limits
        return (height < low) | (height > high) | (np.abs(pitch) > self.pitch_limit)


class Humanoid(Task):
    """Stand up from lying on the ground.

    From the paper: starts lying in a random configuration; the head's deviation from its height in standing counts
    against it, with terms for being upright and a quadratic action penalty; 94 observed quantities, of which joint
    angles and velocities are named, the others are features of the pose.

    Chosen: -|head height - 1.4| (dm_control's standing height) - 0.25 (1 - cosine of the torso's angle to upright)
    - 0.01 ‖a‖². To lie, the body falls limp for 1.5 s from a height of 1.5, from a random orientation with joints
    uniform in their ranges and nothing touching; then it is at rest. A step is 0.025 s, as in dm_control, whose force
    and touch sensors are left out.

    Observation [94], all vectors in the torso's frame: joint angles (21); velocity and angular velocity of the torso,
    joint velocities (27); head height; the vertical (3); centre of mass (3) and its velocity (3); positions of hands,
    feet, forearms and shins (24); velocities of hands and feet relative to the torso (12).
    """

    observation_size = 94
    substeps = 5
    per_second = True
    camera = "side"
    standing_head = 1.4
    settling_steps = 300

    @staticmethod
    def model() -> mujoco.MjModel:
        spec = _suite_spec("humanoid")
        sides = ("left", "right")
        ends = [f"{side}_{end}" for end in ("hand", "foot") for side in sides]
        middles = [f"{side}_{middle}" for middle in ("lower_arm", "shin") for side in sides]
        body, sensor = mujoco.mjtObj.mjOBJ_XBODY, mujoco.mjtSensor
        seen = [(sensor.mjSENS_FRAMEPOS, name) for name in ends + middles]
        seen += [(sensor.mjSENS_FRAMELINVEL, name) for name in ends]
        for kind, name in seen:
            spec.add_sensor(type=kind, objtype=body, objname=name, reftype=body, refname="torso")
        spec.add_sensor(type=sensor.mjSENS_SUBTREELINVEL, objtype=mujoco.mjtObj.mjOBJ_BODY, objname="torso")
        return spec.compile()

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        torso = batch.model.body("torso").id
        self._torso = _frame(batch, "torso")
        self._torso_place = batch.bind("xpos")[:, torso]
        self._mass_centre = batch.bind("subtree_com")[:, torso]
        self._head = batch.bind("xpos")[:, batch.model.body("head").id]
        self._sensors = batch.bind("sensordata")  # positions 24, velocities 12, the centre of mass's 3
        self._contacts = batch.bind("ncon")
        self._low, self._high = batch.model.jnt_range[1:].T

    def start(self, which: np.ndarray, random: Sequence[np.random.Generator]) -> None:
        generators = dict(zip(which.tolist(), random, strict=True))
        touching = which
        while touching.size:
            drawing = [generators[i] for i in touching.tolist()]
            self.qpos[touching, 3:7] = _draw(drawing, _orientation)
            self.qpos[touching, 7:] = _draw(drawing, lambda r: r.uniform(self._low, self._high))
            self.batch.forward(touching, stage=mujoco.mjtStage.mjSTAGE_POS.value)
            touching = touching[self._contacts[touching].reshape(-1) > 0]
        self.batch.step(which, nstep=self.settling_steps)
        self.qvel[which] = 0

    def _upright(self) -> np.ndarray:
        return self._torso[:, 2, 2]

    def observation(self) -> np.ndarray:
        torso, sensors = self._torso, self._sensors
        return np.concatenate(
            [
                self.qpos[:, 7:],
                _seen_from(torso, self.qvel[:, :3]),
                self.qvel[:, 3:],
                self._head[:, 2:],
                torso[:, 2],  # the world's vertical, from the torso
                _seen_from(torso, self._mass_centre - self._torso_place),
                _seen_from(torso, sensors[:, 36:]),
                sensors[:, :36],
            ],
            axis=1,
        )

    def reward(self, action: np.ndarray) -> np.ndarray:
        deviation = np.abs(self._head[:, 2] - self.standing_head)
        return -deviation - 0.25 * (1 - self._upright()) - 0.01 * _squared(action)


TASKS: dict[str, type[Task]] = {
    "cartpole_swingup": CartpoleSwingup,
    "reacher3": Reacher3,
    "cheetah": Cheetah,
    "fish": Fish,
    "walker2d": Walker2d,
    "humanoid": Humanoid,
}


def _suite_spec(name: str) -> mujoco.MjSpec:
    """A model of dm_control's suite, to change before it is compiled. Its sensors, which cost time, are left out."""
    # The file alone: to import the suite takes seconds, and looks for OpenGL.
    folder = Path(dm_control.__file__).parent / "suite"
    spec = mujoco.MjSpec.from_file(str(folder / f"{name}.xml"))
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    return spec


def _draw(random: Sequence[np.random.Generator], one: Callable[[np.random.Generator], Any]) -> np.ndarray:
    """[M, ...]: `one` of each generator."""
    return np.stack([one(generator) for generator in random])


def _orientation(random: np.random.Generator) -> np.ndarray:
    """A uniform random rotation: a unit quaternion [4]."""
    quaternion = random.normal(size=4)
    return quaternion / np.linalg.norm(quaternion)


def _frame(batch: Batch, body: str) -> np.ndarray:
    """[N, 3, 3], live: columns are the body's axes in the world."""
    return batch.bind("xmat")[:, batch.model.body(body).id].reshape(batch.nsim, 3, 3)


def _seen_from(frame: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vectors of the world [N, 3] in the axes of frames [N, 3, 3]."""
    return np.einsum("nij,ni->nj", frame, vector)


def _squared(action: np.ndarray) -> np.ndarray:
    """‖a‖² [N]."""
    return np.square(action, dtype=np.float64).sum(axis=1)


def _wrapped(angle: np.ndarray) -> np.ndarray:
    """Angles in [-π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
