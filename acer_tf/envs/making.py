"""Makes environments from their ids."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acer_tf.envs.atari_presets import ATARI_PRESETS, AtariPreset
from acer_tf.envs.families import FAMILIES, split_id, unknown
from acer_tf.envs.headless import without_gl
from acer_tf.errors import InvalidEnvironment
from acer_tf.types import EnvironmentSpec

if TYPE_CHECKING:
    import gymnasium

    from acer_tf.envs.vector import VectorEnvironment

EnvFactory = Callable[[], "gymnasium.Env"]  # makes one environment


def make(
    env_id: str,
    num_envs: int,
    seed: int | Sequence[int],
    *,
    atari_preset: str | AtariPreset = "acer2016",
    threads: int = 0,
    render: bool = False,
    factory: EnvFactory | None = None,
) -> VectorEnvironment:
    """A vector of N environments. Call `reset()` first and `close()` last.

    Args:
        env_id: "atari/<Game>" (one of `ATARI_GAMES`), "minatar/<game>" (one of `MINATAR_GAMES`), "control/<task>" (one
            of `CONTROL_TASKS`: those of the paper), "dm_control/<domain>-<task>-v0" (DeepMind Control Suite), or a
            gymnasium id with a Discrete or bounded Box action space and a Box observation space ("CartPole-v1").
        num_envs: N.
        seed: one or more non-negative numbers; every environment's seed derives from all of them. A run that resumes
            after n steps passes them with the seed, and so gets new episodes.
        atari_preset: a name of `ATARI_PRESETS`, or another preset. Other families ignore it.
        threads: worker threads of "atari" and "control"; 0 for one per core. Results do not depend on it. Other
            families use one.
        render: makes `VectorEnvironment.render` work. On Atari this adds one emulator. MuJoCo renders offscreen in a
            separate process, through EGL or OSMesa, and sets MUJOCO_GL if it is unset.
        factory: makes one gymnasium environment of the caller's; `env_id` is then only its name.

    Raises:
        InvalidEnvironment: an unknown id, game or preset, a package that is not installed, an unsupported action or
            observation space, rendering that does not work, or num_envs < 1. Nothing has been started then.
        EnvironmentFailure: the environment raised.
        ValueError: a negative seed.
    """
    if num_envs < 1:
        raise InvalidEnvironment(f"num_envs must be at least 1, got {num_envs}")
    # SeedSequence gives nearby seeds unrelated words, so that no two runs share an environment; ALE takes 31 bits.
    seeds = [int(word >> 1) for word in np.random.SeedSequence(seed).generate_state(num_envs)]
    if factory is not None:
        from acer_tf.envs.generic import make_gym

        return make_gym(env_id, num_envs, seeds, render=render, factory=factory)
    prefix, name = split_id(env_id)
    family = FAMILIES[prefix]
    options: dict[str, Any] = {"threads": threads, "render": render}
    if family.atari:
        if isinstance(atari_preset, str):
            if atari_preset not in ATARI_PRESETS:
                raise InvalidEnvironment(f"there is no Atari preset {atari_preset!r}: {', '.join(ATARI_PRESETS)}")
            atari_preset = ATARI_PRESETS[atari_preset]
        options["preset"] = atari_preset
    if family.names and name not in family.names:
        raise unknown(env_id)
    module, _, maker = family.maker.partition(":")
    try:
        with without_gl():
            make_family = getattr(importlib.import_module(module), maker)
    except ImportError as error:
        if not family.needs:
            raise
        raise InvalidEnvironment(f"{env_id} needs {family.needs.format(error=error)}") from error
    return make_family(name, num_envs, seeds, **options)


def spec(
    env_id: str, *, atari_preset: str | AtariPreset = "acer2016", factory: EnvFactory | None = None
) -> EnvironmentSpec:
    """The spec of `env_id`, from one environment that is made and closed; arguments as in `make`."""
    env = make(env_id, 1, 0, atari_preset=atari_preset, factory=factory)
    env.close()
    return env.spec
