"""The environments there are, by family, and the preprocessing of Atari games: tables that load no simulator."""

import dataclasses
import difflib
import math

from acer_tf.errors import InvalidEnvironment

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
