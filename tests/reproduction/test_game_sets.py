import pytest

from acer_tf.envs.families import ATARI_GAMES
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.scores import GAME_SETS, atari_games, published_scores


@pytest.mark.parametrize(
    ("name", "size"), [("atari57", 57), ("atari49", 49), ("atari49_dqn", 49), ("openai7", 7), ("atari5", 5)]
)
def test_a_set_has_its_games_each_once(name, size):
    games = GAME_SETS[name]
    assert len(games) == len(set(games)) == size
    assert set(games) <= set(ATARI_GAMES)


def test_the_two_sets_of_49_are_those_of_the_papers():
    assert set(GAME_SETS["atari49"]) == set(published_scores("ACER", "training").scores)
    assert set(GAME_SETS["atari49_dqn"]) == set(published_scores("Gorila DQN", "human starts").scores)
    assert set(GAME_SETS["atari49"]) ^ set(GAME_SETS["atari49_dqn"]) == {"Hero", "Pitfall"}


def test_openai_published_curves_of_its_seven():
    assert [game for game in ATARI_GAMES if published_curves(f"atari/{game}")] == list(GAME_SETS["openai7"])


def test_names_and_sets_mix_and_each_game_comes_once():
    assert atari_games(["Pong", "atari5", "atari/Qbert", "Pong"]) == (
        *("Pong", "BattleZone", "DoubleDunk", "NameThisGame", "Phoenix", "Qbert"),
    )
    assert atari_games([]) == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MsPacMan", "'MsPacMan'; did you mean MsPacman"),
        ("atari75", "'atari75'; did you mean .*atari57"),
        ("minatar/breakout", "'minatar/breakout'; sets are atari57, atari49, atari49_dqn, openai7, atari5"),
        ("", "''; sets are"),
    ],
)
def test_an_unknown_name_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        atari_games(["Pong", name])


def test_the_sets_cannot_be_changed():
    with pytest.raises(TypeError):
        GAME_SETS["atari57"] = ()
