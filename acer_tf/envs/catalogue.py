"""From an environment id to environments: the one place that knows which family answers which id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acer_tf.envs.atari import AtariPreset, make_atari
from acer_tf.envs.control import make_control
from acer_tf.envs.dm_control import make_dm_control
from acer_tf.envs.generic import make_gym
from acer_tf.envs.minatar import make_minatar
from acer_tf.envs.names import InvalidEnvironment, env_family
from acer_tf.envs.vector import VectorEnvironment
from acer_tf.types import EnvironmentSpec


def make(
    env_id: str,
    num_envs: int,
    seed: int | Sequence[int],
    *,
    atari_preset: str | AtariPreset = "acer2016",
    threads: int = 0,
    render: bool = False,
) -> VectorEnvironment:
    """N environments with one TimeStep shape. The caller calls `reset()` first and `close()` last.

    Args:
        env_id: "atari/<Game>" (one of `ATARI_GAMES`), "minatar/<game>" (one of `MINATAR_GAMES`), "control/<task>" (one
            of `CONTROL_TASKS`: those of the paper), "dm_control/<domain>-<task>-v0" (DeepMind Control Suite), or a
            gymnasium id with a Discrete or bounded Box action space and a Box observation space ("CartPole-v1").
        num_envs: N.
        seed: one or more non-negative numbers; every environment's own seed derives from all of them. A run that
            resumes after n steps passes (seed, n), and so sees new games.
        atari_preset: a name of `ATARI_PRESETS`, or a preset of one's own. Other families ignore it.
        threads: worker threads of "atari" and "control"; 0 for one per core. Results do not depend on it. Other
            families use one.
        render: makes `VectorEnvironment.render` work. On Atari this doubles the emulator's work. MuJoCo draws in a
            process of its own, through EGL or OSMesa, without a screen; the environment variable MUJOCO_GL is set where
            it is unset.

    Raises:
        InvalidEnvironment: an unknown id, game or preset, a package that is not installed, an action or observation
            space that does not suit, pictures that cannot be drawn, or num_envs < 1. Nothing has been started then.
        ValueError: a negative seed.
    """
    if num_envs < 1:
        raise InvalidEnvironment(f"num_envs must be at least 1, got {num_envs}")
    # Nearby seeds give unrelated words, so no two runs share an environment; ALE takes 31 bits.
    seeds = [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(num_envs)]
    name = env_id.partition("/")[2]
    family = env_family(env_id)
    if family == "atari":
        return make_atari(name, num_envs, seeds, preset=atari_preset, threads=threads, render=render)
    if family == "minatar":
        return make_minatar(name, num_envs, seeds, render=render)
    if family == "control":
        return make_control(name, num_envs, seeds, threads=threads, render=render)
    if family == "dm_control":
        return make_dm_control(name, num_envs, seeds, render=render)
    return make_gym(env_id, num_envs, seeds, render=render)


def spec(env_id: str, *, atari_preset: str | AtariPreset = "acer2016") -> EnvironmentSpec:
    """What an agent must know to act in `env_id`, from one environment made and closed; raises as `make` does."""
    env = make(env_id, 1, 0, atari_preset=atari_preset)
    env.close()
    return env.spec


def require_actions(spec: EnvironmentSpec, env_id: str, *, continuous: bool) -> None:
    """Refuses an environment whose actions are not of the agent's kind.

    Args:
        spec: of `env_id`.
        continuous: whether the agent's actions are vectors; else they are discrete.

    Raises:
        InvalidEnvironment: naming the values of --agent that fit.
    """
    if spec.continuous and not continuous:
        raise InvalidEnvironment(
            f"{env_id} has a continuous action space ([-1, 1]^{spec.action_size}), and the agent chooses among "
            "discrete actions; it takes --agent=acer_continuous, a3c, trust_a3c, tis or trust_tis"
        )
    if continuous and not spec.continuous:
        raise InvalidEnvironment(
            f"{env_id} has a discrete action space ({spec.num_actions} actions), and the agent acts with real numbers; "
            "it takes --agent=acer, a3c, trust_a3c or dqn"
        )
