"""control/<task> through `envs.make`: time limits, masked rows, seeds, threads, pictures."""

import importlib.resources
import sys

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.envs.families import CONTROL_TASKS
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment

pytest.importorskip("dm_control")
from acer_tf.envs import control  # noqa: E402


def play(env, steps, seed=0):
    random = np.random.default_rng(seed)
    actions = random.normal(0, 1, (steps, env.num_envs, env.spec.action_size)).astype(np.float32)
    return [env.reset()] + [env.step(action) for action in actions]


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(control, "EPISODE_STEPS", 4)


@pytest.mark.parametrize(
    "task, observation, action",
    [
        ("cartpole_swingup", 10, 1),
        ("reacher3", 8, 3),
        ("cheetah", 17, 6),
        ("fish", 24, 5),
        ("walker2d", 24, 6),
        ("humanoid", 94, 21),
    ],
)
def test_spec(task, observation, action):
    spec = envs.spec(f"control/{task}")
    assert spec.observation_shape == (observation,) and spec.observation_dtype == "float32"
    assert spec.continuous and spec.action_size == action and spec.num_actions == 0
    assert spec.stack == 1 and spec.frames_per_step == 1


def test_an_episode_lasts_500_steps_and_is_truncated():
    steps = play(envs.make("control/cheetah", 2, 0), 1003)
    last, mask, discount = (np.array([getattr(s, f) for s in steps[1:]]) for f in ("last", "mask", "discount"))
    np.testing.assert_array_equal(np.flatnonzero(last[:, 0]), [499, 1000])
    np.testing.assert_array_equal(np.flatnonzero(~mask[:, 0]), [500, 1001])
    np.testing.assert_array_equal(last[:, 0], last[:, 1])
    assert discount.all()


def test_a_fall_ends_the_walkers_return():
    env = envs.make("control/walker2d", 3, 0)
    steps = play(env, 300)
    last, discount = np.array([s.last for s in steps[1:]]), np.array([s.discount for s in steps[1:]])
    reward, height = np.array([s.reward for s in steps[1:]]), np.array([s.observation[:, 0] for s in steps[1:]])
    assert last.sum() >= 3
    np.testing.assert_array_equal(discount, 1 - last)
    assert (reward[last] < -0.1).all() and (reward[~last] > -0.1).all()
    np.testing.assert_allclose(height[np.roll(last, 1, axis=0)], 1.3, atol=0.01)


@pytest.mark.parametrize("task", CONTROL_TASKS)
def test_rows(task, short):
    env = envs.make(f"control/{task}", 2, 3)
    steps = play(env, 14)
    again = envs.make(f"control/{task}", 2, 3)
    firsts = [steps[0].observation, steps[5].observation, steps[10].observation]
    assert [s.mask.tolist() for s in steps[1:]] == [[t % 5 != 4] * 2 for t in range(14)]
    assert [s.last.tolist() for s in steps[1:]] == [[t % 5 == 3] * 2 for t in range(14)]
    assert (steps[5].reward == 0).all() and all(s.discount.all() for s in steps[1:])
    # Each episode starts as reset() starts it: the generators continue.
    for first in firsts:
        np.testing.assert_array_equal(again.reset().observation, first)
    assert len(np.unique(np.concatenate(firsts), axis=0)) == 6


@pytest.mark.parametrize("task, seconds", [("cheetah", 0.01), ("fish", 0.04), ("walker2d", 0.025), ("humanoid", 0.025)])
def test_dense_rewards_are_rates(task, seconds):
    env = envs.make(f"control/{task}", 3, 0)
    env.reset()
    action = np.full((3, env.spec.action_size), 0.5, np.float32)
    reward = env.step(action).reward
    np.testing.assert_allclose(reward, seconds * env._env._task.reward(action), rtol=1e-6)


def test_an_upright_pole_pays_one_per_step():
    env = envs.make("control/cartpole_swingup", 2, 0)
    env.reset()
    env._env._task.qpos[:], env._env._task.qvel[:] = 0, 0
    np.testing.assert_array_equal(env.step(np.zeros((2, 1), np.float32)).reward, 1)


def test_environments_that_end_at_different_times(monkeypatch):
    """A masked row steps no simulation."""
    monkeypatch.setattr(control, "EPISODE_STEPS", 200)
    both, one = play(envs.make("control/walker2d", 2, 0), 250), envs.make("control/walker2d", 1, 0)
    masks = np.array([s.mask for s in both[1:]])
    assert (masks[:, 0] != masks[:, 1]).any()
    alone = [one.reset()]
    actions = np.random.default_rng(0).normal(0, 1, (250, 2, 6)).astype(np.float32)
    alone += [one.step(action[:1]) for action in actions]
    for with_other, without in zip(both, alone, strict=True):
        for a, b in zip(with_other[:6], without[:6], strict=True):
            np.testing.assert_array_equal(a[:1], b)


@pytest.mark.parametrize("task", CONTROL_TASKS)
def test_results_depend_on_the_seed_and_not_on_threads(task, short):
    def observations(seed, threads, num_envs=5):
        steps = play(envs.make(f"control/{task}", num_envs, seed, threads=threads), 12)
        return np.stack([s.observation for s in steps])

    one = observations(0, threads=1)
    for threads in (2, 3, 64):
        np.testing.assert_array_equal(observations(0, threads), one)
    assert not np.isclose(observations(1, threads=1), one).all()


@pytest.mark.parametrize("task", ["cheetah", "fish"])
def test_actions_are_clipped(task):
    def outcome(action):
        env = envs.make(f"control/{task}", 2, 0)
        env.reset()
        return env.step(np.full((2, env.spec.action_size), action, np.float32))

    for beyond, bound in ((7, 1), (-1.01, -1)):
        a, b = outcome(beyond), outcome(bound)
        np.testing.assert_array_equal(a.observation, b.observation)
        np.testing.assert_array_equal(a.reward, b.reward)


def test_returned_arrays_are_never_overwritten(short):
    env = envs.make("control/walker2d", 2, 0)
    kept = play(env, 12)
    copies = [[array.copy() for array in step[:6]] for step in kept]
    play(env, 12)
    for step, copy in zip(kept, copies, strict=True):
        for array, as_returned in zip(step[:6], copy, strict=True):
            np.testing.assert_array_equal(array, as_returned)


def test_divergence_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working directory
    env = envs.make("control/cheetah", 2, 0)
    env.reset()
    env._env._batch.bind("qvel")[1] = np.inf
    with pytest.raises(EnvironmentFailure, match=r"^control/cheetah failed in step\(\): .*environment 1 diverged"):
        env.step(np.zeros((2, 6), np.float32))


def test_clock():
    rates = {task: envs.make(f"control/{task}", 1, 0).steps_per_second for task in CONTROL_TASKS}
    want = dict(cartpole_swingup=50, reacher3=50, cheetah=100, fish=25, walker2d=40, humanoid=40)
    assert rates == pytest.approx(want)


@pytest.mark.process
@pytest.mark.parametrize("task", CONTROL_TASKS)
def test_pictures(task, gl):
    env = envs.make(f"control/{task}", 2, 0, render=True)
    env.reset()
    before = env.render()
    assert before.shape == (240, 320, 3) and before.dtype == np.uint8 and before.std() > 5
    for _ in range(10):
        env.step(np.ones((2, env.spec.action_size), np.float32))
    assert (env.render() != before).any()
    env.close()
    env.close()


@pytest.mark.process
def test_a_rendering_process_that_dies_is_the_environments_failure(gl):
    env = envs.make("control/reacher3", 1, 0, render=True)
    env.reset()
    env.render()
    env._renderer._process.kill()
    with pytest.raises(EnvironmentFailure, match=r"^control/reacher3 .*render\(\)"):
        env.render()
    env.close()


@pytest.mark.process
def test_a_picture_shows_the_target_where_it_is(gl):
    """Reacher3 from above: the shoulder is in the middle, +y is up, and the target is the reddish disc."""
    env = envs.make("control/reacher3", 1, 0, render=True)
    for _ in range(4):
        env.reset()
        picture, (x, y) = env.render().astype(int), env._env._batch.bind("mocap_pos")[0, 0, :2]
        red = (picture[..., 0] > 1.5 * picture[..., 2]) & (abs(picture[..., 1] - picture[..., 2]) < 25)
        rows, columns = np.nonzero(red)
        # Seen from 0.9 with a field of view of 45°.
        scale = 0.9 * np.tan(np.deg2rad(22.5)) / 120
        found = np.array([np.median(columns) - 159.5, 119.5 - np.median(rows)]) * scale
        np.testing.assert_allclose(found, [x, y], atol=0.03)


@pytest.mark.process
def test_rendering_changes_nothing(gl, short):
    plain = play(envs.make("control/fish", 2, 0), 6)
    env = envs.make("control/fish", 2, 0, render=True)
    step = env.reset()
    random = np.random.default_rng(0).normal(0, 1, (6, 2, 5)).astype(np.float32)
    for want, action in zip(plain[1:], random, strict=True):
        env.render()
        step = env.step(action)
        np.testing.assert_array_equal(step.observation, want.observation)


@pytest.mark.parametrize("package", ["dm_control", "mujoco"])
def test_a_missing_package_names_the_extra(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for module in ("control", "control_tasks"):  # so that they are imported again
        monkeypatch.delitem(sys.modules, f"acer_tf.envs.{module}")
    with pytest.raises(InvalidEnvironment, match=r"control/fish .*acer_tf\[control\]"):
        envs.make("control/fish", 1, 0)


def test_the_reachers_model_is_shipped():
    assert importlib.resources.files("acer_tf.envs").joinpath("reacher3.xml").is_file()
