"""Claims about the blind cliffwalk, on synthetic records whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.cliffwalk import Result, write_results
from acer_tf.reproduction.verdicts import verdicts
from tests.reproduction.report.synthetic import row

pytestmark = pytest.mark.usefixtures("few_resamples")

# In the order of their updates in these tests.
REPLAYS = ("uniform", "rank-based", "proportional", "greedy", "oracle")


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
