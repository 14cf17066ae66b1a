"""Random and human reference scores of the 57 Atari games, and the score normalised by them."""

from __future__ import annotations

import csv
import difflib
import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple


class Reference(NamedTuple):
    """Scores per whole game, no-op starts (see the data file)."""

    random: float
    human: float


@functools.cache
def atari_references() -> Mapping[str, Reference]:
    """The references by game ("MsPacman"), 57 of them."""
    text = (resources.files("acer_tf.reproduction") / "data" / "atari57_random_human.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return MappingProxyType({r["game"]: Reference(float(r["random"]), float(r["human"])) for r in rows})


def human_normalized(game: str, score: float) -> float:
    """(score − random) / (human − random): 0 plays like random, 1 like the human tester.

    Args:
        game: "MsPacman", or the environment's id "atari/MsPacman".
        score: a raw score of whole games.

    Raises:
        ValueError: not one of the 57 games.
    """
    references = atari_references()
    name = game.removeprefix("atari/")
    if name not in references:
        near = difflib.get_close_matches(name, references)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"there are no reference scores of {game!r}{hint}")
    random, human = references[name]
    return (score - random) / (human - random)
