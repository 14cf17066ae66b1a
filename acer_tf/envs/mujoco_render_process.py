"""The program that renders MuJoCo: `mujoco_rendering.RenderProcess` starts it and communicates through a socket.

    python -P mujoco_render_process.py SOCKET HEIGHT WIDTH CAMERA

SOCKET is an inherited file descriptor, CAMERA is JSON: attributes of an `MjvCamera`. For each picture the program
receives a model in MuJoCo's binary format (empty for the previous one) and its state (mjSTATE_INTEGRATION, float64),
and sends HEIGHT x WIDTH x 3 bytes. If that fails it sends a message of another length, which says why, and ends.
"""

from __future__ import annotations

import json
import sys
from multiprocessing.connection import Connection


def serve(connection: Connection, height: int, width: int, view: dict[str, object]) -> None:
    """Renders until the other side closes the connection, which raises EOFError."""
    import mujoco  # not above: this import loads OpenGL
    import numpy as np

    # Otherwise MuJoCo would write MUJOCO_LOG.TXT into the working directory. The other process has given the warning.
    mujoco.set_mju_user_warning(lambda text: None)
    camera = mujoco.MjvCamera()
    for name, value in view.items():
        setattr(camera, name, value)
    area, options = mujoco.MjrRect(0, 0, width, height), mujoco.MjvOption()
    picture = np.empty((height, width, 3), np.uint8)
    gl = mujoco.GLContext(width, height)
    gl.make_current()
    while True:
        new_model, state = connection.recv_bytes(), connection.recv_bytes()
        if new_model:
            model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": new_model})
            data, scene = mujoco.MjData(model), mujoco.MjvScene(model, maxgeom=1000)
            context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        mujoco.mj_setState(model, data, np.frombuffer(state), mujoco.mjtState.mjSTATE_INTEGRATION.value)
        mujoco.mj_fwdPosition(model, data)
        mujoco.mjv_updateScene(model, data, options, None, camera, mujoco.mjtCatBit.mjCAT_ALL.value, scene)
        mujoco.mjr_render(area, scene, context)
        mujoco.mjr_readPixels(picture, None, area, context)
        connection.send_bytes(picture[::-1].tobytes())  # OpenGL's first row is the lowest


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as connection:
        try:
            serve(connection, int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
        except EOFError:
            pass
        except Exception as error:
            connection.send_bytes(f"{type(error).__name__}: {error}".encode())
