"""Pictures of MuJoCo: the OpenGL that is chosen, or an error that says what to install; the process that renders."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from acer_tf import envs
from acer_tf.envs import mujoco_rendering
from acer_tf.envs.mujoco_rendering import RenderProcess, View
from acer_tf.errors import InvalidEnvironment

with mujoco_rendering.without_gl():
    mujoco = pytest.importorskip("mujoco")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def works(monkeypatch):
    """Makes exactly these backends work."""

    def only(*backends):
        monkeypatch.setattr(mujoco_rendering, "_works", lambda backend: backend in backends)

    monkeypatch.setenv("MUJOCO_GL", "")
    return only


@pytest.mark.parametrize("there, chosen", [(("egl", "osmesa"), "egl"), (("osmesa",), "osmesa")])
def test_the_first_that_works_is_chosen(works, there, chosen):
    works(*there)
    mujoco_rendering.require_gl("control/fish")
    assert os.environ["MUJOCO_GL"] == chosen


@pytest.mark.parametrize(
    "env_id", ["control/fish", "dm_control/cheetah-run-v0", "HalfCheetah-v5", "control/cartpole_swingup"]
)
def test_none_works(works, env_id):
    works()
    with pytest.raises(InvalidEnvironment, match=f"{env_id} .*libegl1.*libosmesa6"):
        envs.make(env_id, 1, 0, render=True)
    assert not os.environ["MUJOCO_GL"]


@pytest.mark.parametrize("chosen", ["egl", None])
def test_threads_that_make_environments_at_once_leave_the_choice_as_it_was(chosen, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if chosen:
        monkeypatch.setenv("MUJOCO_GL", chosen)
    first, second = mujoco_rendering.without_gl(), mujoco_rendering.without_gl()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ["MUJOCO_GL"] == "off"
    second.__exit__(None, None, None)
    assert os.environ.get("MUJOCO_GL") == chosen


def test_a_users_choice_is_kept(works, monkeypatch):
    works("egl")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(InvalidEnvironment, match="MUJOCO_GL=osmesa"):
        mujoco_rendering.require_gl("control/fish")
    assert os.environ["MUJOCO_GL"] == "osmesa"


def test_what_needs_no_mujoco_needs_no_opengl(works):
    works()
    env = envs.make("atari/Pong", 1, 0, render=True)
    env.reset()
    assert env.render().std() > 0


@pytest.mark.process
def test_a_backend_that_does_not_exist_does_not_work():
    assert not mujoco_rendering._works("no_such_thing")


def run(code, *arguments, cwd=None, **settings):
    names = ("MUJOCO_GL", "PYOPENGL_PLATFORM")
    environment = {name: value for name, value in os.environ.items() if name not in names} | settings
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


DRAWN_BY_MUJOCO = ["control/cheetah", "dm_control/cheetah-run-v0", "HalfCheetah-v5"]

_TRAIN_THEN_DRAW = """
import sys
from acer_tf import envs
env = envs.make(sys.argv[1], 1, 0)
env.reset()
env = envs.make(sys.argv[1], 1, 0, render=True)
env.reset()
assert env.render().std() > 5
"""


@pytest.mark.process
@pytest.mark.parametrize("env_id", DRAWN_BY_MUJOCO)
def test_drawing_after_mujoco_was_imported_without_a_choice(env_id, gl):
    """As for an evaluation with a video after training: the order of imports must not matter."""
    run(_TRAIN_THEN_DRAW, env_id)


_DRAW_QUIETLY = """
import os, sys, warnings
from acer_tf import envs
with warnings.catch_warnings(record=True) as said:
    env = envs.make("HalfCheetah-v5", 1, 0, render=True)
    env.reset()
    env.render()
assert ["MuJoCo: " in str(one.message) for one in said].count(True) == 1
assert not os.listdir()
"""


@pytest.mark.process
def test_warnings_of_mujoco_go_to_standard_error_and_to_no_file(gl, tmp_path):
    done = run(_DRAW_QUIETLY, cwd=tmp_path)
    assert done.stdout == ""


_DRAW_BESIDE_TENSORFLOW = """
import sys
import tensorflow as tf
from acer_tf import envs

@tf.function(jit_compile=True)
def square(x):
    return x @ x

assert square(tf.ones((3, 3)))[0, 0] == 3
for env_id in sys.argv[1:]:
    env = envs.make(env_id, 1, 0, render=True)
    env.reset()
    assert env.render().std() > 5
with open("/proc/self/maps") as libraries:
    assert not [line for line in libraries if "EGL" in line or "OSMesa" in line or "libLLVM" in line]
assert square(tf.ones((4, 4)))[0, 0] == 4
"""


@pytest.mark.process
@pytest.mark.parametrize("chosen_before", [False, True])
def test_drawing_beside_tensorflow(chosen_before, gl):
    """Its LLVM and OpenGL's crash each other in one process."""
    run(_DRAW_BESIDE_TENSORFLOW, *DRAWN_BY_MUJOCO, **({"MUJOCO_GL": os.environ["MUJOCO_GL"]} if chosen_before else {}))


@pytest.mark.process
@pytest.mark.parametrize("env_id", [*DRAWN_BY_MUJOCO, "Pusher-v5"])
def test_pictures_change_as_the_body_moves(env_id, gl):
    env = envs.make(env_id, 2, 0, render=True)
    env.reset()
    before = env.render()
    assert before.dtype == np.uint8 and before.shape[2] == 3 and before.std() > 5
    np.testing.assert_array_equal(env.render(), before)
    for _ in range(10):
        env.step(np.ones((2, env.spec.action_size), np.float32))
    after = env.render()
    assert (after != before).any()
    env.close()
    env.close()


@pytest.mark.process
@pytest.mark.parametrize("env_id", ["control/cheetah", "HalfCheetah-v5"])
def test_one_process_draws_and_ends_with_the_environments(env_id, gl):
    others = set(psutil.Process().children())
    env = envs.make(env_id, 3, 0, render=True)
    env.reset()
    env.render()
    (process,) = set(psutil.Process().children()) - others
    env.close()
    assert not process.is_running()


@pytest.fixture
def ball(gl):
    """A process that renders a falling ball, and its model and data."""
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><light pos="0 -2 2"/><camera name="front" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/>
        <body><freejoint/><geom name="ball" size=".2"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    renderer = RenderProcess(View(data, "front", height=40, width=60))
    yield renderer, model, data
    renderer.close()


@pytest.mark.process
def test_a_picture_shows_the_state_and_the_model_as_they_are(ball):
    renderer, model, data = ball
    middle = renderer.render(data)
    assert middle.shape == (40, 60, 3) and middle[20, 30].min() > 50 and not middle[0].any()
    data.qpos[2] = 0.5
    high = renderer.render(data)
    assert high[8, 30].min() > 50 and not high[25:].any()
    model.geom("ball").rgba[:3] = [1, 0, 0]
    red = renderer.render(data)
    assert red[8, 30, 0] > 2 * red[8, 30, 1] and high[8, 30, 0] < 2 * high[8, 30, 1]
    model.geom("ball").rgba[:3] = 0.5
    np.testing.assert_array_equal(renderer.render(data), high)


@pytest.mark.process
def test_a_free_camera(ball):
    _, _, data = ball
    view = View(data, {"lookat": [0, 0, 0.5], "distance": 2, "elevation": 0}, height=40, width=60)
    renderer = RenderProcess(view)
    picture = renderer.render(data)
    assert picture[32, 30].min() > 50 and not picture[:15].any()
    renderer.close()


@pytest.mark.process
def test_a_process_that_dies(ball):
    renderer, _, data = ball
    renderer.render(data)
    renderer._process.kill()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exit status -9"):
            renderer.render(data)


@pytest.mark.process
def test_what_a_process_that_dies_has_said(ball, monkeypatch):
    _, _, data = ball
    monkeypatch.setenv("MUJOCO_GL", "no_such_thing")
    renderer = RenderProcess(View(data, "front"))
    with pytest.raises(RuntimeError, match="MUJOCO_GL: no_such_thing"):
        renderer.render(data)
    renderer.close()


@pytest.mark.process
def test_an_error_in_drawing(ball):
    renderer, model, data = ball
    renderer.render(data)
    model.vis.quality.shadowsize = -1
    with pytest.raises(RuntimeError, match="died: FatalError: .*hadow"):
        renderer.render(data)


@pytest.mark.process
@pytest.mark.parametrize("drawing", [False, True])
def test_the_process_ends_with_its_object(ball, drawing):
    _, _, data = ball
    closed, dropped = RenderProcess(View(data, "front")), RenderProcess(View(data, "front"))
    processes = [closed._process, dropped._process]
    if drawing:
        closed.render(data)
        dropped.render(data)
    closed.close()
    closed.close()
    assert processes[0].returncode is not None
    del dropped
    gc.collect()
    assert processes[1].returncode is not None


_DRAW_AND_WAIT = """
import sys
from acer_tf import envs
env = envs.make("control/reacher3", 1, 0, render=True)
env.reset()
env.render()
print(env._renderer._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_the_process_ends_with_a_parent_that_is_killed(gl, tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _DRAW_AND_WAIT]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        drawing = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    ends = time.monotonic() + 20
    while drawing.is_running() and drawing.status() != psutil.STATUS_ZOMBIE and time.monotonic() < ends:
        time.sleep(0.05)
    assert not drawing.is_running() or drawing.status() == psutil.STATUS_ZOMBIE  # its new parent reaps it
    assert not list(tmp_path.iterdir())
