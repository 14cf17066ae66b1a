"""Atari-5: the median over 57 games, estimated from five of them (Aitchison et al. 2022)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType

import numpy as np

# The authors' fit of the median over 57 games, without intercept (github.com/maitchison/Atari-5 at 118cad54, MIT).
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


def applies(games: Collection[str]) -> bool:
    """Whether `games`, "Qbert" or "atari/Qbert", are the five."""
    return {game.removeprefix("atari/") for game in games} == set(WEIGHTS)


def estimate(games: Sequence[str], scores: np.ndarray) -> np.ndarray:
    """The estimated median over 57 games, as a fraction of human; its 95 % range is `INTERVAL` times the estimate.

    Args:
        games: the five, in the order of `scores`.
        scores: [5, G] human-normalised by no-op references, 1 is human, means over seeds; below 0 counts as 0.

    Returns:
        [G] float64; NaN where a game has no score.

    Raises:
        ValueError: these are not the five games.
    """
    if not applies(games) or len(games) != len(WEIGHTS):
        raise ValueError(f"Atari-5 needs one score of each of {', '.join(WEIGHTS)}, not of {', '.join(games)}")
    weights = [WEIGHTS[game.removeprefix("atari/")] for game in games]
    logarithms = np.log10(1 + np.maximum(0.0, 100 * np.asarray(scores, np.float64)))
    return (10 ** np.tensordot(weights, logarithms, 1) - 1) / 100
