"""Claims about the games of MinAtar, on synthetic records whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.figure import figures
from tests.reproduction.report.synthetic import cut, record, row

pytestmark = pytest.mark.usefixtures("few_resamples")


def test_priorities_on_minatar_are_undecided_when_the_seeds_mix(tmp_path: Path) -> None:
    games = figures()["table_minatar_priorities"].envs

    def value(cell: Cell) -> float:
        return 10.0 + (cell.seed if cell.method == "ddqn" else 1.0)

    record(tmp_path, "table_minatar_priorities", games, value, seeds=3)
    assert row(tmp_path, "PER, Table 1, on MinAtar", "")["verdict"].startswith("undecided: ")


def test_games_that_only_some_methods_played_decide_nothing(tmp_path: Path) -> None:
    games = figures()["figure1_minatar"].envs

    def value(cell: Cell) -> float | None:
        return 10.0 if cell.env == games[0] or cell.train_settings.replay_ratio == 4 else None

    for name in ("figure1_minatar", "table_minatar_priorities"):
        record(tmp_path, name, games, value)
    for source in ("ACER, Figure 1, on MinAtar", "ACER, Section 4, on MinAtar", "PER, Table 1, on MinAtar"):
        assert row(tmp_path, source, "")["verdict"] == "undecided: needs 4 seeds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("games", "word"), [((0, 1, 3, 5), "supported"), ((5, 3, 1, 0), "contradicted"), ((0, 1, 5, 4), "contradicted")]
)
def test_the_gain_by_the_trust_region_is_compared_between_each_ratio_of_replay_and_the_next(
    tmp_path: Path, games: tuple[int, ...], word: str
) -> None:
    """It wins in so many of the five games at ratios 0, 1, 4 and 8."""
    envs = figures()["figure1_minatar"].envs
    better = dict(zip((0, 1, 4, 8), games, strict=True))

    def value(cell: Cell) -> Any:
        won = envs.index(cell.env) < better[int(cell.train_settings.replay_ratio)]
        return 10.0 + (cell.train_settings.trust_region_delta == 1) * (0.5 if won else -0.5)

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=8)
    assert row(tmp_path, "ACER, Section 4, on MinAtar", "")["verdict"] == word
    # Pairs that have come less far count as far as all have come.
    for method in ("replay8_trust", "replay8"):
        cut(tmp_path, "figure1_minatar", method, 4)
    assert row(tmp_path, "ACER, Section 4, on MinAtar", "")["verdict"] == word


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({0: 1.0, 1: 2.0, 4: 3.0}, "supported"),
        ({0: 1.0, 1: 2.0, 4: 2.0}, "undecided: needs more than 100 seeds"),  # one gain and one tie
        ({0: 1.0, 1: 3.0, 4: 2.0}, "contradicted"),
        ({0: 1.0, 1: 2.0, 4: None}, "supported"),
    ],
)
def test_every_step_of_the_replay_ratio_counts_on_minatar(
    tmp_path: Path, values: dict[int, float | None], word: str
) -> None:
    def value(cell: Cell) -> float | None:
        return (
            values.get(int(cell.train_settings.replay_ratio)) if cell.train_settings.trust_region_delta == 1 else None
        )

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=8)
    assert row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")["verdict"] == word


def test_what_is_shown_of_ratios_on_minatar_is_at_the_steps_of_the_comparison(tmp_path: Path) -> None:
    def value(cell: Cell) -> list[float] | None:
        settings = cell.train_settings
        if settings.trust_region_delta != 1 or settings.replay_ratio not in (0, 4):
            return None
        return [float(n) * (2 if settings.replay_ratio == 4 else 1) for n in range(10)]

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=8)
    cut(tmp_path, "figure1_minatar", "replay4_trust", 2)
    found = row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")
    assert found["verdict"] == "supported"
    less, more = map(float, found["ours"].partition(" (")[0].split(", "))
    assert less < more


@pytest.mark.parametrize(("gain", "word"), [(1.0, "supported"), (-1.0, "contradicted")])
def test_priorities_on_minatar_are_judged_where_all_seeds_agree(tmp_path: Path, gain: float, word: str) -> None:
    games = figures()["table_minatar_priorities"].envs
    record(tmp_path, "table_minatar_priorities", games, lambda c: 10.0 + gain * c.method.startswith("ddqn_"), seeds=2)
    assert row(tmp_path, "PER, Table 1, on MinAtar", "")["verdict"] == word


def test_a_gain_whose_interval_holds_one_half_decides_nothing(tmp_path: Path) -> None:
    """A prioritized run beats two of three uniform ones in every game."""
    games = figures()["table_minatar_priorities"].envs

    def value(cell: Cell) -> Any:
        return 10.0 + (2.0 * (cell.seed == 2) if cell.method == "ddqn" else 1.0)

    record(tmp_path, "table_minatar_priorities", games, value, seeds=3)
    found = row(tmp_path, "PER, Table 1, on MinAtar", "")
    assert found["ours"].startswith("0.67, 0.67 (") and found["verdict"].startswith("undecided: needs about ")
