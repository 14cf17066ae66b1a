"""Vector environments of Atari, MinAtar, MuJoCo tasks and gymnasium ids, with a common TimeStep.

    env = envs.make("atari/Pong", num_envs=16, seed=0)
    step = env.reset()
    while training:
        step = env.step(policy(step.observation))

Only this package knows gymnasium, ALE, MinAtar and MuJoCo; the rest of acer_tf sees `VectorEnvironment` and
`EnvironmentSpec`.
"""

from typing import TYPE_CHECKING, Any

from acer_tf.envs.atari_presets import ATARI_PRESETS, AtariPreset
from acer_tf.envs.families import (
    ATARI_GAMES,
    CONTROL_TASKS,
    FAMILIES,
    MINATAR_GAMES,
    Family,
    family_of,
    refuse_module,
    split_id,
)
from acer_tf.envs.making import EnvFactory, make, spec

if TYPE_CHECKING:
    from acer_tf.envs.vector import VectorEnvironment

__all__ = [
    "ATARI_GAMES",
    "ATARI_PRESETS",
    "CONTROL_TASKS",
    "FAMILIES",
    "MINATAR_GAMES",
    "AtariPreset",
    "EnvFactory",
    "Family",
    "VectorEnvironment",
    "family_of",
    "make",
    "refuse_module",
    "spec",
    "split_id",
]


def __getattr__(name: str) -> Any:
    # Imported on demand: the tables of this package must be readable without loading gymnasium.
    if name == "VectorEnvironment":
        from acer_tf.envs.vector import VectorEnvironment

        return VectorEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
