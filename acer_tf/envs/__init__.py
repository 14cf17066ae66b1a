"""Vector environments of Atari, MinAtar, MuJoCo tasks and gymnasium ids, with a common TimeStep.

    env = envs.make("atari/Pong", num_envs=16, seed=0)
    step = env.reset()
    while training:
        step = env.step(choose(step))  # in the agent's units: numbers from 0 on, or vectors in [-1, 1]^d

Only this package knows simulators; the rest of acer_tf sees `VectorEnvironment` (vector.py) and `EnvironmentSpec`. Each
family of environments has its module, named as its ids begin: atari.py, minatar.py, control.py, dm_control.py, and
gymnasium.py for all others. Only `make` loads a simulator: settings and commands read these tables.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
class AtariPreset:
    """How an Atari game is preprocessed.

    The defaults are the conventions of Mnih et al. (2015, 2016), whose preprocessing Wang et al. (2017) use.
    """

    frame_skip: int = 4  # frames per step; the action is repeated, the rewards are summed
    max_pool: bool = True  # whether an observation is the maximum of the last two frames
    height: int = 84  # pixels that a frame is resized to (area interpolation)
    width: int = 84
    grayscale: bool = True  # luminance instead of RGB
    stack: int = 4  # observations stacked, oldest first; those before the first of an episode are zero
    max_no_ops: int = 30  # an episode starts with 0 to this many no-op frames (not steps), drawn uniformly
    # The first of these frames, and at least one, presses FIRE if the game's action set has it; not after lost lives.
    fire_at_start: bool = True
    sticky_probability: float = 0.0  # per frame, that the emulator repeats its last action
    full_action_set: bool = False  # all 18 actions instead of the game's minimal set
    life_loss_ends_return: bool = True  # discount 0 where a life is lost; the episode continues
    max_frames: int = 108_000  # the step that reaches them is the last of a truncated episode; its start does not count


# machado2018: Machado et al. (2018), "Revisiting the Arcade Learning Environment". Sticky actions are the only
# randomness, so no random start; the agent must find FIRE; lives are not revealed. Frame skip 4 and the limit of
# 108,000 frames are those of later work under this protocol (DreamerV2; ALE's v5 environments).
ATARI_PRESETS: dict[str, AtariPreset] = {
    "acer2016": AtariPreset(),
    "machado2018": AtariPreset(
        max_no_ops=0, fire_at_start=False, sticky_probability=0.25, full_action_set=True, life_loss_ends_return=False
    ),
}


@dataclasses.dataclass(frozen=True)
class Family:
    """The environments whose ids begin with the family's name and a slash.

    The function `make_<name>` of the module with its name makes N of them, from the rest of the id, N, seeds, and
    options of `make`. Importing the module imports the family's packages.
    """

    names: tuple[str, ...]  # the environments' names, others are refused; () for an open set
    preset: tuple[str, str]  # default preset for discrete and for continuous actions; "" if there are none such
    reward_clip: float = math.inf  # default bound ± on rewards in learning
    atari: bool = False  # whether `--atari_preset` applies
    alike: bool = False  # whether all of them take the same time to step
    threads: bool = False  # whether threads step the copies, so that processes would not help
    pictures_per_second: float = 30.0  # of a video, for environments without a simulated clock
    bytes_each: int = 4_000  # memory that one environment takes, as measured; the least where they differ


FAMILIES: dict[str, Family] = {
    # Rewards are clipped as by Mnih et al. (2015). The console draws 60 frames a second; a step shows one in four.
    "atari": Family(
        ATARI_GAMES,
        ("paper", ""),
        reward_clip=1.0,
        atari=True,
        alike=True,
        threads=True,
        pictures_per_second=15.0,
        bytes_each=1_600_000,
    ),
    "minatar": Family(MINATAR_GAMES, ("minatar", ""), pictures_per_second=10.0, bytes_each=11_000),
    "control": Family(CONTROL_TASKS, ("", "paper_continuous"), threads=True, bytes_each=180_000),
    "dm_control": Family((), ("", "paper_continuous"), bytes_each=12_000_000),
    # Every other id. For gymnasium's MuJoCo tasks, give --preset=paper_continuous.
    "gymnasium": Family((), ("classic", "classic_continuous")),
}


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

    try:
        gymnasium.spec(env_id.rpartition(":")[2])
    except gymnasium.error.DeprecatedEnv as error:  # which names the version that there is
        return InvalidEnvironment(f"there is no environment {env_id!r}: {error}")
    except gymnasium.error.Error:
        pass
    known, comma, _ = env_id.partition(",")
    if comma and split_id(known)[1] in family_of(known).names:
        return InvalidEnvironment(f"there is no environment {env_id!r}: {known} takes no arguments")
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
