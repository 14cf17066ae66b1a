"""The program that renders MuJoCo: `mujoco_rendering.RenderProcess` starts it and communicates through a socket.

    python -P mujoco_render_process.py '[SOCKET, HEIGHT, WIDTH, CAMERA]'

SOCKET is an inherited file descriptor; for CAMERA see `View`. For each picture the program receives a model in MuJoCo's
binary format (empty for the previous one) and its state (mjSTATE_INTEGRATION, float64), and sends HEIGHT x WIDTH x 3
bytes. If that fails it sends a message of another length, which says why, and ends.
"""

import contextlib
import json
import sys
from multiprocessing.connection import Connection
from typing import Any


def serve(connection: Connection, height: int, width: int, camera: Any) -> None:
    """Renders until the other side closes the connection, which raises EOFError."""
    import mujoco  # not above: this import loads OpenGL
    import numpy as np

    # Otherwise MuJoCo would write MUJOCO_LOG.TXT into the working directory. The other process has given the warning.
    mujoco.set_mju_user_warning(lambda text: None)
    if isinstance(camera, dict):
        values, camera = camera, mujoco.MjvCamera()
        for name, value in values.items():
            setattr(camera, name, value)
    with contextlib.ExitStack() as opened:
        while True:
            new_model, state = connection.recv_bytes(), connection.recv_bytes()
            if new_model:
                opened.close()
                model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": new_model})
                data, renderer = mujoco.MjData(model), opened.enter_context(mujoco.Renderer(model, height, width))
            mujoco.mj_setState(model, data, np.frombuffer(state), mujoco.mjtState.mjSTATE_INTEGRATION.value)
            mujoco.mj_fwdPosition(model, data)
            renderer.update_scene(data, camera)
            connection.send_bytes(renderer.render().tobytes())


if __name__ == "__main__":
    descriptor, *of_pictures = json.loads(sys.argv[1])
    with Connection(descriptor) as connection:
        try:
            serve(connection, *of_pictures)
        except EOFError:
            pass
        except Exception as error:
            connection.send_bytes(f"{type(error).__name__}: {error}".encode())
