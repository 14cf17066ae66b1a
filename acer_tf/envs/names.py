"""The environment names that this package answers to, and the one exception for those that it cannot."""

from __future__ import annotations

import difflib

import gymnasium

# The 57 games that the field reports, and the ROM of each: "MsPacman" -> "ms_pacman".
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
_FAMILIES = ("atari", "minatar", "control", "dm_control")


class InvalidEnvironment(ValueError):
    """An environment that was asked for does not exist, is not installed, or does not suit the agent."""


def env_family(env_id: str) -> str:
    """The prefix "atari", "minatar", "control" or "dm_control" of an id, "gymnasium" without one.

    Does not check that the id exists.
    """
    prefix, slash, _ = env_id.partition("/")
    return prefix if slash and prefix in _FAMILIES else "gymnasium"


def missing_control(env_id: str, error: ImportError) -> InvalidEnvironment:
    """The error for an id that needs a package of the "control" extra."""
    return InvalidEnvironment(
        f"{env_id} needs MuJoCo and dm_control, which are not installed ({error}): pip install acer_tf[control]"
    )


def unknown(env_id: str) -> InvalidEnvironment:
    """The error for a name that nothing answers to; it names the nearest ones."""
    ids = [f"atari/{game}" for game in ATARI_GAMES] + [f"minatar/{game}" for game in MINATAR_GAMES]
    ids += [f"control/{task}" for task in CONTROL_TASKS]
    ids += gymnasium.registry
    # "Pong" should find "atari/Pong", which as a whole is not near enough.
    forms = {known.rpartition("/")[2].lower(): known for known in reversed(ids)}
    forms |= {known.lower(): known for known in ids}
    wanted = (env_id.lower(), env_id.rpartition("/")[2].lower())
    matches = [match for name in wanted for match in difflib.get_close_matches(name, forms)]
    nearest = list(dict.fromkeys(forms[match] for match in matches))[:3]
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "try atari/Pong, control/cheetah, CartPole-v1"
    return InvalidEnvironment(f"there is no environment {env_id!r}; {hint}")
