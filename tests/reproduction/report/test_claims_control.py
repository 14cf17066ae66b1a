"""Claims about the control tasks, on synthetic records whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acer_tf.figures import figure3_draws, figure5_sensitivity
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.published import published_search
from tests.core import first_in_core
from tests.reproduction.report.synthetic import cut, outcome, record, row

pytestmark = pytest.mark.usefixtures("few_resamples")


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
    assert found["published"] == "7 of 8 at 9–79M steps (A3C's 19–159M)"


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
        assert found["published"] == "312, 256, 86, 55, 45 (best 5, equal steps)"
    helped = row(tmp_path, "ACER, Figure 3, its protocol", "with the trust region")
    assert helped["verdict"].startswith(word if change.get("a3c", 1) is None else "supported")


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
