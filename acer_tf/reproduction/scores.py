"""Random and human reference scores of the 57 Atari games, and the score normalised by them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from acer_tf.reproduction.data_files import read_table, suggestion

# How a score was measured. No-op starts: an evaluation apart from training, in which games begin with up to 30 no-ops.
# Human starts: an evaluation in which games begin at a point that a human reached. Training: returns while it learns.
Protocol = Literal["no-op starts", "human starts", "training"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
_FILES: dict[Protocol, str] = {
    "no-op starts": "atari57_random_human.csv",
    "human starts": "atari57_random_human_human_starts.csv",
    "training": "atari57_random_human.csv",  # has no own references
}


class AtariReference(NamedTuple):
    """The mean scores of random play and of a human in whole games (see the data files)."""

    random: float
    human: float


def require_protocol(protocol: str) -> None:
    """Raises ValueError for an unknown protocol."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {protocol!r}: expected one of {', '.join(map(repr, PROTOCOLS))}")


@functools.cache
def atari_references(protocol: Protocol = "no-op starts") -> Mapping[str, AtariReference]:
    """The references of the 57 games ("MsPacman"). Raises ValueError for an unknown protocol.

    >>> acer_tf.atari_references()["Pong"].human
    14.6
    """
    require_protocol(protocol)
    rows = read_table(_FILES[protocol])
    return MappingProxyType({r["game"]: AtariReference(float(r["random"]), float(r["human"])) for r in rows})


def human_normalized(game: str, score: float, *, protocol: Protocol = "no-op starts") -> float:
    """(score − random) / |human − random|: 0 is random play, 1 the human tester.

    >>> round(acer_tf.human_normalized("Pong", 15.5, protocol="training"), 2)
    1.03

    The absolute value is Schaul et al.'s (2016, Equation 4). It matters in one game, VideoPinball from human starts,
    where the human scored less than random.

    Args:
        game: "MsPacman", or the environment's id "atari/MsPacman".
        score: a raw score of whole games.
        protocol: by which `score` was measured, and which chooses the references.

    Raises:
        ValueError: not one of the 57 games, or an unknown protocol.
    """
    references = atari_references(protocol)
    name = game.removeprefix("atari/")
    if name not in references:
        raise ValueError(f"there are no reference scores of {game!r}{suggestion(name, references)}")
    random, human = references[name]
    return (score - random) / abs(human - random)
