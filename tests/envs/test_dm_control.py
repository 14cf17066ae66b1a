"""DeepMind Control Suite ids are dm_control's environments, flattened."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.envs.mujoco_rendering import without_gl
from acer_tf.errors import InvalidEnvironment

with without_gl():  # as other tests of this process load TensorFlow
    mujoco = pytest.importorskip("mujoco")
    suite = pytest.importorskip("dm_control.suite")
pytest.importorskip("shimmy")


def flat(observation):
    return np.concatenate([np.ravel(observation[key]) for key in sorted(observation)])


@pytest.mark.parametrize("domain, task", [("cheetah", "run"), ("reacher", "easy"), ("walker", "walk")])
def test_equals_dm_control(domain, task):
    env = envs.make(f"dm_control/{domain}-{task}-v0", 2, 5)
    steps = [env.reset()]
    size = env.spec.action_size
    actions = np.random.default_rng(0).uniform(-1, 1, (40, 2, size)).astype(np.float32)
    steps += [env.step(action) for action in actions]
    for i, word in enumerate(np.random.SeedSequence(5).generate_state(2)):
        bare = suite.load(domain, task, task_kwargs={"random": int(word >> 1)})
        np.testing.assert_allclose(steps[0].observation[i], flat(bare.reset().observation), rtol=1e-6)
        for step, action in zip(steps[1:], actions[:, i], strict=True):
            want = bare.step(action)
            np.testing.assert_allclose(step.observation[i], flat(want.observation), rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(step.reward[i], want.reward, rtol=1e-6)


def test_the_time_limit_truncates_and_the_generator_continues():
    env = envs.make("dm_control/reacher-easy-v0", 1, 0)
    first = env.reset().observation
    steps = [env.step(np.zeros((1, 2), np.float32)) for _ in range(1001)]
    assert np.flatnonzero([s.last.item() for s in steps]).tolist() == [999]
    assert all(s.discount.all() for s in steps) and not steps[1000].mask
    assert (steps[1000].observation != first).any()
    assert env.steps_per_second == pytest.approx(50)


def test_spec():
    spec = envs.spec("dm_control/humanoid-stand-v0")
    assert spec.observation_shape == (67,) and spec.observation_dtype == "float32" and spec.action_size == 21


def test_what_is_not_of_the_suite_is_refused():
    with pytest.raises(InvalidEnvironment, match="stack_2_bricks_vision-v0"):
        envs.make("dm_control/stack_2_bricks_vision-v0", 1, 0)


def test_arguments_follow_the_id():
    envs.make("dm_control/cartpole-swingup-v0,max_episode_steps=5", 1, 0).close()
    with pytest.raises(InvalidEnvironment, match="mass") as refused:
        envs.make("dm_control/cartpole-swingup-v0,mass=2", 1, 0)
    assert "is not supported" not in str(refused.value)


def test_every_model_of_the_suite_has_a_camera():
    models = {path.stem: mujoco.MjSpec.from_file(str(path)) for path in Path(suite.__file__).parent.glob("*.xml")}
    assert {domain for domain, _ in suite.ALL_TASKS} <= models.keys()
    assert all(model.cameras for model in models.values())


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(InvalidEnvironment, match="dm_control/cheetah-run-v0"):
        envs.make("dm_control/cheeta-run-v0", 1, 0)


@pytest.mark.process
def test_standard_output_stays_clean_where_labmaze_is_missing():
    program = (
        "import sys; sys.modules['labmaze'] = None; from acer_tf import envs;"
        "envs.make('dm_control/cheetah-run-v0', 1, 0).close()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("package", ["dm_control", "shimmy"])
def test_a_missing_package_names_the_extra(package, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "acer_tf.envs.dm_control", raising=False)  # so that it is imported again
    with pytest.raises(InvalidEnvironment, match=r"cheetah-run-v0 .*acer_tf\[control\]"):
        envs.make("dm_control/cheetah-run-v0", 1, 0)


@pytest.mark.process
def test_pictures(gl):
    env = envs.make("dm_control/cheetah-run-v0", 2, 0, render=True)
    env.reset()
    picture = env.render()
    assert picture.shape == (240, 320, 3) and picture.dtype == np.uint8 and picture.std() > 5
    env.close()


def test_a_terrain_that_changes_needs_no_opengl_here():
    env = envs.make("dm_control/quadruped-escape-v0", 1, 0)
    first = env.reset().observation
    assert (env.reset().observation != first).any()
