"""Environments: Atari, MinAtar, MuJoCo tasks and gymnasium ids, N at a time, all answering one TimeStep shape.

    env = envs.make("atari/Pong", num_envs=16, seed=0)
    step = env.reset()
    while training:
        step = env.step(policy(step.observation))

Only this package knows gymnasium, ALE, MinAtar and MuJoCo; the rest of acer_tf sees `VectorEnvironment` and
`EnvironmentSpec`.
"""

from acer_tf.envs.atari import ATARI_PRESETS, AtariPreset
from acer_tf.envs.catalogue import make, require_actions, spec
from acer_tf.envs.names import ATARI_GAMES, CONTROL_TASKS, MINATAR_GAMES, InvalidEnvironment, env_family
from acer_tf.envs.vector import VectorEnvironment

__all__ = [
    "ATARI_GAMES",
    "ATARI_PRESETS",
    "CONTROL_TASKS",
    "MINATAR_GAMES",
    "AtariPreset",
    "InvalidEnvironment",
    "VectorEnvironment",
    "env_family",
    "make",
    "require_actions",
    "spec",
]
