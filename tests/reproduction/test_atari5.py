from __future__ import annotations

import numpy as np
import pytest

from acer_tf.reproduction.scores import INTERVAL, atari5_median, of_atari5, published_scores

GAMES = ["Qbert", "Phoenix", "NameThisGame", "DoubleDunk", "BattleZone"]  # in another order than the weights


def test_by_hand() -> None:
    """Human play in all five games is 101 to the power of the sum of the weights, less 1, in per cent."""
    human = atari5_median(GAMES, np.ones((5, 1)))
    assert human == pytest.approx([(101**0.9653005981851923 - 1) / 100])
    only = np.zeros((5, 2))
    only[0, 1] = 9.99  # Qbert at 999 %
    assert atari5_median(GAMES, only) == pytest.approx([0.0, (1000**0.08048518286466755 - 1) / 100])
    assert atari5_median(GAMES, only - 5.0) == pytest.approx([0.0, (500**0.08048518286466755 - 1) / 100])


@pytest.mark.parametrize(
    ("agent", "median"),
    [  # published medians over the 57 games, by no-op starts
        ("DQN", 0.79),
        ("Double DQN", 1.18),
        ("Prioritized Double DQN (rank)", 1.24),
        ("A3C", 0.80),
    ],
)
def test_published_medians_lie_in_the_interval(agent: str, median: float) -> None:
    published = published_scores(agent, "no-op starts")
    assert published.median() == pytest.approx(median, abs=0.01)
    normalized = published.human_normalized()
    estimate = atari5_median(GAMES, np.array([[normalized[game]] for game in GAMES])).item()
    low, high = INTERVAL
    assert low * estimate < median < high * estimate


def test_a_game_without_a_score_leaves_no_estimate() -> None:
    scores = np.ones((5, 3))
    scores[3, 1] = np.nan
    assert np.isnan(atari5_median(GAMES, scores)).tolist() == [False, True, False]


def test_other_games_are_refused() -> None:
    assert of_atari5([f"atari/{game}" for game in GAMES])
    assert not of_atari5(GAMES[:4])
    with pytest.raises(ValueError, match="BattleZone.*Pong"):
        atari5_median(["Pong"], np.ones((1, 2)))
