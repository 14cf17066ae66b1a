"""Which OpenGL draws: the first that works, and a sentence that says what to install where none does."""

import os
import subprocess
import sys

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.envs import headless

pytest.importorskip("mujoco")


@pytest.fixture
def works(monkeypatch):
    """Makes exactly these backends work."""

    def only(*backends):
        monkeypatch.setattr(headless, "_works", lambda backend: backend in backends)

    monkeypatch.setenv("MUJOCO_GL", "")
    return only


@pytest.mark.parametrize("there, chosen", [(("egl", "osmesa"), "egl"), (("osmesa",), "osmesa")])
def test_the_first_that_works_is_chosen(works, there, chosen):
    works(*there)
    headless.require_gl("control/fish")
    assert os.environ["MUJOCO_GL"] == chosen


@pytest.mark.parametrize(
    "env_id", ["control/fish", "dm_control/cheetah-run-v0", "HalfCheetah-v5", "control/cartpole_swingup"]
)
def test_none_works(works, env_id):
    works()
    with pytest.raises(envs.InvalidEnvironment, match=f"to draw {env_id} .*neither.*libegl1.*libosmesa6"):
        envs.make(env_id, 1, 0, render=True)
    assert not os.environ["MUJOCO_GL"]


def test_a_choice_of_ones_own_stands(works, monkeypatch):
    works("egl")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(envs.InvalidEnvironment, match="MUJOCO_GL=osmesa .*does not work"):
        headless.require_gl("control/fish")
    assert os.environ["MUJOCO_GL"] == "osmesa"


def test_what_needs_no_mujoco_needs_no_opengl(works):
    works()
    env = envs.make("atari/Pong", 1, 0, render=True)
    env.reset()
    assert env.render().std() > 0


def test_a_backend_that_does_not_exist_does_not_work():
    assert not headless._works("no_such_thing")


_TRAIN_THEN_DRAW = """
import sys
from acer_tf import envs
env = envs.make(sys.argv[1], 1, 0)
env.reset()
env = envs.make(sys.argv[1], 1, 0, render=True)
env.reset()
assert env.render().std() > 5
"""


@pytest.mark.parametrize("env_id", ["control/cheetah", "dm_control/cheetah-run-v0", "HalfCheetah-v5"])
def test_drawing_after_mujoco_was_imported_without_a_choice(env_id):
    """As evaluation with a video after training: nothing may hang on what was imported first."""
    try:
        headless.require_gl("this test")
    except envs.InvalidEnvironment as error:
        pytest.skip(str(error))
    environment = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    command = [sys.executable, "-c", _TRAIN_THEN_DRAW, env_id]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_gymnasium_id_draws():
    try:
        headless.require_gl("this test")
    except envs.InvalidEnvironment as error:
        pytest.skip(str(error))
    env = envs.make("HalfCheetah-v5", 2, 0, render=True)
    env.reset()
    pictures = env.render()
    assert pictures.dtype == np.uint8 and pictures.shape[0] == 2 and pictures.std() > 5
    env.close()
