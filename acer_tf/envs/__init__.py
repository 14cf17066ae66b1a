"""Vector environments of Atari, MinAtar, MuJoCo tasks and gymnasium ids, with a common TimeStep.

    env = envs.make("atari/Pong", num_envs=16, seed=0)
    step = env.reset()
    while training:
        step = env.step(policy(step.observation))

Only this package knows gymnasium, ALE, MinAtar and MuJoCo; the rest of acer_tf sees `VectorEnvironment` (vector.py) and
`EnvironmentSpec`. Each family has its module, named as its ids begin: atari.py, minatar.py, control.py, dm_control.py,
and gymnasium.py for all others.
"""

from acer_tf.envs.atari_presets import ATARI_PRESETS as ATARI_PRESETS
from acer_tf.envs.atari_presets import AtariPreset as AtariPreset
from acer_tf.envs.families import ATARI_GAMES as ATARI_GAMES
from acer_tf.envs.families import CONTROL_TASKS as CONTROL_TASKS
from acer_tf.envs.families import FAMILIES as FAMILIES
from acer_tf.envs.families import MINATAR_GAMES as MINATAR_GAMES
from acer_tf.envs.families import EnvFactory as EnvFactory
from acer_tf.envs.families import Family as Family
from acer_tf.envs.families import family_of as family_of
from acer_tf.envs.families import make as make
from acer_tf.envs.families import spec as spec
from acer_tf.envs.families import split_id as split_id
