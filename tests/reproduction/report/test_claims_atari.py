"""Claims about games of Atari, on synthetic records whose answer is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.scores import human_normalized, published_scores
from tests.reproduction.report.synthetic import FIVE, cut, record, row

pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.mark.parametrize(
    ("better", "games", "seeds", "word"),
    [
        (1, FIVE, 2, "supported"),
        (-1, FIVE, 2, "contradicted"),
        (0, FIVE, 2, "undecided: needs more than 100 seeds"),
        (1, FIVE, 1, "undecided: needs 6 tasks, or 2 seeds"),  # five games go one way by chance once in 32 times
        (1, FIVE[:1], 3, "undecided: needs 4 seeds"),  # three runs are above three by chance once in 20
        (1, (*FIVE, "atari/Asterix"), 1, "supported"),
    ],
)
def test_more_replay_on_atari(tmp_path: Path, better: int, games: tuple[str, ...], seeds: int, word: str) -> None:
    def value(cell: Cell) -> float | None:
        ratio = cell.train_settings.replay_ratio
        wanted = cell.train_settings.trust_region_delta == 1 and cell.train_settings.agent == "acer" and ratio in (0, 4)
        return 100.0 + better * ratio if wanted else None

    record(tmp_path, "figure1_atari57", games, value, seeds=seeds)
    found = row(tmp_path, "ACER, Figure 1", "more replay")
    assert found["verdict"] == word
    run = f"{seeds} seed{'s' * (seeds > 1)} (1 planned)"
    assert found["share"] == f"{len(games)}/57 games, 2/10 methods, {run}, 0.44–1.5 % of steps"


def test_more_replay_is_judged_by_the_games_of_every_ratio(tmp_path: Path) -> None:
    def value(cell: Cell) -> float | None:
        ratio = cell.train_settings.replay_ratio
        if cell.train_settings.trust_region_delta != 1 or cell.train_settings.agent != "acer" or ratio not in (0, 4):
            return None
        if cell.env == "atari/Asterix":
            return 1e6 if ratio == 0 else None
        return 100.0 + ratio

    record(tmp_path, "figure1_atari57", (*FIVE, "atari/Asterix"), value, seeds=2)
    found = row(tmp_path, "ACER, Figure 1", "more replay")
    assert found["verdict"] == "supported" and "5 games" in found["ours"]


def test_atari_games_without_the_method_or_the_published_score_decide_nothing(tmp_path: Path) -> None:
    games = ("atari/Phoenix", "atari/Pong")
    record(tmp_path, "table_atari49", games, lambda cell: 1.0 if cell.method == "a3c" else None)
    record(tmp_path, "table1_prioritized", games, lambda cell: 1.0 if cell.method == "dqn" else None)
    for source in ("PPO, Table 6", "PER, Table 1"):
        assert row(tmp_path, source, "")["verdict"] == "undecided: needs runs of it"
    record(tmp_path, "table_atari49", games, lambda cell: 1.0)
    assert "over 1 game" in row(tmp_path, "PPO, Table 6", "")["ours"]


def test_priorities_on_atari(tmp_path: Path) -> None:
    values = {"ddqn_tuned": 0.0, "ddqn_rank": 5.0, "ddqn_proportional": 9.0}
    for games, word in (((*FIVE, "atari/Asterix"), "supported"), (FIVE, "undecided: needs 6 tasks, or 2 seeds")):
        record(tmp_path, "table1_prioritized", games, lambda cell: values.get(cell.method))
        assert row(tmp_path, "PER, Table 1", "")["verdict"] == word


@pytest.mark.parametrize(
    ("factor", "rows", "word"),
    [
        (1.0, 10, "supported"),
        (0.5, 10, "contradicted"),
        (2.0, 10, "contradicted"),
        (0.5, 4, "undecided: needs runs of 40M"),
    ],
)
def test_table_6_wants_all_frames(tmp_path: Path, factor: float, rows: int, word: str) -> None:
    """Runs of twice its steps count as they were at 40M frames."""
    published = published_scores("ACER", "training").scores
    games = tuple(f"atari/{game}" for game in published)

    def value(cell: Cell) -> list[float] | None:
        score = factor * published[cell.env.removeprefix("atari/")]
        return [score] * 5 + [1e9] * 5 if cell.method == "acer" else None

    record(tmp_path, "table_atari49", games, value, seeds=2, total_steps=20_000_000)
    if rows < 10:
        cut(tmp_path, "table_atari49", "acer", rows)
    assert row(tmp_path, "PPO, Table 6", "")["verdict"].startswith(word)


def test_table_6_is_of_the_games_with_a_score(tmp_path: Path) -> None:
    def value(cell: Cell) -> list[float]:
        return [math.nan if cell.env == "atari/Pong" else 0.0] * 10

    record(tmp_path, "table_atari49", ("atari/Pong", "atari/Breakout"), value)
    found = row(tmp_path, "PPO, Table 6", "")
    assert (found["verdict"], found["ours"].endswith("over 1 game")) == ("undecided: needs runs of 40M frames", True)
    record(tmp_path / "none", "table_atari49", ("atari/Pong",), value)
    assert row(tmp_path / "none", "PPO, Table 6", "")["ours"] == ""


def test_what_was_not_published_so_early_is_a_dash(tmp_path: Path) -> None:
    record(tmp_path, "figure1_atari57", FIVE, lambda cell: float(cell.train_settings.replay_ratio))
    assert row(tmp_path, "ACER, Figure 1", "more replay")["published"].startswith("–, –")


def test_every_step_of_the_replay_ratio_counts_on_atari(tmp_path: Path) -> None:
    def value(cell: Cell) -> float | None:
        wanted = cell.train_settings.trust_region_delta == 1 and cell.train_settings.agent == "acer"
        return 1000.0 * {0: 1.0, 1: 3.0, 4: 2.0, 8: 4.0}[int(cell.train_settings.replay_ratio)] if wanted else None

    record(tmp_path, "figure1_atari57", FIVE, value, seeds=2)
    assert row(tmp_path, "ACER, Figure 1", "more replay")["verdict"] == "contradicted"


def test_replay_ratios_are_compared_at_equal_frames(tmp_path: Path) -> None:
    """Ratio 4 begins lower and ends higher, but only the first half of ratio 0 has been run."""

    def value(cell: Cell) -> Any:
        ratio = cell.train_settings.replay_ratio
        if cell.train_settings.trust_region_delta != 1 or cell.train_settings.agent != "acer" or ratio not in (0, 4):
            return None
        return [1000.0 * n for n in range(10)] if ratio == 4 else [5000.0] * 10

    record(tmp_path, "figure1_atari57", FIVE, value, seeds=2)
    cut(tmp_path, "figure1_atari57", "replay0_trust", 5)
    assert row(tmp_path, "ACER, Figure 1", "more replay")["verdict"] == "contradicted"


def test_the_medians_of_priorities_on_atari_are_human_normalised(tmp_path: Path) -> None:
    values = {"ddqn_tuned": 0.0, "ddqn_rank": 5.0, "ddqn_proportional": 9.0}
    record(tmp_path, "table1_prioritized", FIVE, lambda cell: values.get(cell.method))
    medians = [np.median([human_normalized(env, value) for env in FIVE]) for value in values.values()]
    ours = row(tmp_path, "PER, Table 1", "")["ours"]
    assert ours.startswith(", ".join(f"{median:z.2f}" for median in medians) + " over 5 games")
