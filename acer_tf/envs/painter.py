"""The program that renders MuJoCo: `headless.Screen` starts it and communicates through pipes.

    python -P painter.py HEIGHT WIDTH CAMERA

CAMERA is JSON: attributes of an `MjvCamera`. For each picture the program reads a `HEADER` (the byte lengths of the
following two), a model in MuJoCo's binary format (empty for the previous one) and its state (mjSTATE_INTEGRATION,
float64), and writes HEIGHT x WIDTH x 3 bytes. It exits at the end of standard input.
"""

from __future__ import annotations

import json
import os
import struct
import sys

HEADER = struct.Struct("<QQ")


def main() -> None:
    # What MuJoCo and OpenGL drivers print must not mix with the pictures.
    pictures = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import mujoco  # not above: `headless` needs only HEADER, and this import loads OpenGL
    import numpy as np

    # Otherwise MuJoCo would also write MUJOCO_LOG.TXT into the working directory.
    mujoco.set_mju_user_warning(lambda text: print(text, file=sys.stderr))
    height, width = int(sys.argv[1]), int(sys.argv[2])
    camera = mujoco.MjvCamera()
    for name, value in json.loads(sys.argv[3]).items():
        setattr(camera, name, value)
    area, options = mujoco.MjrRect(0, 0, width, height), mujoco.MjvOption()
    picture = np.empty((height, width, 3), np.uint8)
    gl = mujoco.GLContext(width, height)
    gl.make_current()
    context = None
    try:
        while len(header := sys.stdin.buffer.read(HEADER.size)) == HEADER.size:
            model_size, state_size = HEADER.unpack(header)
            if model_size:
                if context is not None:
                    context.free()
                model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": sys.stdin.buffer.read(model_size)})
                data, scene = mujoco.MjData(model), mujoco.MjvScene(model, maxgeom=1000)
                context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
                mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
            state = np.frombuffer(sys.stdin.buffer.read(state_size))
            mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION.value)
            mujoco.mj_fwdPosition(model, data)
            everything = mujoco.mjtCatBit.mjCAT_ALL.value
            mujoco.mjv_updateScene(model, data, options, None, camera, everything, scene)
            mujoco.mjr_render(area, scene, context)
            mujoco.mjr_readPixels(picture, None, area, context)
            pictures.write(picture[::-1].tobytes())  # OpenGL's first row is the lowest
            pictures.flush()
    finally:
        # Freed here, because at interpreter exit they would print after the error line, which should be the last.
        if context is not None:
            context.free()
        gl.free()


if __name__ == "__main__":
    main()
