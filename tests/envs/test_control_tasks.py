"""The paper's tasks: starts, observations, rewards and terminations, against dm_control's physics and by hand."""

import mujoco
import numpy as np
import pytest

from acer_tf.envs.families import CONTROL_TASKS

pytest.importorskip("dm_control")
from dm_control import suite  # noqa: E402
from mujoco.batch import Batch  # noqa: E402

from acer_tf.envs.control_tasks import TASKS  # noqa: E402

VELOCITY = mujoco.mjtStage.mjSTAGE_VEL.value
SUITE = {
    "cartpole_swingup": ("cartpole", "swingup"),
    "cheetah": ("cheetah", "run"),
    "fish": ("fish", "swim"),
    "walker2d": ("walker", "walk"),
    "humanoid": ("humanoid", "stand"),
}


def make(name, num=3, seed=0):
    """A task at the start of an episode, in `num` simulations."""
    task_type = TASKS[name]
    task = task_type(Batch(task_type.model(), num, 1, persistent=True))
    start(task, seed)
    return task


def start(task, seed=0):
    num = task.batch.nsim
    task.batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
    task.random = [np.random.default_rng((seed, i)) for i in range(num)]
    task.start(np.arange(num))
    task.batch.forward(stage=VELOCITY)


def put(task, qpos=None, qvel=None):
    """The same state in every simulation."""
    if qpos is not None:
        task.qpos[:] = qpos
    if qvel is not None:
        task.qvel[:] = qvel
    task.batch.forward(stage=VELOCITY)


def play(task, steps, seed=0):
    """Applies random actions; returns the last [num, d]."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        action = random.uniform(-1, 1, (task.batch.nsim, task.batch.model.nu))
        task.batch.bind("ctrl")[:] = action
        task.batch.step(nstep=task.substeps, stage=VELOCITY)
    return action


def test_the_tasks_are_those_of_the_catalogue():
    assert tuple(TASKS) == CONTROL_TASKS


@pytest.mark.parametrize(
    "name, actions, seconds",
    [
        ("cartpole_swingup", 1, 0.02),
        ("reacher3", 3, 0.02),
        ("cheetah", 6, 0.01),
        ("fish", 5, 0.04),
        ("walker2d", 6, 0.025),
        ("humanoid", 21, 0.025),
    ],
)
def test_sizes(name, actions, seconds):
    task = make(name)
    model = task.batch.model
    assert task.observation().shape == (3, task.observation_size)
    assert model.nu == actions and (model.actuator_ctrlrange == [-1, 1]).all()
    assert model.opt.timestep * task.substeps == pytest.approx(seconds)


@pytest.mark.parametrize("name, freedom", [("cheetah", 9), ("fish", 13), ("walker2d", 9), ("humanoid", 27)])
def test_degrees_of_freedom_are_the_papers(name, freedom):
    assert make(name).batch.model.nv == freedom


@pytest.mark.parametrize("name, size", [("reacher3", 8), ("fish", 24), ("walker2d", 24), ("humanoid", 94)])
def test_observation_sizes_are_the_papers(name, size):
    assert TASKS[name].observation_size == size


@pytest.mark.parametrize("name", SUITE)
def test_the_physics_are_dm_controls(name):
    """The same start and actions give the same motion, after the suite's models are changed like ours."""
    env = suite.load(*SUITE[name])
    env.reset()
    task = make(name, num=1)
    physics = env.physics
    if name == "cartpole_swingup":
        physics.named.model.jnt_range["slider"] = [-1.2, 1.2]
    with physics.reset_context():
        physics.data.qpos[:], physics.data.qvel[:] = task.qpos[0], task.qvel[0]
    slower = 2 if name == "cartpole_swingup" else 1
    assert task.batch.model.opt.timestep * task.substeps == pytest.approx(slower * env.control_timestep())
    random = np.random.default_rng(0)
    for _ in range(20):
        action = random.uniform(-1, 1, task.batch.model.nu)
        physics.set_control(action)
        physics.step(task.substeps)
        task.batch.bind("ctrl")[:] = action
        task.batch.step(nstep=task.substeps, stage=VELOCITY)
        np.testing.assert_allclose(task.qpos[0], physics.data.qpos, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(task.qvel[0], physics.data.qvel, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_observations_are_of_the_current_state(name):
    """Derived quantities are up to date: mj_forward on the same state changes nothing."""
    task = make(name)
    play(task, 7)
    seen, rewarded = task.observation(), task.reward(np.zeros((3, task.batch.model.nu)))
    task.batch.forward(stage=VELOCITY)
    np.testing.assert_allclose(task.observation(), seen, rtol=0, atol=1e-12)
    np.testing.assert_allclose(task.reward(np.zeros((3, task.batch.model.nu))), rewarded, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", TASKS)
def test_starts_differ_and_repeat(name):
    task = make(name, num=4)
    first = task.observation()
    assert len(np.unique(first, axis=0)) == 4
    play(task, 3)
    start(task, seed=1)
    assert not np.isclose(task.observation(), first).all()
    start(task, seed=0)
    np.testing.assert_array_equal(task.observation(), first)


@pytest.mark.parametrize("name", TASKS)
def test_a_start_depends_only_on_its_generator(name):
    task = make(name, num=4)
    whole = task.observation()
    which = np.array([1, 3])
    task.batch.reset(which, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
    task.random = [np.random.default_rng((0, i)) for i in range(4)]
    task.start(which)
    task.batch.forward(which, stage=VELOCITY)
    np.testing.assert_array_equal(task.observation(), whole)


def oracle(name, task):
    """dm_control's physics in the state of the task's simulation 0."""
    env = suite.load(*SUITE[name])
    env.reset()
    with env.physics.reset_context():
        env.physics.data.qpos[:], env.physics.data.qvel[:] = task.qpos[0], task.qvel[0]
    return env.physics


def test_cartpole_observation():
    task = make("cartpole_swingup", num=1)
    play(task, 9)
    put(task, qpos=[0.3, task.qpos[0, 1] + 4 * np.pi])
    x, speed, angle, turning, sine, cosine, *tip = task.observation()[0]
    physics = oracle("cartpole_swingup", task)
    np.testing.assert_allclose([x, cosine, sine], physics.bounded_position())
    np.testing.assert_allclose([speed, turning], physics.velocity())
    assert -np.pi <= angle < np.pi and np.isclose(np.cos(angle), cosine) and np.isclose(np.sin(angle), sine)
    data, model = physics.named.data, physics.model
    end = data.xpos["pole_1"] + data.xmat["pole_1"].reshape(3, 3)[:, 2]
    jacobian = np.zeros((3, 2))
    mujoco.mj_jac(model.ptr, physics.data.ptr, jacobian, None, end, model.name2id("pole_1", "body"))
    np.testing.assert_allclose(tip, [*end[[0, 2]], *(jacobian @ physics.velocity())[[0, 2]]], atol=1e-12)


def test_cartpole_start():
    task = make("cartpole_swingup", num=400)
    assert (task.qpos[:, 0] == 0).all() and (task.qvel == 0).all()
    quarters = np.histogram(task.qpos[:, 1], bins=4, range=(-np.pi, np.pi))[0]
    assert quarters.sum() == 400 and quarters.min() > 70


@pytest.mark.parametrize(
    "x, degrees, reward",
    [
        (0, 0, 1),
        (0.049, 4.9, 1),
        (-0.049, -4.9, 1),
        (0, 364.9, 1),
        (0, -724, 1),
        (0.051, 0, 0),
        (-0.051, 0, 0),
        (0, 5.1, 0),
        (0, 354.9, 0),
        (0, 180, 0),
    ],
)
def test_cartpole_reward(x, degrees, reward):
    task = make("cartpole_swingup", num=1)
    put(task, qpos=[x, np.deg2rad(degrees)])
    assert task.reward(np.ones((1, 1))) == reward and not task.terminated()


def test_the_track_is_shortened():
    task = make("cartpole_swingup", num=2)
    task.batch.bind("ctrl")[:, 0] = [1, -1]
    task.batch.step(nstep=300)
    assert (np.abs(task.qpos[:, 0]) < 1.3).all() and (np.abs(task.qpos[:, 0]) > 1.0).all()


def tip_of_reacher(angles):
    absolute = np.cumsum(angles)
    return np.array([0.12, 0.10, 0.08]) @ np.stack([np.cos(absolute), np.sin(absolute)], axis=1)


def test_reacher_observation_and_reward():
    task = make("reacher3", num=1)
    angles = np.array([0.7 + 2 * np.pi, -1.1, 0.4])
    tip = tip_of_reacher(angles)
    for displacement, reward in (([0.03, 0.03], 1), ([0, -0.0499], 1), ([0.0501, 0], 0), ([-0.04, -0.04], 0)):
        task.batch.bind("mocap_pos")[0, 0, :2] = tip + displacement
        put(task, qpos=angles, qvel=[1, -2, 3])
        np.testing.assert_allclose(task.observation(), [[0.7, -1.1, 0.4, 1, -2, 3, *displacement]], atol=1e-12)
        assert task.reward(np.ones((1, 3))) == reward and not task.terminated()


def test_reacher_start():
    task = make("reacher3", num=500)
    target = task.batch.bind("mocap_pos")[:, 0]
    distance = np.linalg.norm(target[:, :2], axis=1)
    assert 0.05 <= distance.min() < 0.06 and 0.24 < distance.max() <= 0.25
    assert (np.sign(target[:, :2]).mean(axis=0) ** 2 < 0.02).all() and (target[:, 2] == 0.01).all()
    assert (task.qvel == 0).all()
    np.testing.assert_allclose(np.abs(task.qpos).max(axis=0), [np.pi, *np.deg2rad([160, 160])], rtol=0.02)
    # Reaching it by chance is rare: the share of starts with a reward.
    assert task.reward(np.zeros((500, 3))).mean() < 0.1


def test_the_reachers_motors_damping_and_masses_follow_dm_controls():
    theirs, ours = suite.load("reacher", "easy").physics.model, make("reacher3", num=1).batch.model
    assert ours.opt.timestep == theirs.opt.timestep == 0.02
    assert ours.actuator_gear[:, 0].tolist() == [theirs.actuator_gear[0, 0]] * 3 == [0.05] * 3
    assert ours.dof_damping.tolist() == [theirs.dof_damping[0]] * 3 == [0.01] * 3
    # Capsules of radius 1 cm and density 1000, of 12, 10 and 8 cm.
    masses = [1000 * np.pi * 0.01**2 * (length + 4 / 3 * 0.01) for length in (0.12, 0.10, 0.08)]
    np.testing.assert_allclose(ours.body_mass[1:4], masses, rtol=1e-6)
    np.testing.assert_allclose(theirs.body_mass[1], masses[0], rtol=1e-6)


def test_reacher_torques_turn_its_joints():
    task = make("reacher3", num=3)
    put(task, qpos=0, qvel=0)
    task.batch.bind("ctrl")[:] = np.eye(3)
    task.batch.step()
    assert (np.diag(task.qvel) > 0).all()


def test_cheetah_observation_and_reward():
    task = make("cheetah")
    action = play(task, 5)
    physics = oracle("cheetah", task)
    np.testing.assert_allclose(task.observation()[0], [*physics.data.qpos[1:], *physics.velocity()])
    np.testing.assert_allclose(task.reward(action), task.qvel[:, 0] - 0.1 * (action**2).sum(axis=1))
    put(task, qvel=[3.0] + [0.0] * 8)
    np.testing.assert_allclose(task.reward(np.tile([1, 0, -1, 0, 0, 0.5], (3, 1))), 3.0 - 0.225)
    assert not task.terminated().any()


def test_cheetah_start():
    task = make("cheetah", num=300)
    model = task.batch.model
    limited = model.jnt_limited.astype(bool)
    assert (task.qpos[:, limited] >= model.jnt_range[limited, 0]).all()
    assert (task.qpos[:, limited] <= model.jnt_range[limited, 1]).all()
    assert 0.09 < np.abs(task.qpos).max() <= 0.1
    np.testing.assert_allclose(task.qvel.std(axis=0), 0.1, rtol=0.2)


def test_fish_observation_and_reward():
    task = make("fish")
    action = play(task, 5)
    physics = oracle("fish", task)
    data = physics.named.data
    torso = data.xmat["torso"].reshape(3, 3)
    to_target = task.batch.bind("mocap_pos")[0, 0] - data.geom_xpos["mouth"]
    want = [to_target @ torso, physics.joint_angles(), physics.joint_velocities(), [physics.upright()]]
    np.testing.assert_allclose(
        task.observation()[0], np.concatenate([*want, physics.torso_velocity()]), rtol=1e-6, atol=1e-9
    )
    reward = -np.linalg.norm(to_target) - 0.05 * (1 - physics.upright()) - 0.01 * (action[0] ** 2).sum()
    np.testing.assert_allclose(task.reward(action)[0], reward)
    assert not task.terminated().any()


def test_fish_upside_down():
    task = make("fish", num=1)
    rolled = task.qpos[0].copy()
    rolled[3:7] = [0, 0, 1, 0]  # half a turn about the length of the fish: its mouth stays where it is
    level = rolled.copy()
    level[3:7] = [1, 0, 0, 0]
    rewards = []
    for qpos in (level, rolled):
        put(task, qpos=qpos)
        rewards.append(task.reward(np.zeros((1, 5))).item())
    assert rewards[0] - rewards[1] == pytest.approx(0.1)


def test_fish_start():
    task = make("fish", num=400)
    target = task.batch.bind("mocap_pos")[:, 0]
    low, high = np.array([-0.4, -0.4, 0.1]), np.array([0.4, 0.4, 0.3])
    assert (target >= low).all() and (target <= high).all()
    np.testing.assert_allclose(target.min(axis=0), low, atol=0.02)
    np.testing.assert_allclose(target.max(axis=0), high, atol=0.02)
    np.testing.assert_allclose(np.linalg.norm(task.qpos[:, 3:7], axis=1), 1)
    assert 0.19 < np.abs(task.qpos[:, 7:]).max() <= 0.2 and (task.qvel == 0).all()
    forward = task.batch.bind("xmat")[:, task.batch.model.body("torso").id].reshape(-1, 3, 3)[:, :, 1]
    assert (np.abs(forward.mean(axis=0)) < 0.15).all()


def test_walker_observation_and_reward():
    task = make("walker2d")
    action = play(task, 5)
    physics = oracle("walker2d", task)
    height = physics.torso_height()
    np.testing.assert_allclose(
        task.observation()[0], [height, *physics.velocity(), *physics.orientations()], rtol=1e-9, atol=1e-9
    )
    pitch, speed = physics.named.data.qpos["rooty"].item(), physics.named.data.qvel["rootx"].item()
    reward = speed - 0.001 * (action[0] ** 2).sum() - (height - 1.3) ** 2 - 0.1 * pitch**2
    np.testing.assert_allclose(task.reward(action)[0], reward)


def test_walker_start():
    task = make("walker2d", num=200)
    for values in (task.qpos, task.qvel):
        assert 0.0049 < np.abs(values).max() <= 0.005
    assert not task.terminated().any()


@pytest.mark.parametrize(
    "height, pitch, over",
    [(1.3, 0, False), (0.81, 0, False), (0.79, 0, True), (1.99, 0, False), (2.01, 0, True)]
    + [(1.3, 0.99, False), (1.3, -0.99, False), (1.3, 1.01, True), (1.3, -1.01, True)],
)
def test_walker_termination(height, pitch, over):
    task = make("walker2d", num=1)
    put(task, qpos=[height - 1.3, 5.0, pitch] + [0] * 6, qvel=[0, 2.0] + [0] * 7)
    assert task.terminated() == over
    reward = 2.0 - 0.006 - (height - 1.3) ** 2 - 0.1 * pitch**2 - 10 * over
    np.testing.assert_allclose(task.reward(np.ones((1, 6))), [reward])


def test_humanoid_observation_and_reward():
    task = make("humanoid", num=2)
    action = play(task, 5)
    physics = oracle("humanoid", task)
    data = physics.named.data
    torso, place = data.xmat["torso"].reshape(3, 3), data.xpos["torso"]

    def position(body):
        return (data.xpos[body] - place) @ torso

    def velocity(body):
        """By finite differences of the position in the torso's frame, along the state's motion."""
        changed = []
        for seconds in (1e-6, -1e-6):
            qpos = task.qpos[0].copy()
            mujoco.mj_integratePos(physics.model.ptr, qpos, task.qvel[0], seconds)
            with physics.reset_context():
                physics.data.qpos[:] = qpos
            moved = data.xmat["torso"].reshape(3, 3)
            changed.append((data.xpos[body] - data.xpos["torso"]) @ moved)
        return (changed[0] - changed[1]) / 2e-6

    ends = ["left_hand", "right_hand", "left_foot", "right_foot"]
    bodies = ends + ["left_lower_arm", "right_lower_arm", "left_shin", "right_shin"]
    want = [
        physics.joint_angles(),
        task.qvel[0, :3] @ torso,
        task.qvel[0, 3:],
        [physics.head_height()],
        physics.torso_vertical_orientation(),
        (physics.center_of_mass_position() - place) @ torso,
        physics.center_of_mass_velocity() @ torso,
        *[position(body) for body in bodies],
    ]
    seen = task.observation()[0]
    np.testing.assert_allclose(seen[:82], np.concatenate(want), rtol=1e-6, atol=1e-7)
    reward = -abs(physics.head_height() - 1.4) - 0.25 * (1 - physics.torso_upright()) - 0.01 * (action[0] ** 2).sum()
    np.testing.assert_allclose(task.reward(action)[0], reward)
    np.testing.assert_allclose(seen[82:], np.concatenate([velocity(body) for body in ends]), atol=1e-5)
    assert not task.terminated().any()


def test_humanoid_starts_lying_at_rest():
    task = make("humanoid", num=12)
    head = task.batch.bind("xpos")[:, task.batch.model.body("head").id, 2]
    torso = task.batch.bind("xmat")[:, task.batch.model.body("torso").id].reshape(-1, 3, 3)
    assert (head < 0.7).all() and (head > 0).all()
    assert (np.abs(torso[:, 2, 2]) < 0.9).all() and (task.qvel == 0).all()
    before = task.qpos.copy()
    task.batch.step(nstep=20)
    assert np.abs(task.qpos - before).max() < 0.1  # nor does it fall on


def test_standing_pays_best():
    task = make("humanoid", num=1)
    lying = task.reward(np.zeros((1, 21)))
    put(task, qpos=task.batch.model.qpos0)
    task.qpos[0, 2] += 1.4 - task.batch.bind("xpos")[0, task.batch.model.body("head").id, 2]
    task.batch.forward(stage=VELOCITY)
    np.testing.assert_allclose(task.reward(np.zeros((1, 21))), 0, atol=1e-3)
    np.testing.assert_allclose(task.reward(np.full((1, 21), 0.5)), -0.01 * 21 / 4, atol=1e-3)
    assert lying < -0.7
