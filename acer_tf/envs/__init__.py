"""Vector environments of Atari, MinAtar, MuJoCo tasks and gymnasium ids, with a common TimeStep.

    env = envs.make("atari/Pong", num_envs=16, seed=0)
    step = env.reset()
    while training:
        step = env.step(choose(step))  # in the agent's units: numbers from 0 on, or vectors in [-1, 1]^d

Only this package knows simulators; the rest of acer_tf sees `VectorEnvironment` (vector.py) and `EnvironmentSpec`. Each
family of environments has its module, named as its ids begin: atari.py, minatar.py, control.py, dm_control.py, and
gymnasium.py for all others. Only `make` loads a simulator: settings and commands read the tables of families.py.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acer_tf.envs.families import ATARI_PRESETS, FAMILIES, AtariPreset, family_of, split_id, unknown
from acer_tf.envs.mujoco_rendering import without_gl
from acer_tf.errors import InvalidEnvironment
from acer_tf.types import EnvironmentSpec

if TYPE_CHECKING:
    import gymnasium

    from acer_tf.envs.vector import VectorEnvironment

UNLIMITED = 2**30  # steps of an episode, or frames, that none reaches
# Makes one environment, or a gymnasium.vector.VectorEnv: see `make`.
EnvFactory = Callable[..., "gymnasium.Env | gymnasium.vector.VectorEnv"]


def name_of(factory: EnvFactory | None) -> str | None:
    """ "module.function", for records."""
    if factory is None:
        return None
    while isinstance(factory, functools.partial):
        factory = factory.func
    named = factory if hasattr(factory, "__qualname__") else type(factory)
    return f"{named.__module__}.{named.__qualname__}"


def make(
    env_id: str,
    num_envs: int,
    seed: int | Sequence[int],
    *,
    first: int = 0,
    atari_preset: str | AtariPreset = "acer2016",
    threads: int = 1,
    workers: int = 1,
    render: bool = False,
    max_episode_steps: int = UNLIMITED,
    action_masks: bool = True,
    factory: EnvFactory | None = None,
) -> VectorEnvironment:
    """A vector of N environments. Call `reset()` first and `close()` last.

    Args:
        env_id: "atari/<Game>" (one of `ATARI_GAMES`), "minatar/<game>" (one of `MINATAR_GAMES`), "control/<task>" (one
            of `CONTROL_TASKS`: those of the paper), "dm_control/<domain>-<task>-v0" (DeepMind Control Suite), or a
            gymnasium id ("CartPole-v1", with arguments "FrozenLake-v1,is_slippery=false") with spaces that
            `envs.spaces.spec_of` accepts.
        num_envs: N.
        seed: one or more non-negative numbers; every environment's seed derives from all of them. A run that resumes
            after n steps passes them with the seed, and so gets new episodes.
        first: gives the N the seeds that those from `first` on have in a vector of more.
        atari_preset: a name of `ATARI_PRESETS`, or another preset. Other families ignore it.
        threads: how many "atari" and "control" use; other families use one. Results do not depend on it.
        workers: 1 to step all in this process; more for so many processes, a divisor of N, which give the same. Those
            that are rendered, and families with threads, have none. Processes end with the thread that calls this.
        render: makes `VectorEnvironment.render` work; see `require_gl` for MuJoCo.
        max_episode_steps: episodes are truncated after so many steps of the agent, or earlier by limits of their own.
        action_masks: whether the action masks that a gymnasium environment gives are used, see `masks.reader_of`.
        factory: makes one gymnasium environment of the caller's; `env_id` is then only its name. Or it makes a vector
            environment of the caller's, in a reset mode of NEXT_STEP or SAME_STEP: of N environments if it has a
            parameter `num_envs`, else of any number, which is then that of the result. If it also has a parameter
            `seed`, that alone seeds them.

    Raises:
        InvalidEnvironment: an unknown id, game or preset, a package that is not installed, an unsupported action or
            observation space, rendering that does not work, or num_envs < 1. Nothing has been started then.
        EnvironmentFailure: the environment raised.
        ValueError: a negative seed.
    """
    if num_envs < 1:
        raise InvalidEnvironment(f"num_envs must be at least 1, got {num_envs}")
    # SeedSequence gives nearby seeds unrelated words, so that no two runs share an environment; ALE takes 31 bits.
    seeds = [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(first + num_envs)[first:]]
    prefix, name = ("gymnasium", env_id) if factory is not None else split_id(env_id)
    family = FAMILIES[prefix]
    options: dict[str, Any] = {"render": render, "max_episode_steps": max_episode_steps}
    if family.threads:
        options["threads"] = threads
    if factory is not None:
        if not callable(factory):
            raise InvalidEnvironment(
                f"{env_id}: env must be a function that makes one environment, such as env=lambda: "
                "gymnasium.make('CartPole-v1'), or a vector environment, such as env=lambda num_envs: "
                f"gymnasium.make_vec('CartPole-v1', num_envs), and is of type {type(factory).__name__}"
            )
        options["factory"] = factory
    if prefix == "gymnasium":
        options["action_masks"] = action_masks
    if workers > 1:
        require_workers(env_id, num_envs, workers, factory)
        options["workers"] = workers
    if family.atari:
        if isinstance(atari_preset, str):
            if atari_preset not in ATARI_PRESETS:
                raise InvalidEnvironment(f"there is no Atari preset {atari_preset!r}: {', '.join(ATARI_PRESETS)}")
            atari_preset = ATARI_PRESETS[atari_preset]
        options["preset"] = atari_preset
    if family.names and name not in family.names:
        raise unknown(env_id)
    from acer_tf.envs.vector import blamed

    with blamed(env_id, "when it was made", trial=True):
        with without_gl():
            make_family = getattr(importlib.import_module(f"acer_tf.envs.{prefix}"), f"make_{prefix}")
        return make_family(name, num_envs, seeds, **options)


def spec(
    env_id: str,
    *,
    atari_preset: str | AtariPreset = "acer2016",
    action_masks: bool = True,
    max_episode_steps: int = UNLIMITED,
    factory: EnvFactory | None = None,
) -> EnvironmentSpec:
    """The spec of `env_id`, from one environment that is made and closed; arguments as in `make`."""
    options: dict[str, Any] = {"atari_preset": atari_preset, "action_masks": action_masks, "factory": factory}
    env = make(env_id, 1, 0, max_episode_steps=max_episode_steps, **options)
    env.close()
    return env.spec


def require_workers(env_id: str, num_envs: int, workers: int, factory: EnvFactory | None = None) -> None:
    """Raises InvalidEnvironment unless `workers` processes can share N environments."""
    if factory is None and family_of(env_id).threads:
        raise InvalidEnvironment(f"--env_workers={workers}: {env_id} is stepped by threads of one process")
    if num_envs % workers:
        raise InvalidEnvironment(f"--env_workers={workers}: must divide --num_envs={num_envs}")
