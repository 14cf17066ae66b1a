"""The usual sets of Atari games, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from acer_tf.envs.families import ATARI_GAMES
from acer_tf.reproduction.atari5 import WEIGHTS
from acer_tf.reproduction.data_files import suggestion


def _without(games: str) -> tuple[str, ...]:
    return tuple(game for game in ATARI_GAMES if game not in games.split())


# There are two sets of 49, which share 48 games: the DQN paper's has Hero, the PPO paper's has Pitfall.
_IN_NEITHER = "Berzerk Defender Phoenix Skiing Solaris Surround YarsRevenge"

GAME_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "atari57": ATARI_GAMES,
        "atari49": _without(f"{_IN_NEITHER} Hero"),  # Schulman et al. 2017 (PPO), Table 6
        "atari49_dqn": _without(f"{_IN_NEITHER} Pitfall"),  # Mnih et al. 2015 (DQN); Nair et al. 2015 (Gorila)
        # OpenAI baselines' benchmark
        "openai7": ("BeamRider", "Breakout", "Enduro", "Pong", "Qbert", "Seaquest", "SpaceInvaders"),
        "atari5": tuple(WEIGHTS),  # Aitchison et al. 2022: the five whose scores best predict the median over 57
    }
)


def atari_games(names: Iterable[str]) -> tuple[str, ...]:
    """The games that `names` list, each once, in the order of first mention.

    Args:
        names: games ("MsPacman" or "atari/MsPacman") and sets ("atari5"), in any mixture.

    Raises:
        ValueError: a name is neither a game nor a set.
    """
    found: dict[str, None] = {}
    for name in names:
        game = name.removeprefix("atari/")
        if name not in GAME_SETS and game not in ATARI_GAMES:
            known = (*GAME_SETS, *ATARI_GAMES)
            hint = suggestion(game, known) or f"; sets are {', '.join(GAME_SETS)}"
            raise ValueError(f"there is no Atari game or set of games {name!r}{hint}")
        found |= dict.fromkeys(GAME_SETS.get(name, (game,)))
    return tuple(found)
