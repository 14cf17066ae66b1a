"""Verdicts of synthetic records whose answer is known; the committed table is that of the committed records."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acer_tf.commands.verdicts import main, with_verdicts
from acer_tf.errors import ResultsError
from acer_tf.figures import figure3_continuous
from acer_tf.figures.openai_baselines import published_curve
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.cliffwalk import Result, write_results
from acer_tf.reproduction.control import TASKS
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.evidence import Evidence, describe, read_evidence, write_evidence
from acer_tf.reproduction.figure import Finding, figures, make_cells
from acer_tf.reproduction.published import published_curves, published_search
from acer_tf.reproduction.report.output import Table
from acer_tf.reproduction.scores import human_normalized, published_scores
from acer_tf.reproduction.verdicts import coverage, folders, verdict, verdicts
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document
from tests.reproduction.report.synthetic import outcome, write_run

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


def cut(results: Path, name: str, method: str, rows: int) -> None:
    """Leaves the first rows of a method's runs, as of a sweep under way."""
    evidence = read_evidence(results / name)
    assert evidence is not None
    cells = []
    for cell in evidence.cells:
        path = results / name / "runs" / cell.name / "progress.csv"
        if cell.method == method:
            path.write_text("".join(path.read_text().splitlines(keepends=True)[: rows + 1]))
            cell = dataclasses.replace(cell, steps=rows * cell.steps // 10)
        cells.append(cell)
    write_evidence(results / name, dataclasses.replace(evidence, cells=tuple(cells)))


def row(results: Path, source: str, text: str) -> dict[str, str]:
    table = verdicts(results)
    (found,) = [row for row in table.rows if row[0] == source and text in row[1]]
    return dict(zip(table.head, found, strict=True))


@pytest.mark.parametrize(
    ("finding", "whole", "word"),
    [
        (None, False, "not run"),
        (Finding(None, "", ""), True, "undecided"),
        (Finding(False, "", ""), True, "contradicted"),
        (Finding(True, "", ""), False, "partly"),
        (Finding(True, "", ""), True, "reproduced"),
    ],
)
def test_a_verdict_is_of_what_was_found_and_of_how_much_was_run(
    finding: Finding | None, whole: bool, word: str
) -> None:
    assert verdict(finding, whole) == word


def test_without_records_nothing_is_claimed(tmp_path: Path) -> None:
    table = verdicts(tmp_path)
    assert [row[2:] for row in table.rows] == [["not run", "none of it", "", "", ""]] * 23


FIVE = ("atari/Breakout", "atari/Seaquest", "atari/Qbert", "atari/Pong", "atari/Alien")


@pytest.mark.parametrize(
    ("better", "games", "word"),
    [(1, FIVE, "partly"), (-1, FIVE, "contradicted"), (1, FIVE[:4], "undecided"), (-1, FIVE[:4], "undecided")],
)
def test_more_replay_on_atari(tmp_path: Path, better: int, games: tuple[str, ...], word: str) -> None:
    def value(cell: Cell) -> float | None:
        ratio = cell.train_settings.replay_ratio
        wanted = cell.train_settings.trust_region_delta == 1 and cell.train_settings.agent == "acer" and ratio in (0, 4)
        return 100.0 + better * ratio if wanted else None

    record(tmp_path, "figure1_atari57", games, value)
    found = row(tmp_path, "ACER, Figure 1", "more replay")
    assert found["verdict"] == word
    assert f"{len(games)} games, 4M frames, ratios 0, 4" in found["ours"]
    assert found["what was run"].startswith(f"{2 * len(games)} of 570 runs, 0.4 % to 1.5 % of their steps")


def test_more_replay_is_judged_by_the_games_of_every_ratio(tmp_path: Path) -> None:
    def value(cell: Cell) -> float | None:
        ratio = cell.train_settings.replay_ratio
        if cell.train_settings.trust_region_delta != 1 or cell.train_settings.agent != "acer" or ratio not in (0, 4):
            return None
        if cell.env == "atari/Asterix":
            return 1e6 if ratio == 0 else None
        return 100.0 + ratio

    record(tmp_path, "figure1_atari57", (*FIVE, "atari/Asterix"), value)
    found = row(tmp_path, "ACER, Figure 1", "more replay")
    assert found["verdict"] == "partly" and "5 games" in found["ours"]


@pytest.mark.parametrize(
    ("leads", "word", "count"), [(2, "partly", "2 of 2"), (1, "undecided", "1 of 2"), (0, "contradicted", "0 of 2")]
)
def test_who_leads_on_control_tasks(tmp_path: Path, leads: int, word: str, count: str) -> None:
    tasks = ("control/reacher3", "control/cheetah")

    def value(cell: Cell) -> float:
        is_acer = cell.method == "acer_continuous"
        return 50.0 if is_acer == (cell.env in tasks[:leads]) else 10.0

    record(tmp_path, "figure3_continuous", tasks, value)
    found = row(tmp_path, "ACER, Figure 3", "leads")
    assert (found["verdict"], found["ours"]) == (word, f"first on {count} tasks")


def test_the_trust_region_is_judged_by_pairs(tmp_path: Path) -> None:
    record(
        tmp_path,
        "figure3_continuous",
        ("control/cheetah",),
        lambda cell: 9.0 if cell.method.startswith("trust_") else 1.0,
    )
    found = row(tmp_path, "ACER, Figure 3", "with the trust region")
    assert (found["verdict"], found["ours"]) == ("partly", "better in 2 of 2 pairs of method and task")


def test_methods_are_compared_where_the_shortest_run_ends(tmp_path: Path) -> None:
    """All learn alike, but the sweep has only begun with ACER, or with the methods without a trust region."""
    rising = [float(n) for n in range(10)]
    record(tmp_path, "figure3_continuous", ("control/cheetah",), lambda cell: rising)
    assert row(tmp_path, "ACER, Figure 3", "leads")["verdict"] == "undecided"
    for method in ("acer_continuous", "tis", "a3c"):
        cut(tmp_path, "figure3_continuous", method, 1)
    for text in ("leads", "with the trust region"):
        found = row(tmp_path, "ACER, Figure 3", text)
        assert found["verdict"] == "undecided" and " of 0 " in found["ours"]


def test_ties_and_runs_without_a_score_decide_nothing(tmp_path: Path) -> None:
    record(tmp_path, "figure4_ablation", ("control/fish",), lambda cell: 1.0)
    assert row(tmp_path, "ACER, Figure 4", "")["verdict"] == "undecided"
    record(tmp_path, "figure3_continuous", ("control/fish",), lambda cell: 1.0)
    for path in (tmp_path / "figure3_continuous" / "runs").glob("*/progress.csv"):
        path.write_text("steps,seconds,episodes,mean_return,interval_return\n100000,1,0,,\n")
    for text in ("leads", "with the trust region"):
        assert row(tmp_path, "ACER, Figure 3", text)["verdict"] == "undecided"


@pytest.mark.parametrize(("sign", "word"), [(1, "partly"), (-1, "contradicted"), (0, "undecided")])
def test_settings_are_ranked_within_their_task(tmp_path: Path, sign: int, word: str) -> None:
    """On two tasks whose returns differ in scale: as the paper's, reversed, or all alike."""
    tasks = ("control/cartpole_swingup", "control/fish")
    theirs = {(env, point.learning_rate, point.delta): point.score for env in tasks for point in published_search(env)}

    def value(cell: Cell) -> float | None:
        settings = cell.train_settings
        score = theirs.get((settings.env, settings.learning_rate, settings.trust_region_delta))
        return None if score is None else sign * score + 1000.0 * (settings.env == tasks[0])

    record(tmp_path, "figure5_sensitivity", tasks, value)
    assert row(tmp_path, "ACER, Figures 5 and 6", "")["verdict"] == word


def test_priorities_on_minatar_are_undecided_when_the_seeds_mix(tmp_path: Path) -> None:
    games = figures()["table_minatar_priorities"].envs

    def value(cell: Cell) -> float:
        return 10.0 + (cell.seed if cell.method == "ddqn" else 1.0)

    record(tmp_path, "table_minatar_priorities", games, value, seeds=3)
    assert row(tmp_path, "PER, Table 1, on MinAtar", "")["verdict"] == "undecided"


def test_games_that_only_some_methods_played_decide_nothing(tmp_path: Path) -> None:
    games = figures()["figure1_minatar"].envs

    def value(cell: Cell) -> float | None:
        return 10.0 if cell.env == games[0] or cell.train_settings.replay_ratio == 4 else None

    for name in ("figure1_minatar", "table_minatar_priorities"):
        record(tmp_path, name, games, value)
    for source in ("ACER, Figure 1, on MinAtar", "ACER, Section 4, on MinAtar", "PER, Table 1, on MinAtar"):
        assert row(tmp_path, source, "")["verdict"] == "undecided"


def test_atari_games_without_the_method_or_the_published_score_decide_nothing(tmp_path: Path) -> None:
    games = ("atari/Phoenix", "atari/Pong")
    record(tmp_path, "table_atari49", games, lambda cell: 1.0 if cell.method == "a3c" else None)
    record(tmp_path, "table1_prioritized", games, lambda cell: 1.0 if cell.method == "dqn" else None)
    for source in ("PPO, Table 6", "PER, Table 1"):
        assert row(tmp_path, source, "")["verdict"] == "undecided"
    record(tmp_path, "table_atari49", games, lambda cell: 1.0)
    assert "over 1 game" in row(tmp_path, "PPO, Table 6", "")["ours"]


def test_priorities_on_atari(tmp_path: Path) -> None:
    values = {"ddqn_tuned": 0.0, "ddqn_rank": 5.0, "ddqn_proportional": 9.0}
    for games, word in ((FIVE, "partly"), (FIVE[:4], "undecided")):
        record(tmp_path, "table1_prioritized", games, lambda cell: values.get(cell.method))
        assert row(tmp_path, "PER, Table 1", "")["verdict"] == word


@pytest.mark.parametrize(
    ("factor", "rows", "whole", "word"),
    [
        (1.0, 10, True, "reproduced"),
        (1.0, 10, False, "partly"),  # one seed of ACER, nothing of A3C
        (0.5, 10, False, "contradicted"),
        (0.5, 4, False, "undecided"),
    ],
)
def test_table_6_wants_all_games_and_all_frames(
    tmp_path: Path, factor: float, rows: int, whole: bool, word: str
) -> None:
    """Runs of twice its steps count as they were at 40M frames."""
    published = published_scores("ACER", "training").scores
    games = tuple(f"atari/{game}" for game in published)

    def value(cell: Cell) -> list[float] | None:
        if cell.method != "acer":
            return [0.0] * 10 if whole else None
        return [factor * published[cell.env.removeprefix("atari/")]] * 5 + [1e9] * 5

    seeds = figures()["table_atari49"].seeds if whole else 1
    record(tmp_path, "table_atari49", games, value, seeds=seeds, total_steps=20_000_000)
    if rows < 10:
        cut(tmp_path, "table_atari49", "acer", rows)
    assert row(tmp_path, "PPO, Table 6", "")["verdict"] == word


def test_table_6_is_of_the_games_with_a_score(tmp_path: Path) -> None:
    def value(cell: Cell) -> list[float]:
        return [math.nan if cell.env == "atari/Pong" else 0.0] * 10

    record(tmp_path, "table_atari49", ("atari/Pong", "atari/Breakout"), value)
    found = row(tmp_path, "PPO, Table 6", "")
    assert (found["verdict"], found["ours"].endswith("over 1 game")) == ("undecided", True)
    record(tmp_path / "none", "table_atari49", ("atari/Pong",), value)
    assert row(tmp_path / "none", "PPO, Table 6", "")["ours"] == ""


def test_what_was_not_published_so_early_is_a_dash(tmp_path: Path) -> None:
    record(tmp_path, "figure1_atari57", FIVE, lambda cell: cell.train_settings.replay_ratio)
    assert row(tmp_path, "ACER, Figure 1", "more replay")["the paper's"].startswith("–, –")


def test_an_interrupted_cliffwalk_is_judged_by_its_whole_sizes(tmp_path: Path) -> None:
    (tmp_path / "cliffwalk").mkdir()
    path = tmp_path / "cliffwalk" / "results.csv"
    replays = ("uniform", "rank-based", "proportional", "oracle")
    results = [
        Result(kind, replay, size, seed, 2**size // (1 + 2 * place) + 10 * (4 - place), True)
        for size in (8, 9, 10)
        for kind in ("tabular", "linear")
        for place, replay in enumerate(replays)
        for seed in range(2)
    ]
    write_results(results[:-3], path)
    assert row(tmp_path, "PER, Figure 1", "")["what was run"] == "8 to 9 states of 2 to 16, 2 of 10 runs"
    assert row(tmp_path, "PER, Figure 2", "")["verdict"] == "partly"
    write_results(results[:16], path)
    assert row(tmp_path, "PER, Figure 1", "")["verdict"] == "undecided"
    write_results(results[:3], path)
    assert row(tmp_path, "PER, Figure 1", "")["verdict"] == "not run"
    path.write_text("representation\nnothing else\n")
    with pytest.raises(ResultsError, match="results.csv holds no results"):
        verdicts(tmp_path)


@pytest.mark.parametrize(("runs", "word"), [(2, "partly"), (10, "reproduced")])
def test_the_cliffwalk_is_whole_with_all_sizes_and_runs(tmp_path: Path, runs: int, word: str) -> None:
    (tmp_path / "cliffwalk").mkdir()
    replays = ("uniform", "rank-based", "proportional", "oracle")
    results = [
        Result(kind, replay, size, seed, 4**size // 2 ** (place * size // 4) + 10 * (4 - place), True)
        for size in range(2, 17)
        for kind in ("tabular", "linear")
        for place, replay in enumerate(replays)
        for seed in range(runs)
    ]
    write_results(results, tmp_path / "cliffwalk" / "results.csv")
    assert row(tmp_path, "PER, Figure 2", "")["verdict"] == word


def test_draws_of_a_search_are_not_judged_as_the_preset(tmp_path: Path) -> None:
    experiment = figures()["figure3_continuous"]
    (cell, *_) = make_cells(experiment.methods, ("control/cheetah",), 1, total_steps=1_000_000)
    made = outcome(tmp_path / "made", experiment.methods, [cell], lambda cell: _ten(1.0))
    draw = dataclasses.replace(made.cells[0], draw=0)
    write_evidence(tmp_path / experiment.name, Evidence(experiment.name, "", (), "", (draw,)))
    assert row(tmp_path, "ACER, Figure 3", "leads")["verdict"] == "not run"


ORDER = ("acer_continuous", "trust_tis", "trust_a3c", "tis", "a3c")  # the paper's, on reacher3


@pytest.mark.parametrize(
    ("change", "word", "pairs"),
    [
        ({}, "partly", 10),
        ({"trust_tis": 5.05}, "undecided", 9),  # above ACER by less than the error
        ({"trust_tis": 50.0}, "contradicted", 9),
        ({"a3c": None}, "undecided", None),  # not run
    ],
)
def test_the_order_of_the_best_draws(
    tmp_path: Path, change: dict[str, float | None], word: str, pairs: int | None
) -> None:
    experiment = figures()["figure3_continuous"]
    methods = figure3_continuous.searches(30)
    base = {name: 5.0 - place for place, name in enumerate(ORDER)} | change
    cells = make_cells(methods, ("control/reacher3",), 1, total_steps=1_800_000)

    def value(cell: Cell) -> list[float] | None:
        # Of seven draws the two worst are not counted.
        draws = (-9.0, 0.1, -0.1, 0.2, -0.2, -9.0, 0.0)
        mean, draw = base[cell.method], cell.draw or 0
        return None if mean is None or draw >= len(draws) else [mean + draws[draw]] * 10

    folder = tmp_path / "figure3_best"
    made = outcome(folder, methods, cells, value)
    write_evidence(folder, Evidence(experiment.name, "", (), "", made.cells, options={"draws": 30}))
    found = row(tmp_path, "ACER, Figure 3, its protocol", "order")
    assert found["verdict"] == word
    assert found["ours"].partition("; ")[2] == (f"{pairs} of 10 pairs in the paper's order" if pairs else "")
    if not change:
        means = "ACER 5, Trust-TIS 4, Trust-A3C 3, TIS 2, A3C 1"
        assert found["ours"].partition("; ")[0] == f"reacher3 at 1.8M steps: {means}"
        assert found["what was run"] == "the best of 30 draws: 25 of 150 runs, 9.5 % to 20 % of their steps"
        assert found["the paper's"] == "312.50, 255.52, 85.90, 55.18, 45.33"


@pytest.mark.parametrize(
    ("steps", "value", "holds"),
    [
        (4e6, 13.4, True),
        (4e6, 0.0, False),
        (1e6, -19.0, None),  # above the published band, which has itself not begun to rise
        (1e6, -21.0, None),
        (1e6, 0.0, True),  # it has risen where the published curve has not
        (12e6, 20.0, True),  # further than the published curve
        (4e6, float("nan"), None),  # no game has ended
    ],
)
def test_a_run_that_ends_before_the_published_curve_rises_decides_nothing(
    steps: float, value: float, holds: bool | None
) -> None:
    columns = (np.array([x], float) for x in (steps, steps / 100, 9, value, value))
    assert published_curve(RunCurve("atari/Pong", 0, int(steps), *columns)).holds is holds


def test_the_evidence_of_something_else_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evidence(tmp_path / "figure1_minatar", Evidence("my_study", "", (), ""))
    assert main(["verdicts", f"--results={tmp_path}"]) == 2
    assert "figure1_minatar holds the evidence of my_study" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "word"), [(30, "reproduced"), (10, "partly")])
def test_the_best_of_few_draws_are_not_the_whole(tmp_path: Path, draws: int, word: str) -> None:
    """All tasks and steps, in the paper's order."""
    experiment, methods = figures()["figure3_continuous"], figure3_continuous.searches(30)
    cells = [cell for cell in make_cells(methods, TASKS, 1) if (cell.draw or 0) < 5]
    ends = {env: min(c.total_steps for c in cells if c.env == env) for env in TASKS}

    def value(cell: Cell) -> list[float]:
        env, theirs = cell.env, methods[cell.method].published
        (curve,) = [curve for curve in published_curves(env) if curve.method == theirs]
        return [curve.at(ends[env]) + 1e-6 * (cell.draw or 0)] * 10

    folder = tmp_path / "figure3_best"
    made = outcome(folder, methods, cells, value)
    write_evidence(folder, Evidence(experiment.name, "", (), "", made.cells, options={"draws": draws}))
    found = row(tmp_path, "ACER, Figure 3, its protocol", "order")
    assert found["what was run"] == f"the best of {draws} draws: 150 of 150 runs, 100 % of their steps"
    assert found["verdict"] == word


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
    found = row(tmp_path, "ACER, Figure 1, on MinAtar", "same")["what was run"]
    count = sum(cell.steps > 0 for cell in other)
    assert found == (
        f"none of it on Atari; 2 MinAtar games, 1 to 2 seeds, 0.3 to 1.0M steps; {count} of them with gamma=0.9"
    )


def test_a_single_run_names_other_settings(tmp_path: Path) -> None:
    settings = make_settings(env="atari/Pong", preset="baselines", replay_ratio=0.0, total_steps=4_000_000)
    run = write_run(tmp_path / "atari_pong" / "runs" / "one", settings_document(settings), [1.0] * 10)
    cell = describe(run, "one", "ACER")
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "command", (cell,)))
    found = row(tmp_path, "OpenAI baselines, Pong", "learns")
    assert found["what was run"] == "one run, 4.0M of 10M steps; with replay_ratio=0.0"


def test_the_help_names_the_folder_of_every_claim(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["verdicts", "--help"])
    said = capsys.readouterr().out
    assert len(folders()) >= 19
    assert all(f"\n  {folder} " in said and "; ".join(sources) in said for folder, sources in folders().items())


def test_of_several_runs_the_longest_counts_and_the_table_says_so(tmp_path: Path) -> None:
    cells = []
    for seed, steps in enumerate((1_000_000, 4_000_000, 2_000_000)):
        settings = make_settings(env="atari/Pong", preset="baselines", seed=seed, total_steps=steps)
        name = f"seed{seed}"
        run = write_run(tmp_path / "atari_pong" / "runs" / name, settings_document(settings), [float(seed)] * 10)
        cells.append(describe(run, name, "ACER"))
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "command", tuple(cells)))
    found = row(tmp_path, "OpenAI baselines, Pong", "learns")
    assert found["what was run"] == "the longest of 3 runs, 4.0M of 10M steps"
    assert found["ours"] == "1.0"


def test_coverage_counts_runs_of_the_whole(tmp_path: Path) -> None:
    record(tmp_path, "figure4_ablation", ("control/fish",), lambda cell: 1.0)
    evidence = read_evidence(tmp_path / "figure4_ablation")
    assert evidence is not None
    figure = figures()["figure4_ablation"]
    found = coverage(figure, evidence.cells)
    assert found is not None
    assert (found.runs, found.whole_runs, found.is_whole) == (5, 45, False)
    assert str(found) == "5 of 45 runs, 1.3 % of their steps"
    whole = [dataclasses.replace(cell, steps=10**9) for cell in evidence.cells]
    assert str(coverage(figure, whole)) == "5 of 45 runs, 100 % of their steps"
    assert str(coverage(figure, [])) == "none of 45 runs"
    for change in ({"draw": 0}, {"method": "another"}):
        assert coverage(figure, [dataclasses.replace(evidence.cells[0], **change)]) is None


def test_the_readme_gets_the_table_between_its_marks() -> None:
    table = Table("", ["claim", "records"], [["a", "cliffwalk"], ["b", ""]])
    text = "head\n<!-- verdicts -->\nold\n<!-- end -->\ntail\n"
    lines = with_verdicts(text, table).splitlines()
    assert lines[:2] == ["head", "<!-- verdicts -->"]
    assert lines[4:] == ["| a | [cliffwalk](cliffwalk) |", "| b |  |", "<!-- end -->", "tail"]


def test_what_a_readme_has_below_its_first_table_stays() -> None:
    text = "head\n<!-- verdicts -->\n\n## Notes\n"
    table = Table("", ["claim", "records"], [["a", ""]])
    made = with_verdicts(text, table)
    assert made.endswith("<!-- end -->\n\n## Notes\n")
    assert with_verdicts(made, table) == made


def test_the_command_writes_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verdicts", f"--results={tmp_path}"]) == 0
    assert (tmp_path / "verdicts.md").read_text() in capsys.readouterr().out
    assert (tmp_path / "index.html").exists()
    assert main(["verdicts", f"--results={tmp_path / 'nowhere'}"]) == 2
    assert "--results=" in capsys.readouterr().err


@pytest.mark.slow
def test_the_committed_verdicts_are_those_of_the_committed_records() -> None:
    table = verdicts(RESULTS)
    with (RESULTS / "verdicts.csv").open(newline="") as file:
        assert [list(map(str, row)) for row in [table.head, *table.rows]] == list(csv.reader(file))
    readme = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert with_verdicts(readme, table) == readme


def test_a_run_that_is_longer_than_the_published_curve_is_judged_at_its_end() -> None:
    columns = (np.array(x, float) for x in ([10e6, 20e6], [1, 2], [9, 18], [0, 20], [0, 20]))
    assert published_curve(RunCurve("atari/Pong", 0, int(20e6), *columns)).holds is False


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "word"), [(1, "partly"), (-1, "contradicted")])
def test_the_gain_by_the_trust_region_is_compared_between_the_least_and_the_most_replay(
    tmp_path: Path, sign: int, word: str
) -> None:
    def value(cell: Cell) -> Any:
        with_it = cell.train_settings.trust_region_delta == 1
        return 10.0 + sign * with_it * (cell.train_settings.replay_ratio - 2)

    record(tmp_path, "figure1_minatar", figures()["figure1_minatar"].envs, value, seeds=2)
    assert row(tmp_path, "ACER, Section 4, on MinAtar", "")["verdict"] == word
    # A pair that has come less far says nothing of the ratio.
    for method in ("replay8_trust", "replay8"):
        cut(tmp_path, "figure1_minatar", method, 4)
    assert row(tmp_path, "ACER, Section 4, on MinAtar", "")["verdict"] == "undecided"


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({0: 1.0, 1: 2.0, 4: 3.0}, "partly"),
        ({0: 1.0, 1: 2.0, 4: 2.0}, "undecided"),  # one gain and one tie
        ({0: 1.0, 1: 3.0, 4: 2.0}, "contradicted"),
        ({0: 1.0, 1: 2.0, 4: None}, "partly"),
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
    assert row(tmp_path, "ACER, Figure 1, on MinAtar", "same")["verdict"] == word


def test_every_step_of_the_replay_ratio_counts_on_atari(tmp_path: Path) -> None:
    def value(cell: Cell) -> float | None:
        wanted = cell.train_settings.trust_region_delta == 1 and cell.train_settings.agent == "acer"
        return 1000.0 * {0: 1.0, 1: 3.0, 4: 2.0, 8: 4.0}[int(cell.train_settings.replay_ratio)] if wanted else None

    record(tmp_path, "figure1_atari57", FIVE, value)
    assert row(tmp_path, "ACER, Figure 1", "more replay")["verdict"] == "contradicted"


@pytest.mark.parametrize(("gain", "word"), [(1.0, "partly"), (-1.0, "contradicted")])
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
    assert "probability 0.67 [0.4" in found["ours"] and found["verdict"] == "undecided"


@pytest.mark.parametrize(("lower", "word"), [(4, "partly"), (3, "partly"), (2, "undecided"), (1, "contradicted")])
def test_the_parts_of_acer_are_judged_by_their_majority(tmp_path: Path, lower: int, word: str) -> None:
    parts = [key for key in figures()["figure4_ablation"].methods if key != "acer_continuous"]

    def value(cell: Cell) -> Any:
        return 5.0 if cell.method == "acer_continuous" else 1.0 if cell.method in parts[:lower] else 9.0

    record(tmp_path, "figure4_ablation", ("control/fish",), value)
    assert row(tmp_path, "ACER, Figure 4", "")["verdict"] == word


def test_replay_ratios_are_compared_at_equal_frames(tmp_path: Path) -> None:
    """Ratio 4 begins lower and ends higher, but only the first half of ratio 0 has been run."""

    def value(cell: Cell) -> Any:
        ratio = cell.train_settings.replay_ratio
        if cell.train_settings.trust_region_delta != 1 or cell.train_settings.agent != "acer" or ratio not in (0, 4):
            return None
        return [1000.0 * n for n in range(10)] if ratio == 4 else [5000.0] * 10

    record(tmp_path, "figure1_atari57", FIVE, value)
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
    assert row(tmp_path, "ACER, Figures 5 and 6", "")["verdict"] == "undecided"


def test_a_run_within_the_published_band_reproduces_the_curve() -> None:
    columns = (np.array([x], float) for x in (4e6, 4e4, 9, 11.5, 11.5))  # the mean is 12.7, the band begins at 10.8
    assert published_curve(RunCurve("atari/Pong", 0, int(4e6), *columns)).holds is True


@pytest.mark.parametrize(
    "other", [{"agent": "dqn"}, {"env": "minatar/breakout"}, {"preset": "paper"}], ids=lambda other: "".join(other)
)
def test_a_curve_is_judged_by_runs_of_acer_with_its_preset_in_its_environment(
    tmp_path: Path, other: dict[str, str]
) -> None:
    settings = {"env": "atari/Pong", "agent": "acer", "preset": "baselines", "seed": 0, "total_steps": 10}
    cell = Cell("long", "other", settings | other, steps=10)
    write_evidence(tmp_path / "atari_pong", Evidence("curves", "", (), "", (cell,)))
    assert row(tmp_path, "OpenAI baselines, Pong", "")["verdict"] == "not run"


@pytest.mark.parametrize(
    ("rank", "proportional", "word"),
    [(50, 20, "contradicted"), (20, 30, "partly"), (40, 30, "undecided")],  # above uniform; between; as cut off
)
def test_priorities_of_a_cliffwalk_lie_between_the_others(
    tmp_path: Path, rank: int, proportional: int, word: str
) -> None:
    (tmp_path / "cliffwalk").mkdir()
    results = [
        Result(kind, replay, size, 0, updates * size, True)
        for size in (8, 9)
        for kind in ("tabular", "linear")
        for replay, updates in {"uniform": 40, "rank-based": rank, "proportional": proportional, "oracle": 10}.items()
    ]
    write_results(results, tmp_path / "cliffwalk" / "results.csv")
    assert row(tmp_path, "PER, Figure 2", "")["verdict"] == word


def test_only_all_runs_at_full_length_are_the_whole() -> None:
    experiment = figures()["figure4_ablation"]
    asked = make_cells(experiment.methods, experiment.envs, experiment.seeds)
    done = [dataclasses.replace(cell, state="finished", steps=cell.total_steps) for cell in asked]
    half = dataclasses.replace(done[0], steps=done[0].total_steps // 2)
    other = dataclasses.replace(done[0], settings={**done[0].settings, "gamma": 0.5, "log_interval": 7})
    given = (done, [half, *done[1:]], done[1:], [other, *done[1:]])
    scopes = [coverage(experiment, cells) for cells in given]
    assert [found.is_whole for found in scopes] == [True, False, False, False]
    assert str(scopes[-1]) == "45 of 45 runs, 100 % of their steps; 1 of them with gamma=0.5"
    given = {"env": done[0].env, "agent": "acer_continuous", "preset": "classic_continuous"}
    for change, said in ({}, ""), ({"gamma": 0.5, "replay_ratio": 2.0}, "gamma=0.5, "):
        settings = settings_document(make_settings(given | change))
        preset = dataclasses.replace(done[0], settings=settings)
        more = ", replay_ratio=2.0" * bool(change)
        assert str(coverage(experiment, [preset])).endswith(f"; with {said}preset=classic_continuous{more}")
