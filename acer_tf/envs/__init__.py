"""Vector environments of Atari, MinAtar, MuJoCo tasks and gymnasium ids, with a common TimeStep.

    env = envs.make("atari/Pong", num_envs=16, seed=0)
    step = env.reset()
    while training:
        step = env.step(policy(step.observation))

Only this package knows gymnasium, ALE, MinAtar and MuJoCo; the rest of acer_tf sees `VectorEnvironment` (vector.py) and
`EnvironmentSpec`. Each family has its module, named as its ids begin: atari.py, minatar.py, control.py, dm_control.py,
and gymnasium.py for all others.
"""

from acer_tf.envs.atari_presets import ATARI_PRESETS, AtariPreset
from acer_tf.envs.families import (
    ATARI_GAMES,
    CONTROL_TASKS,
    FAMILIES,
    MINATAR_GAMES,
    EnvFactory,
    Family,
    family_of,
    make,
    refuse_module,
    spec,
    split_id,
)

__all__ = [
    "ATARI_GAMES",
    "ATARI_PRESETS",
    "CONTROL_TASKS",
    "FAMILIES",
    "MINATAR_GAMES",
    "AtariPreset",
    "EnvFactory",
    "Family",
    "family_of",
    "make",
    "refuse_module",
    "spec",
    "split_id",
]
