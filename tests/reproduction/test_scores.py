from __future__ import annotations

import statistics

import pytest

from acer_tf.envs.families import ATARI_GAMES
from acer_tf.reproduction.scores import PROTOCOLS, Protocol, atari_references, human_normalized, published_scores

# DQN with up to 30 no-ops, 57 games: Wang et al., "Dueling Network Architectures for Deep Reinforcement Learning"
# (arXiv 1511.06581), Table 2. Reactor (arXiv 1704.04651), Table 2, gives the median of these as 0.79.
DQN = """
Alien 1620.0, Amidar 978.0, Assault 4280.4, Asterix 4359.0, Asteroids 1364.5, Atlantis 279987.0, BankHeist 455.0,
BattleZone 29900.0, BeamRider 8627.5, Berzerk 585.6, Bowling 50.4, Boxing 88.0, Breakout 385.5, Centipede 4657.7,
ChopperCommand 6126.0, CrazyClimber 110763.0, Defender 23633.0, DemonAttack 12149.4, DoubleDunk -6.6, Enduro 729.0,
FishingDerby -4.9, Freeway 30.8, Frostbite 797.4, Gopher 8777.4, Gravitar 473.0, Hero 20437.8, IceHockey -1.9,
Jamesbond 768.5, Kangaroo 7259.0, Krull 8422.3, KungFuMaster 26059.0, MontezumaRevenge 0.0, MsPacman 3085.6,
NameThisGame 8207.8, Phoenix 8485.2, Pitfall -286.1, Pong 19.5, PrivateEye 146.7, Qbert 13117.3, Riverraid 7377.6,
RoadRunner 39544.0, Robotank 63.9, Seaquest 5860.6, Skiing -13062.3, Solaris 3482.8, SpaceInvaders 1692.3,
StarGunner 54282.0, Surround -5.6, Tennis 12.2, TimePilot 4870.0, Tutankham 68.1, UpNDown 9989.9, Venture 163.0,
VideoPinball 196760.4, WizardOfWor 2704.0, YarsRevenge 18098.9, Zaxxon 5363.0
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_references_are_of_the_57_games(protocol: Protocol) -> None:
    assert set(atari_references(protocol)) == set(ATARI_GAMES)
    assert len(atari_references(protocol)) == 57


@pytest.mark.parametrize(
    ("game", "random", "human"),
    [  # Wang et al. 2016, Table 2, columns "Random" and "Human"
        ("Alien", 227.8, 7127.7),
        ("Breakout", 1.7, 30.5),
        ("MontezumaRevenge", 0.0, 4753.3),
        ("Pong", -20.7, 14.6),
        ("Skiing", -17098.1, -4336.9),
        ("VideoPinball", 16256.9, 17667.9),
        ("Zaxxon", 32.5, 9173.3),
    ],
)
def test_known_cells(game: str, random: float, human: float) -> None:
    assert atari_references()[game] == (random, human)
    assert human_normalized(game, random) == 0
    assert human_normalized(game, human) == 1


@pytest.mark.parametrize(
    ("game", "random", "human"),
    [  # Nair et al. 2015; Phoenix: van Hasselt et al. 2015
        ("Alien", 128.3, 6371.3),
        ("Breakout", 1.6, 27.9),
        ("Phoenix", 1134.4, 6686.2),
        ("Pong", -18.0, 15.5),
        ("VideoPinball", 20452.0, 15641.1),
    ],
)
def test_known_cells_of_human_starts(game: str, random: float, human: float) -> None:
    assert atari_references("human starts")[game] == (random, human)
    assert human_normalized(game, random, protocol="human starts") == 0
    better = 1 if human > random else -1
    assert human_normalized(game, human, protocol="human starts") == better


def test_the_two_references_differ_in_every_game() -> None:
    no_op, human = atari_references(), atari_references("human starts")
    assert all(no_op[game].human != human[game].human for game in ATARI_GAMES)
    assert [game for game in ATARI_GAMES if no_op[game].human <= no_op[game].random] == []
    assert [game for game in ATARI_GAMES if human[game].human <= human[game].random] == ["VideoPinball"]


def test_training_scores_have_the_references_of_no_op_starts() -> None:
    assert atari_references("training") == atari_references() == atari_references("no-op starts")


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="'noop'.*'no-op starts'"):
        human_normalized("Pong", 1.0, protocol="noop")  # type: ignore[arg-type]


def test_the_published_median_of_dqn_is_reproduced() -> None:
    scores = dict(cell.rsplit(maxsplit=1) for cell in DQN.replace("\n", " ").split(","))
    normalized = [human_normalized(game.strip(), float(score)) for game, score in scores.items()]
    assert len(normalized) == 57
    assert published_scores("DQN", "no-op starts").scores == {g.strip(): float(s) for g, s in scores.items()}
    assert round(statistics.median(normalized), 2) == 0.79


def test_an_environment_id_is_accepted_too() -> None:
    assert human_normalized("atari/Pong", 14.6) == human_normalized("Pong", 14.6) == 1


@pytest.mark.parametrize(
    ("game", "message"),
    [
        ("MsPacMan", "'MsPacMan'; did you mean MsPacman"),
        ("atari/Pnog", "'atari/Pnog'; did you mean Pong"),
        ("minatar/breakout", "no reference scores of 'minatar/breakout'"),
        ("", "no reference scores of ''$"),
    ],
)
def test_an_unknown_game_is_refused(game: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        human_normalized(game, 1.0)


def test_the_references_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        atari_references()["Pong"] = (0.0, 1.0)  # type: ignore[index]
