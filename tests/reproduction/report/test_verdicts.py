"""Verdicts of synthetic records whose answer is known; the committed table is that of the committed records."""

from __future__ import annotations

import csv
import dataclasses
import html
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acer_tf.commands.verdicts import main, page
from acer_tf.errors import EvidenceError
from acer_tf.figures import figure3_draws, figure5_sensitivity
from acer_tf.figures.openai_baselines import published_curve
from acer_tf.reproduction import statistics
from acer_tf.reproduction.cells import Cell, State
from acer_tf.reproduction.cliffwalk import Result, write_results
from acer_tf.reproduction.collecting import describe
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.evidence import Evidence, read_evidence, write_evidence
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.published import published_curves, published_search
from acer_tf.reproduction.scores import human_normalized, published_scores
from acer_tf.reproduction.statistics import Comparison, Estimate
from acer_tf.reproduction.verdicts import KINDS, answer, coverage, decide, folders, verdicts
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document
from tests.core import first_in_core
from tests.reproduction.report.synthetic import outcome, write_run

pytestmark = pytest.mark.usefixtures("few_resamples")
RESULTS = Path(__file__).resolve().parents[3] / "results"


def record(
    results: Path,
    name: str,
    envs: tuple[str, ...],
    value: Callable[[Cell], float | list[float] | None],
    *,
    seeds: int = 1,
    total_steps: int = 1_000_000,
) -> None:
    """Evidence of an experiment, each run at one return throughout, or at those given."""
    experiment = figures()[name]
    cells = make_cells(experiment.methods, envs, seeds, total_steps=total_steps)
    made = outcome(results / name, experiment.methods, cells, lambda cell: _ten(value(cell)))
    write_evidence(results / name, Evidence(name, experiment.title, (), "command", made.cells))


def _ten(value: float | list[float] | None) -> list[float] | None:
    return value if value is None or isinstance(value, list) else [value] * 10


def cut(results: Path, name: str, method: str, rows: int, *, seed: int | None = None, state: str = "finished") -> None:
    """Leaves the first rows of a method's runs, of one seed or all, as of a sweep under way."""
    evidence = read_evidence(results / name)
    assert evidence is not None
    cells = []
    for cell in evidence.cells:
        path = results / name / "runs" / cell.name / "progress.csv"
        if cell.method == method and seed in (None, cell.seed):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[: rows + 1]))
            cell = dataclasses.replace(cell, steps=rows * cell.steps // 10, state=state)
        cells.append(cell)
    write_evidence(results / name, dataclasses.replace(evidence, cells=tuple(cells)))


def row(results: Path, source: str, text: str) -> dict[str, str]:
    table = verdicts(results)
    (found,) = [row for row in table.rows if row[0] == source and text in row[1]]
    return dict(zip(table.head, found, strict=True))


# In the order of their updates in these tests.
REPLAYS = ("uniform", "rank-based", "proportional", "greedy", "oracle")
AGAINST = "undecided: needs 4 seeds to contradict it"


def comparison(
    value: float, low: float = math.nan, high: float = math.nan, needs: str = "4 seeds", **more: float
) -> Comparison:
    return Comparison(Estimate(value, low, high), 0.5, needs, **more)


@pytest.mark.parametrize(
    ("comparisons", "word", "shown"),
    [
        ([], "undecided: needs runs of it", ""),
        ([comparison(0.9, 0.6, 1.0)], "supported", "0.90 [0.60, 1.00]"),
        ([comparison(0.9, 0.6, 1.0), comparison(0.8, 0.51, 0.9)], "supported", "0.80 [0.51, 0.90]"),
        ([comparison(0.9, 0.6, 1.0), comparison(0.8, 0.5, 0.9)], "undecided: needs 4 seeds", "0.80 [0.50, 0.90]"),
        ([comparison(0.9, 0.6, 1.0), comparison(0.1, 0.0, 0.5)], AGAINST, "0.10 [0.00, 0.50]"),
        ([comparison(0.9, 0.6, 1.0), comparison(0.1, 0.0, 0.4)], "contradicted", "0.10 [0.00, 0.40]"),
        ([Comparison(), comparison(0.1, 0.0, 0.4)], "contradicted", "0.10 [0.00, 0.40]"),
        ([comparison(0.9, 0.6, 1.0), comparison(1.0, needs="2 seeds")], "undecided: needs 2 seeds", "1.00"),
        ([comparison(1.0, needs="2 seeds"), comparison(0.0)], "undecided: needs 4 seeds", "0.00"),
        ([comparison(1.0, needs="2 seeds"), Comparison()], "undecided: needs runs of it", ""),
        ([comparison(0.9, 0.6, 1.0, p=0.05)], "supported", "0.90 [0.60, 1.00], p = 0.050"),
        ([comparison(0.9, 0.6, 1.0, p=0.057)], "undecided: needs 4 seeds", "0.90 [0.60, 1.00], p = 0.057"),
        ([comparison(0.1, 0.0, 0.4, p=0.0004)], "contradicted", "0.10 [0.00, 0.40], p < 0.001"),
        ([comparison(0.1, 0.0, 0.4, p=0.06)], AGAINST, "0.10 [0.00, 0.40], p = 0.060"),
        (  # all must be shown to support, one suffices to contradict
            [comparison(0.7, 0.4, 1.0, "9 seeds", needed=9), comparison(0.6, 0.2, 0.9, "20 seeds", needed=20)],
            "undecided: needs 20 seeds",
            "0.60 [0.20, 0.90]",
        ),
        (
            [comparison(0.4, 0.2, 0.9, "30 seeds", needed=30), comparison(0.3, 0.25, 0.6, "8 seeds", needed=8)],
            "undecided: needs 8 seeds to contradict it",
            "0.40 [0.20, 0.90]",
        ),
        (  # what is not shown comes before what is, even if its interval ends higher
            [comparison(0.9, 0.6, 1.0, p=0.06), comparison(0.8, 0.55, 0.9, p=0.01)],
            "undecided: needs 4 seeds",
            "0.90 [0.60, 1.00], p = 0.060",
        ),
    ],
)
def test_a_verdict_follows_from_intervals_and_tests_alone(comparisons: list[Comparison], word: str, shown: str) -> None:
    verdict, weakest = decide(comparisons)
    assert (verdict, str(weakest)) == (word, shown)


def test_without_records_nothing_is_claimed(tmp_path: Path) -> None:
    table = verdicts(tmp_path)
    assert len(table.rows) >= 20
    nothing = ["undecided: needs runs of it", "", "", "", "none of it", ""]
    assert all(row[2:-2] == nothing and row[-1] == "" for row in table.rows)


FIVE = ("atari/Breakout", "atari/Seaquest", "atari/Qbert", "atari/Pong", "atari/Alien")


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


@pytest.mark.parametrize(("leads", "word"), [(2, "supported"), (1, "undecided"), (0, "contradicted")])
def test_who_leads_on_control_tasks(tmp_path: Path, leads: int, word: str) -> None:
    tasks = ("control/reacher3", "control/cheetah")

    def value(cell: Cell) -> float:
        is_acer = cell.method == "acer_continuous"
        return 50.0 if is_acer == (cell.env in tasks[:leads]) else 10.0

    record(tmp_path, "figure3_continuous", tasks, value, seeds=3)
    found = row(tmp_path, "ACER, Figure 3", "leads")
    assert found["verdict"].partition(":")[0] == word
    assert found["ours"].startswith(f"{4 * leads} of 8 pairs of means (reacher3, cheetah")
    assert found["the paper's"] == "7 of 8 at 9–79M steps (A3C's 19–159M)"


def test_the_trust_region_is_judged_by_pairs(tmp_path: Path) -> None:
    for seeds, word in ((4, "supported"), (1, "undecided: needs 4 seeds")):
        record(
            tmp_path / word,
            "figure3_continuous",
            ("control/cheetah",),
            lambda cell: 9.0 if cell.method.startswith("trust_") else 1.0,
            seeds=seeds,
        )
        found = row(tmp_path / word, "ACER, Figure 3", "with the trust region")
        assert found["verdict"] == word and found["ours"].startswith("2 of 2 pairs")


def test_methods_are_compared_where_the_shortest_run_ends(tmp_path: Path) -> None:
    """All learn alike, but the sweep has only begun with ACER, or with the methods without a trust region."""
    rising = [float(n) for n in range(10)]
    record(tmp_path, "figure3_continuous", ("control/cheetah",), lambda cell: rising, seeds=4)
    for method in ("acer_continuous", "tis", "a3c"):
        cut(tmp_path, "figure3_continuous", method, 1)
    for text in ("leads", "with the trust region"):
        found = row(tmp_path, "ACER, Figure 3", text)
        assert found["verdict"].startswith("undecided") and found["weakest comparison"].startswith("0.50 [0.50, 0.50]")


def test_runs_without_a_score_decide_nothing(tmp_path: Path) -> None:
    record(tmp_path, "figure3_continuous", ("control/fish",), lambda cell: 1.0, seeds=4)
    for path in (tmp_path / "figure3_continuous" / "runs").glob("*/progress.csv"):
        path.write_text("steps,seconds,episodes,mean_return,interval_return\n100000,1,0,,\n")
    for text in ("leads", "with the trust region"):
        assert row(tmp_path, "ACER, Figure 3", text)["verdict"] == "undecided: needs runs of it"


@pytest.mark.parametrize(("sign", "word"), [(1, "supported"), (-1, "contradicted"), (0, "undecided")])
def test_settings_are_ranked_within_their_task(tmp_path: Path, sign: int, word: str) -> None:
    """On two tasks whose returns differ in scale: as the paper's, reversed, or all alike."""
    tasks = ("control/cartpole_swingup", "control/fish")
    theirs = {(env, point.learning_rate, point.delta): point.score for env in tasks for point in published_search(env)}

    def value(cell: Cell) -> float | None:
        settings = cell.train_settings
        score = theirs.get((settings.env, settings.learning_rate, settings.trust_region_delta))
        return None if score is None else sign * score + 1000.0 * (settings.env == tasks[0])

    record(tmp_path, "figure5_sensitivity", tasks, value)
    assert row(tmp_path, "ACER, Figures 5 and 6", "")["verdict"].partition(":")[0] == word
    envs = figure5_sensitivity.FIGURE.envs
    assert all(
        figure5_sensitivity.nearest(env, point._asdict() | {"trust_region_delta": point.delta}) == point
        for env in envs
        for point in published_search(env)
    )


def test_the_draws_of_figure_3_are_judged_by_the_settings_next_to_theirs(tmp_path: Path) -> None:
    methods = {"acer_continuous": figure3_draws.METHODS["acer_continuous"]}
    cells = make_cells(methods, ("control/reacher3",), 1, total_steps=1_000_000)

    def value(cell: Cell) -> list[float]:
        return [figure5_sensitivity.nearest("control/reacher3", cell.settings).score] * 10

    made = outcome(tmp_path / "figure3_draws", methods, cells, value)
    write_evidence(tmp_path / "figure3_draws", Evidence("figure3_draws", "", (), "", made.cells))
    found = row(tmp_path, "ACER, Figures 5 and 6, own draws", "")
    assert found["verdict"] == "supported" and found["weakest comparison"].startswith("rank correlation 1.00 [")
    assert found["share"] == "1/6 rebuilt tasks, 1/1 methods, 30/30 draws, 11 % of steps"


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
    assert row(tmp_path, "ACER, Figure 1", "more replay")["the paper's"].startswith("–, –")


def test_an_interrupted_cliffwalk_is_judged_by_its_whole_sizes(tmp_path: Path) -> None:
    (tmp_path / "figure_cliffwalk").mkdir()
    path = tmp_path / "figure_cliffwalk" / "results.csv"
    results = [
        Result(kind, replay, size, seed, 2**size // (1 + 2 * place) + 10 * (4 - place), True)
        for size in (8, 9, 10)
        for kind in ("tabular", "linear")
        for place, replay in enumerate(REPLAYS)
        for seed in range(4)
    ]
    write_results(results[:-5], path)
    for record, hours in (("", ""), ('{"format": 1, "settings": {}, "finished": true, "seconds": 7200}', "2.0")):
        (tmp_path / "figure_cliffwalk" / "run.json").write_text(record)
        found = row(tmp_path, "PER, Figure 1", "")
        assert (found["share"], found["hours"]) == ("8–9 of 2–16 states, 4/10 runs", hours)
    assert row(tmp_path, "PER, Figure 2", "")["verdict"] == "supported"
    write_results(results[:32], path)
    assert row(tmp_path, "PER, Figure 1", "")["verdict"].startswith("undecided")
    write_results([result for result in results if result.run == 0], path)  # whose sizes are no sample
    found = row(tmp_path, "PER, Figure 1", "")
    assert found["verdict"] == "undecided: needs 2 runs" and "[" not in found["weakest comparison"]
    write_results(results[:3], path)
    assert row(tmp_path, "PER, Figure 1", "")["share"] == "none of it"
    path.write_text("representation\nnothing else\n")
    with pytest.raises(EvidenceError, match="results.csv holds no results"):
        verdicts(tmp_path)


@pytest.mark.parametrize(("runs", "word"), [(2, "undecided: needs 4 runs"), (10, "supported")])
def test_the_cliffwalk_wants_four_runs(tmp_path: Path, runs: int, word: str) -> None:
    (tmp_path / "figure_cliffwalk").mkdir()
    results = [
        Result(kind, replay, size, seed, 4**size // 2 ** (place * size // 4) + 10 * (4 - place), True)
        for size in range(2, 17)
        for kind in ("tabular", "linear")
        for place, replay in enumerate(REPLAYS)
        for seed in range(runs)
    ]
    write_results(results, tmp_path / "figure_cliffwalk" / "results.csv")
    assert row(tmp_path, "PER, Figure 2", "")["verdict"] == word


def test_draws_of_a_search_are_not_judged_as_the_preset(tmp_path: Path) -> None:
    experiment = figures()["figure3_continuous"]
    (cell, *_) = make_cells(experiment.methods, ("control/cheetah",), 1, total_steps=1_000_000)
    made = outcome(tmp_path / "made", experiment.methods, [cell], lambda cell: _ten(1.0))
    draw = dataclasses.replace(made.cells[0], draw=0)
    write_evidence(tmp_path / experiment.name, Evidence(experiment.name, "", (), "", (draw,)))
    assert row(tmp_path, "ACER, Figure 3", "leads")["share"] == "none of it"


ORDER = ("acer_continuous", "trust_tis", "trust_a3c", "tis", "a3c")  # the paper's, on reacher3


@pytest.mark.parametrize(
    ("change", "word"),
    first_in_core(
        [
            ({}, "supported"),
            ({"trust_tis": 4.95}, "undecided: "),  # below ACER by less than the draws differ
            ({"trust_tis": 50.0}, "contradicted"),
            ({"a3c": None}, "undecided: needs runs of it"),
        ]
    ),
)
def test_the_order_over_draws(tmp_path: Path, change: dict[str, float | None], word: str) -> None:
    methods = figure3_draws.METHODS
    base = {name: 5.0 - place for place, name in enumerate(ORDER)} | change
    cells = make_cells(methods, ("control/reacher3",), 1, total_steps=1_800_000)

    def value(cell: Cell) -> list[float] | None:
        draws = (0.3, 0.1, -0.1, 0.2, -0.2, -0.3, 0.0)
        mean, draw = base[cell.method], cell.draw or 0
        return None if mean is None or draw >= len(draws) else [mean + draws[draw]] * 10

    folder = tmp_path / "figure3_draws"
    made = outcome(folder, methods, cells, value)
    write_evidence(folder, Evidence("figure3_draws", "", (), "", made.cells))
    found = row(tmp_path, "ACER, Figure 3, its protocol", "order")
    assert found["verdict"].startswith(word)
    if not change:
        assert found["ours"] == "ACER 5, Trust-TIS 4, Trust-A3C 3, TIS 2, A3C 1 (best 5, reacher3, 1.8M steps)"
        assert found["share"] == "1/6 rebuilt tasks, 5/5 methods, 7/30 draws, 9.5–20 % of steps"
        assert found["the paper's"] == "312, 256, 86, 55, 45 (best 5, equal steps)"
    helped = row(tmp_path, "ACER, Figure 3, its protocol", "with the trust region")
    assert helped["verdict"].startswith(word if change.get("a3c", 1) is None else "supported")


def run_of(env: str, rise: Callable[[float], float], steps: float, seed: int = 0) -> RunCurve:
    """A run whose return is a function of the published mean at the same step."""
    (curve, _) = published_curves(env)
    points = np.linspace(steps / 100, steps, 100)
    returns = np.array([rise(float(value)) for value in np.interp(points, curve.steps, curve.mean)])
    return RunCurve(env, seed, int(steps), points, points / 1000, points / 1e4, returns, returns)


@pytest.mark.parametrize(
    ("seeds", "steps", "rise", "word"),
    [
        (6, 4e6, lambda mean: mean + 15.0, "supported"),
        (6, 4e6, lambda mean: mean - 15.0, "contradicted"),
        (6, 4e6, lambda mean: mean + 0.5, "undecided: needs published runs with a narrower band"),
        (5, 4e6, lambda mean: mean + 15.0, "undecided: needs 6 seeds"),
        (6, 1e6, lambda mean: mean, "undecided: needs runs to more than 2."),  # not yet a third of the rise
        (6, 1e6, lambda mean: 0.0, "undecided: needs runs to more than 2."),  # ours has
        (6, 12e6, lambda mean: mean - 15.0, "contradicted"),  # further than the published curve
        (6, 4e6, lambda mean: float("nan"), "undecided: needs runs to more than 2."),  # no game has ended
    ],
)
def test_a_curve_is_judged_over_its_range_from_a_third_of_the_rise_on(
    seeds: int, steps: float, rise: Callable[[float], float], word: str
) -> None:
    finding = published_curve([run_of("atari/Pong", rise, steps, seed) for seed in range(seeds)])
    assert len(finding.comparisons) == 2 and decide(finding.comparisons)[0].startswith(word)


def test_curves_are_compared_where_the_shortest_that_counts_ends() -> None:
    runs = [run_of("atari/Pong", lambda mean: mean, steps, seed) for seed, steps in enumerate([10e6, 4e6, 1e6])]
    assert "means over steps 2.73–4.00M, 2.63–4.00M" in published_curve(runs).ours


def test_a_curve_that_is_above_the_published_one_at_its_end_alone_is_not_faster() -> None:
    """The last point counts as each other one does."""
    (curve, _) = published_curves("atari/Pong")
    end = curve.at(4e6)

    def late(mean: float) -> float:
        return mean + 5.0 if mean > end - 0.2 else -20.0

    runs = [run_of("atari/Pong", late, 4e6, seed) for seed in range(6)]
    assert runs[0].mean_return[-1] > end
    assert decide(published_curve(runs).comparisons)[0] == "contradicted"


def test_the_evidence_of_something_else_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evidence(tmp_path / "figure1_minatar", Evidence("my_study", "", (), ""))
    assert main(["verdicts", f"--results={tmp_path}"]) == 2
    assert "figure1_minatar holds the evidence of my_study" in capsys.readouterr().err


def test_what_was_run_names_other_settings_and_unequal_lengths(tmp_path: Path) -> None:
    games = figures()["figure1_minatar"].envs[:2]
    record(
        tmp_path, "figure1_minatar", games, lambda c: 1.0 if c.train_settings.replay_ratio in (0, 4) else None, seeds=2
    )
    cut(tmp_path, "figure1_minatar", "replay4_trust", 3)
    evidence = read_evidence(tmp_path / "figure1_minatar")
    assert evidence is not None
    other = [
        dataclasses.replace(cell, settings={**cell.settings, "gamma": 0.9}) for cell in evidence.cells if cell.seed == 0
    ]
    kept = [cell for cell in evidence.cells if (cell.seed, cell.method) == (1, "replay4_trust")]
    write_evidence(tmp_path / "figure1_minatar", dataclasses.replace(evidence, cells=(*other, *kept)))
    found = row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")["share"]
    count = sum(cell.steps > 0 for cell in other)
    share = "2/5 games of MinAtar (0/57 of Atari), 4/10 methods, 1–2/3 seeds, 30–100 % of steps"
    assert found == f"{share}; {count} of them with gamma=0.9"


def test_precisions_that_machines_chose_differently_are_named(tmp_path: Path) -> None:
    games = figures()["figure1_minatar"].envs[:1]
    record(tmp_path, "figure1_minatar", games, lambda c: 1.0 if c.method == "replay4_trust" else None, seeds=2)
    evidence = read_evidence(tmp_path / "figure1_minatar")
    assert evidence is not None
    cells = [
        dataclasses.replace(cell, settings={**cell.settings, "precision": ("float32", "bfloat16")[cell.seed]})
        for cell in evidence.cells
        if cell.steps
    ]
    write_evidence(tmp_path / "figure1_minatar", dataclasses.replace(evidence, cells=tuple(cells)))
    found = row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")["share"]
    assert found.endswith("; of two precisions in one task: 1 bfloat16, 1 float32")


def test_a_run_that_is_not_finished_does_not_shorten_those_that_are(tmp_path: Path) -> None:
    def value(cell: Cell) -> list[float] | None:
        with_it = cell.train_settings.replay_ratio in (0, 4) and cell.train_settings.trust_region_delta == 1
        return [(1 + cell.train_settings.replay_ratio) * n for n in range(10)] if with_it else None

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=2)
    whole = row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")
    cut(tmp_path, "figure1_minatar", "replay4_trust", 1, seed=1, state="interrupted")
    found = row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")
    assert found["share"].endswith("1–2/3 seeds, 100 % of steps; without 5 under way")
    assert found["ours"] == whole["ours"]


def test_the_figures_own_runs_count_beside_those_of_a_folder_of_their_own(tmp_path: Path) -> None:
    for name, env, seed in (
        ("atari_pong", "atari/Pong", 0),
        ("openai_baselines", "atari/Pong", 1),
        ("openai_baselines", "atari/Breakout", 1),
    ):
        settings = make_settings(env=env, preset="baselines", seed=seed, total_steps=4_000_000)
        run = write_run(tmp_path / name / "runs" / env[6:], settings_document(settings), [1.0] * 10)
        known = read_evidence(tmp_path / name)
        cells = (*(known.cells if known else ()), describe(run, env[6:], "ACER"))
        write_evidence(tmp_path / name, Evidence("curves", "", (), "command", cells))
    assert row(tmp_path, "OpenAI baselines, Pong", "faster")["share"] == "2/6 seeds, 4.0M of 10M steps"
    assert row(tmp_path, "OpenAI baselines, Breakout", "faster")["share"] == "1/6 seeds, 4.0M of 10M steps"


def test_a_single_run_names_other_settings(tmp_path: Path) -> None:
    settings = make_settings(env="atari/Pong", preset="baselines", replay_ratio=0.0, total_steps=4_000_000)
    run = write_run(tmp_path / "atari_pong" / "runs" / "one", settings_document(settings), [1.0] * 10)
    cell = describe(run, "one", "ACER")
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "command", (cell,)))
    found = row(tmp_path, "OpenAI baselines, Pong", "faster")
    assert found["share"] == "1/6 seeds, 4.0M of 10M steps; with replay_ratio=0.0"


def test_the_help_names_the_folder_of_every_claim(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["verdicts", "--help"])
    said = capsys.readouterr().out
    assert len(folders()) >= 19
    assert all(f"\n  {folder} " in said and "; ".join(sources) in said for folder, sources in folders().items())


def test_of_each_seed_the_longest_run_counts(tmp_path: Path) -> None:
    cells = []
    for number, (seed, steps) in enumerate([(0, 1_000_000), (0, 4_000_000), (1, 2_000_000)]):
        settings = make_settings(env="atari/Pong", preset="baselines", seed=seed, total_steps=steps)
        name = f"run{number}"
        run = write_run(tmp_path / "atari_pong" / "runs" / name, settings_document(settings), [float(number)] * 10)
        cells.append(describe(run, name, "ACER"))
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "command", tuple(cells)))
    found = row(tmp_path, "OpenAI baselines, Pong", "faster")
    assert found["share"] == "2/6 seeds, 2.0–4.0M of 10M steps"
    # That of seed 1 ends before the published mean has made a third of its rise.
    assert found["ours"] == "1.0, 1.0 (means over steps 2.73–4.00M, 2.63–4.00M)"
    assert found["hours"] == f"{6_000 / 3600:.1f}"


@pytest.mark.parametrize(
    ("states", "seeds"),
    [
        ({0: "finished", 1: "interrupted"}, 1),  # one under way is left out where another has ended
        ({0: "finished", 1: "failed"}, 2),  # as a method is not to be judged by the seeds in which it did not
        ({0: "interrupted", 1: "interrupted"}, 2),
    ],
)
def test_seeds_under_way_are_left_out_where_others_have_ended(
    states: dict[int, State], seeds: int, tmp_path: Path
) -> None:
    def leave(folder: str, seed: int, steps: int, state: State) -> Cell:
        settings = make_settings(env="atari/Pong", preset="baselines", seed=seed, total_steps=steps)
        name = f"run{seed}"
        run = write_run(tmp_path / folder / "runs" / name, settings_document(settings), [1.0] * 10)
        return dataclasses.replace(describe(run, name, "ACER"), state=state)

    cells = [leave("atari_pong", seed, 4_000_000, state) for seed, state in states.items()]
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "command", tuple(cells)))
    # A longer run of seed 0 is under way; the one that has ended counts.
    longer = dataclasses.replace(leave("openai_baselines", 0, 6_000_000, "interrupted"), method="baselines")
    write_evidence(tmp_path / "openai_baselines", Evidence("openai_baselines", "", (), "command", (longer,)))
    share = row(tmp_path, "OpenAI baselines, Pong", "faster")["share"]
    assert share == f"{seeds}/6 seeds, {'4.0–6.0' if states[0] == 'interrupted' else '4.0'}M of 10M steps"


def test_coverage_counts_runs_of_the_whole(tmp_path: Path) -> None:
    record(tmp_path, "figure4_ablation", ("control/fish",), lambda cell: 1.0)
    evidence = read_evidence(tmp_path / "figure4_ablation")
    assert evidence is not None
    figure = figures()["figure4_ablation"]
    parts = "1/3 rebuilt tasks, 5/5 methods, 1/3 seeds"
    assert coverage(figure, evidence.cells) == f"{parts}, 1.3 % of steps"
    fifth = [
        dataclasses.replace(cell, settings={**cell.settings, "seed": n}) for cell in evidence.cells for n in range(5)
    ]
    assert coverage(figure, fifth) == "1/3 rebuilt tasks, 5/5 methods, 5 seeds (3 planned), 1.3 % of steps"
    whole = [dataclasses.replace(cell, steps=10**9) for cell in evidence.cells]
    assert coverage(figure, whole) == f"{parts}, 100 % of steps"
    assert coverage(figure, []) == "none of 45 runs"
    for change in ({"draw": 0}, {"method": "another"}):
        assert coverage(figure, [dataclasses.replace(evidence.cells[0], **change)]) == ""


def test_the_command_writes_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verdicts", f"--results={tmp_path}"]) == 0
    page = (tmp_path / "verdicts.md").read_text()
    assert page.startswith("# Is the paper reproduced?\n") and page in capsys.readouterr().out
    short = page.split("\n\n")[1]
    assert short == "30 claims, which we chose: 0 supported, 0 contradicted, 30 undecided."
    assert short in html.unescape((tmp_path / "index.html").read_text())
    assert main(["verdicts", f"--results={tmp_path / 'nowhere'}"]) == 2
    assert "--results=" in capsys.readouterr().err


def test_the_answer_counts_claims_and_names_those_that_are_decided() -> None:
    own, other, aim = KINDS
    verdicts = [("supported", own), ("undecided: needs 3 seeds", own), ("contradicted", other), ("supported", aim)]
    verdicts.append(("supported", own))
    rows = [
        [f"P{n}", "it learns", verdict, "", "", "", f"{n}/6 tasks, 3/3 seeds", "", kind, ""]
        for n, (verdict, kind) in enumerate(verdicts, 1)
    ]
    assert answer(rows) == [
        "5 claims, which we chose: 3 supported, 1 contradicted, 1 undecided.",
        "Of the papers' own experiments, 2 of 3 claims are decided: "
        "it learns (supported: P1, on 1/6 tasks; P5, on 5/6 tasks).",
        "Of the same claims on other tasks, 1 of 1 claims are decided: it learns (contradicted: P3, on 3/6 tasks).",
        "Of our own aim, 1 of 1 claims are decided: it learns (supported: P4, on 4/6 tasks).",
    ]


@pytest.mark.slow
def test_the_committed_verdicts_are_those_of_the_committed_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 2_000)
    table = verdicts(RESULTS)
    with (RESULTS / "verdicts.csv").open(newline="") as file:
        assert [list(map(str, row)) for row in [table.head, *table.rows]] == list(csv.reader(file))
    assert (RESULTS / "verdicts.md").read_text(encoding="utf-8") == page(table)


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

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=2)
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

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=2)
    assert row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")["verdict"] == word


def test_what_is_shown_of_ratios_on_minatar_is_at_the_steps_of_the_comparison(tmp_path: Path) -> None:
    def value(cell: Cell) -> list[float] | None:
        settings = cell.train_settings
        if settings.trust_region_delta != 1 or settings.replay_ratio not in (0, 4):
            return None
        return [float(n) * (2 if settings.replay_ratio == 4 else 1) for n in range(10)]

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=2)
    cut(tmp_path, "figure1_minatar", "replay4_trust", 2)
    found = row(tmp_path, "ACER, Figure 1, on MinAtar", "more replay")
    assert found["verdict"] == "supported"
    less, more = map(float, found["ours"].partition(" (")[0].split(", "))
    assert less < more


def test_every_step_of_the_replay_ratio_counts_on_atari(tmp_path: Path) -> None:
    def value(cell: Cell) -> float | None:
        wanted = cell.train_settings.trust_region_delta == 1 and cell.train_settings.agent == "acer"
        return 1000.0 * {0: 1.0, 1: 3.0, 4: 2.0, 8: 4.0}[int(cell.train_settings.replay_ratio)] if wanted else None

    record(tmp_path, "figure1_atari57", FIVE, value, seeds=2)
    assert row(tmp_path, "ACER, Figure 1", "more replay")["verdict"] == "contradicted"


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


@pytest.mark.parametrize(
    ("tasks", "worse", "words"),
    [
        (("fish", "walker2d"), 3, ("supported", "undecided: needs runs of it")),
        (("fish", "walker2d"), 2, ("contradicted", "undecided: needs runs of it")),
        (("humanoid", "fish"), 4, ("supported", "undecided: needs 4 seeds")),
    ],
)
def test_each_part_of_acer_counts_and_truncation_on_humanoid_alone(
    tmp_path: Path, tasks: tuple[str, str], worse: int, words: tuple[str, str]
) -> None:
    parts = [key for key in figures()["figure4_ablation"].methods if key != "acer_continuous"]

    def value(cell: Cell) -> Any:
        return 5.0 if cell.method == "acer_continuous" else 1.0 if cell.method in parts[:worse] else 9.0

    record(tmp_path, "figure4_ablation", tuple(f"control/{task}" for task in tasks), value, seeds=3)
    found = [row(tmp_path, "ACER, Figure 4", text)["verdict"] for text in ("trust region", "truncation")]
    assert found == list(words)


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


@pytest.mark.parametrize("ranks", [(1.0, 3.0, 2.0), (1.0, 2.0, 3.0), (3.0, 2.0, 1.0)])
def test_three_settings_decide_nothing(tmp_path: Path, ranks: tuple[float, ...]) -> None:
    points = sorted(published_search("control/cheetah"), key=lambda point: point.score)[:3]
    ours = {(p.learning_rate, p.delta): rank for p, rank in zip(points, ranks, strict=True)}
    record(
        tmp_path,
        "figure5_sensitivity",
        ("control/cheetah",),
        lambda cell: ours.get((cell.train_settings.learning_rate, cell.train_settings.trust_region_delta)),
    )
    assert row(tmp_path, "ACER, Figures 5 and 6", "")["verdict"] == "undecided: needs 6 draws"


@pytest.mark.parametrize(
    "other", [{"agent": "dqn"}, {"env": "minatar/breakout"}, {"preset": "paper"}], ids=lambda other: "".join(other)
)
def test_a_curve_is_judged_by_runs_of_acer_with_its_preset_in_its_environment(
    tmp_path: Path, other: dict[str, str]
) -> None:
    settings = {"env": "atari/Pong", "agent": "acer", "preset": "baselines", "seed": 0, "total_steps": 10}
    cell = Cell("long", "other", settings | other, steps=10)
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "", (cell,)))
    assert row(tmp_path, "OpenAI baselines, Pong", "")["share"] == "none of it"


@pytest.mark.parametrize(
    ("rank", "proportional", "word"),
    [
        (50, 20, "contradicted"),
        (20, 30, "supported"),
        (40, 30, "undecided: needs more than 100 runs"),
    ],  # above uniform; between; as cut off
)
def test_priorities_of_a_cliffwalk_lie_between_the_others(
    tmp_path: Path, rank: int, proportional: int, word: str
) -> None:
    (tmp_path / "figure_cliffwalk").mkdir()
    results = [
        Result(kind, replay, size, run, updates * size, True)
        for size in (8, 9)
        for kind in ("tabular", "linear")
        for run in range(4)
        for replay, updates in zip(REPLAYS, (40, rank, proportional, 15, 10), strict=True)
    ]
    write_results(results, tmp_path / "figure_cliffwalk" / "results.csv")
    assert row(tmp_path, "PER, Figure 2", "")["verdict"] == word


def test_coverage_names_settings_that_are_not_the_figures_own() -> None:
    experiment = figures()["figure4_ablation"]
    asked = make_cells(experiment.methods, experiment.envs, experiment.seeds)
    done = [dataclasses.replace(cell, state="finished", steps=cell.total_steps) for cell in asked]
    whole = "3/3 rebuilt tasks, 5/5 methods, 3/3 seeds, 100 % of steps"
    assert coverage(experiment, done) == whole
    other = dataclasses.replace(done[0], settings={**done[0].settings, "gamma": 0.5, "log_interval": 7})
    assert coverage(experiment, [other, *done[1:]]) == f"{whole}; 1 of them with gamma=0.5"
    idle = dataclasses.replace(done[0], settings={**done[0].settings, "priority_epsilon": 0.5})
    assert coverage(experiment, [idle, *done[1:]]) == whole  # it draws uniformly
    given = {"env": done[0].env, "agent": "acer_continuous", "preset": "classic_continuous"}
    for change, said in ({}, ""), ({"gamma": 0.5, "replay_ratio": 2.0}, "gamma=0.5, "):
        settings = settings_document(make_settings(given | change))
        preset = dataclasses.replace(done[0], settings=settings)
        more = ", replay_ratio=2.0" * bool(change)
        assert coverage(experiment, [preset]).endswith(f"; with {said}preset=classic_continuous{more}")
