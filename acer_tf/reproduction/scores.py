"""Atari scores: games and sets of them, normalisation by random and human play, published scores, and Atari-5.

The data files' first lines give sources and protocols.
"""

import difflib
import functools
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from acer_tf.envs.families import ATARI_GAMES
from acer_tf.reproduction.published import read_table

# Atari-5 (Aitchison et al. 2022): the five games whose scores best predict the median over 57, by the authors' fit
# without intercept (github.com/maitchison/Atari-5 at 118cad54, MIT).
WEIGHTS = MappingProxyType(
    {
        "BattleZone": 0.3819751237831753,
        "DoubleDunk": 0.0679099488887574,
        "NameThisGame": 0.310804148620847,
        "Phoenix": 0.12412619402774641,
        "Qbert": 0.08048518286466755,
    }
)
# The true median's 95 % range as a multiple of the estimate, when the method that is estimated is left out of the fit.
INTERVAL = (0.79, 1.33)
# Medians of the methods that the fit has seen; outside of it the estimate is an extrapolation.
FITTED = (0.53, 20.41)

# There are two sets of 49, which share 48 games: the DQN paper's has Hero, the PPO paper's has Pitfall.
_IN_NEITHER = {"Berzerk", "Defender", "Phoenix", "Skiing", "Solaris", "Surround", "YarsRevenge"}
GAME_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "atari57": ATARI_GAMES,
        # Schulman et al. 2017 (PPO), Table 6
        "atari49": tuple(game for game in ATARI_GAMES if game not in _IN_NEITHER | {"Hero"}),
        # Mnih et al. 2015 (DQN); Nair et al. 2015 (Gorila)
        "atari49_dqn": tuple(game for game in ATARI_GAMES if game not in _IN_NEITHER | {"Pitfall"}),
        # OpenAI baselines' benchmark
        "openai7": ("BeamRider", "Breakout", "Enduro", "Pong", "Qbert", "Seaquest", "SpaceInvaders"),
        "atari5": tuple(WEIGHTS),
    }
)

# How a score was measured. No-op starts: an evaluation apart from training, in which games begin with up to 30 no-ops.
# Human starts: an evaluation in which games begin at a point that a human reached. Training: returns while it learns.
Protocol = Literal["no-op starts", "human starts", "training"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
_REFERENCES: dict[Protocol, str] = {
    "no-op starts": "atari57_random_human.csv",
    "human starts": "atari57_random_human_human_starts.csv",
    "training": "atari57_random_human.csv",  # has no own references
}
_SCORES = ("atari57_final_scores.csv", "prioritized_paper_table7.csv", "ppo_paper_table6.csv")


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
            hint = _suggestion(game, (*GAME_SETS, *ATARI_GAMES)) or f"; sets are {', '.join(GAME_SETS)}"
            raise ValueError(f"there is no Atari game or set of games {name!r}{hint}")
        found |= dict.fromkeys(GAME_SETS.get(name, (game,)))
    return tuple(found)


class AtariReference(NamedTuple):
    """The mean scores of random play and of a human in whole games (see the data files)."""

    random: float
    human: float


@functools.cache
def atari_references(protocol: Protocol = "no-op starts") -> Mapping[str, AtariReference]:
    """The references of the 57 games ("MsPacman"). Raises ValueError for an unknown protocol.

    >>> acer_tf.atari_references()["Pong"].human
    14.6
    """
    _require_protocol(protocol)
    rows = read_table(_REFERENCES[protocol]).set_index("game")[["random", "human"]]
    return MappingProxyType(dict(zip(rows.index, map(AtariReference._make, rows.to_numpy().tolist()), strict=True)))


def human_normalized(game: str, score: float, *, protocol: Protocol = "no-op starts") -> float:
    """(score − random) / |human − random|: 0 is random play, 1 the human tester.

    >>> round(acer_tf.human_normalized("Pong", 15.5, protocol="training"), 2)
    1.03

    The absolute value is Schaul et al.'s (2016, Equation 4). It matters in one game, VideoPinball from human starts,
    where the human scored less than random.

    Args:
        game: "MsPacman", or the environment's id "atari/MsPacman".
        score: a raw score of whole games.
        protocol: the one by which `score` was measured; it also chooses the references.

    Raises:
        ValueError: not one of the 57 games, or an unknown protocol.
    """
    references = atari_references(protocol)
    name = game.removeprefix("atari/")
    if name not in references:
        raise ValueError(f"there are no reference scores of {game!r}{_suggestion(name, references)}")
    random, human = references[name]
    return (score - random) / abs(human - random)


class PublishedScores(NamedTuple):
    """One agent's scores by one protocol."""

    agent: str
    protocol: Protocol
    frames: int | None  # emulator frames of training, 4 per agent step; None if the source does not say
    scores: Mapping[str, float]  # raw, by game ("MsPacman"); games that the source leaves out are absent

    def human_normalized(self, games: Iterable[str] | None = None) -> dict[str, float]:
        """The scores normalised by this protocol's references: of `games`, or of all published ones.

        Raises:
            ValueError: one of `games` has no published score.
        """
        found = {}
        for game in self.scores if games is None else games:
            if game not in self.scores:
                what = f"{self.agent} ({self.protocol}) has no published score of {game!r}"
                raise ValueError(what + _suggestion(game, self.scores))
            found[game] = human_normalized(game, self.scores[game], protocol=self.protocol)
        return found

    def median(self, games: Iterable[str] | None = None) -> float:
        """The median of `human_normalized(games)`; raises what that raises."""
        return statistics.median(self.human_normalized(games).values())

    def mean(self, games: Iterable[str] | None = None) -> float:
        """The mean of `human_normalized(games)`; raises what that raises."""
        return statistics.fmean(self.human_normalized(games).values())


def published_agents(protocol: Protocol) -> tuple[str, ...]:
    """The agents with published scores by `protocol`.

    >>> acer_tf.published_agents("no-op starts")[:2]
    ('DQN', 'Double DQN')

    Raises:
        ValueError: unknown protocol.
    """
    _require_protocol(protocol)
    return tuple(agent for agent, of in _published() if of == protocol)


def published_scores(agent: str, protocol: Protocol) -> PublishedScores:
    """The published scores of `agent` by `protocol`.

    >>> dqn = acer_tf.published_scores("DQN", "no-op starts")
    >>> dqn.scores["Pong"], round(dqn.median(), 2)  # raw; human-normalised by the same protocol
    (19.5, 0.79)

    Args:
        agent: one of `published_agents(protocol)`: "Double DQN", "Prioritized Double DQN (rank)", "ACER".
        protocol: without a default, because scores by different protocols must not be compared.

    Raises:
        ValueError: unknown agent or protocol, or the agent's scores were measured by another protocol.
    """
    agents = published_agents(protocol)
    if agent in agents:
        return _published()[agent, protocol]
    if others := [repr(of) for name, of in _published() if name == agent]:
        raise ValueError(
            f"the published scores of {agent} are by the protocol {' and '.join(others)}, not {protocol!r}"
        )
    hint = _suggestion(agent, agents) or f"; for {protocol!r} there are {', '.join(agents)}"
    raise ValueError(f"no scores of {agent!r} are shipped{hint}")


@functools.cache
def _published() -> Mapping[tuple[str, Protocol], PublishedScores]:
    found = {}
    groups = pd.concat(map(read_table, _SCORES)).groupby(["agent", "protocol", "frames"], sort=False, dropna=False)
    for (agent, protocol, frames), rows in groups:
        scores = MappingProxyType(dict(zip(rows.game, rows.score.tolist(), strict=True)))
        found[agent, protocol] = PublishedScores(agent, protocol, None if pd.isna(frames) else int(frames), scores)
    return found


def of_atari5(games: Collection[str]) -> bool:
    """Whether `games`, "Qbert" or "atari/Qbert", are Atari-5's."""
    return {game.removeprefix("atari/") for game in games} == set(WEIGHTS)


def atari5_median(games: Sequence[str], scores: np.ndarray) -> np.ndarray:
    """The estimated median over 57 games, as a fraction of human; its 95 % range is `INTERVAL` times the estimate.

    Args:
        games: Atari-5's, in the order of `scores`.
        scores: [5, G] human-normalised by no-op references, 1 is human, means over seeds; below 0 counts as 0.

    Returns:
        [G] float64; NaN where a game has no score.

    Raises:
        ValueError: these are not the five games.
    """
    if not of_atari5(games) or len(games) != len(WEIGHTS):
        raise ValueError(f"Atari-5 needs one score of each of {', '.join(WEIGHTS)}, not of {', '.join(games)}")
    weights = [WEIGHTS[game.removeprefix("atari/")] for game in games]
    logarithms = np.log10(1 + np.maximum(0.0, 100 * np.asarray(scores, np.float64)))
    return (10 ** np.tensordot(weights, logarithms, 1) - 1) / 100


def _require_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {protocol!r}: expected one of {', '.join(map(repr, PROTOCOLS))}")


def _suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: "; did you mean Pong?", or "" if no known name is close."""
    near = difflib.get_close_matches(name, list(known))
    return f"; did you mean {' or '.join(near)}?" if near else ""
