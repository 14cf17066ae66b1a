"""The families of environments, and `make`, which makes environments from their ids.

Importing this module loads no simulator, so that settings and commands can read its tables quickly.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acer_tf.envs.atari_presets import ATARI_PRESETS, AtariPreset
from acer_tf.envs.mujoco_rendering import without_gl
from acer_tf.errors import InvalidEnvironment
from acer_tf.types import EnvironmentSpec

if TYPE_CHECKING:
    import gymnasium

    from acer_tf.envs.vector import VectorEnvironment

EnvFactory = Callable[[], "gymnasium.Env"]  # makes one environment

# The usual 57 games, and the ROM of each: "MsPacman" -> "ms_pacman".
_ROMS = """
    alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling boxing breakout
    centipede chopper_command crazy_climber defender demon_attack double_dunk enduro fishing_derby freeway frostbite
    gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman name_this_game
    phoenix pitfall pong private_eye qbert riverraid road_runner robotank seaquest skiing solaris space_invaders
    star_gunner surround tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon
"""
ATARI_ROMS: dict[str, str] = {rom.title().replace("_", ""): rom for rom in _ROMS.split()}
ATARI_GAMES: tuple[str, ...] = tuple(ATARI_ROMS)
MINATAR_GAMES: tuple[str, ...] = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
CONTROL_TASKS: tuple[str, ...] = ("cartpole_swingup", "reacher3", "cheetah", "fish", "walker2d", "humanoid")


@dataclasses.dataclass(frozen=True)
class Family:
    """The environments whose ids begin with the family's name and a slash."""

    # "module:function" that makes N of them from the rest of the id, N, seeds and options of `make`. Importing the
    # module imports the family's packages.
    maker: str
    names: tuple[str, ...]  # of the environments, others are refused; () for an open set
    preset: tuple[str, str]  # default preset for discrete and for continuous actions; "" if there are none such
    reward_clip: float = math.inf  # default bound ± on rewards in learning
    atari: bool = False  # whether `--atari_preset` applies
    alike: bool = False  # whether all of them take the same time to step
    pictures_per_second: float = 30.0  # of a video, for environments without a simulated clock
    needs: str = ""  # optional packages: completes "<id> needs ..." where they are missing


_NEEDS_MUJOCO = "MuJoCo and dm_control, which are not installed ({error}): pip install 'acer_tf[control]'"

FAMILIES: dict[str, Family] = {
    # Rewards are clipped as by Mnih et al. (2015). The console draws 60 frames a second; a step shows one in four.
    "atari": Family(
        "acer_tf.envs.atari:make_atari",
        ATARI_GAMES,
        ("paper", ""),
        reward_clip=1.0,
        atari=True,
        alike=True,
        pictures_per_second=15.0,
    ),
    "minatar": Family(
        "acer_tf.envs.minatar:make_minatar",
        MINATAR_GAMES,
        ("minatar", ""),
        pictures_per_second=10.0,
        needs="MinAtar, which is not installed ({error}): pip install 'acer_tf[minatar]'",
    ),
    "control": Family(
        "acer_tf.envs.control:make_control", CONTROL_TASKS, ("", "paper_continuous"), needs=_NEEDS_MUJOCO
    ),
    "dm_control": Family("acer_tf.envs.dm_control:make_dm_control", (), ("", "paper_continuous"), needs=_NEEDS_MUJOCO),
    # Every other id. For gymnasium's MuJoCo tasks, give --preset=paper_continuous.
    "gymnasium": Family("acer_tf.envs.gymnasium:make_gymnasium", (), ("classic", "classic_continuous")),
}


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
    prefix, name = ("gymnasium", env_id) if factory is not None else split_id(env_id)
    family, options = FAMILIES[prefix], dict[str, Any](threads=threads, render=render)
    if factory is not None:
        options["factory"] = factory
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


def split_id(env_id: str) -> tuple[str, str]:
    """The family's name and the rest of the id: ("atari", "Pong"), or ("gymnasium", env_id). The id need not exist."""
    prefix, slash, name = env_id.partition("/")
    return (prefix, name) if slash and prefix in FAMILIES else ("gymnasium", env_id)


def family_of(env_id: str) -> Family:
    """The family of an environment's id, which need not exist; "gymnasium" for an unknown prefix or none."""
    return FAMILIES[split_id(env_id)[0]]


def unknown(env_id: str) -> InvalidEnvironment:
    """The error for an unknown name; it names the nearest ones."""
    import gymnasium

    module, colon, name = env_id.rpartition(":")
    families = [f"{prefix}/{known}" for prefix, family in FAMILIES.items() for known in family.names]
    ids = [*gymnasium.registry] if module else [*families, *gymnasium.registry]
    # "Pong" should find "atari/Pong", which would not be a close match.
    forms = {known.rpartition("/")[2].lower(): known for known in reversed(ids)}
    forms |= {known.lower(): known for known in ids}
    wanted = (name.lower(), name.rpartition("/")[2].lower())
    matches = [forms[match] for one in wanted for match in difflib.get_close_matches(one, forms)]
    if nearest := list(dict.fromkeys(matches))[: 1 if module else 3]:
        hint = f"did you mean {' or '.join(f'{module}{colon}{match}' for match in nearest)}?"
    elif module:
        hint = f"the module {module} registers none like it"
    else:
        hint = "try atari/Pong, control/cheetah, CartPole-v1, or module:Id-v0 of your own"
    return InvalidEnvironment(f"there is no environment {env_id!r}; {hint}")
