"""Verdicts: the rule, the answer and the command; the committed table is that of the committed records."""

from __future__ import annotations

import csv
import html
import math
from pathlib import Path

import pytest

from acer_tf.commands.verdicts import main, page
from acer_tf.reproduction import statistics
from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.statistics import Comparison, Estimate
from acer_tf.reproduction.verdicts import KINDS, answer, decide, folders, verdicts

pytestmark = pytest.mark.usefixtures("few_resamples")

RESULTS = Path(__file__).resolve().parents[3] / "results"

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


def test_the_evidence_of_something_else_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evidence(tmp_path / "figure1_minatar", Evidence("my_study", "", (), ""))
    assert main(["verdicts", f"--results={tmp_path}"]) == 2
    assert "figure1_minatar holds the evidence of my_study" in capsys.readouterr().err


def test_the_help_names_the_folder_of_every_claim(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["verdicts", "--help"])
    said = capsys.readouterr().out
    assert len(folders()) >= 19
    assert all(f"\n  {folder} " in said and "; ".join(sources) in said for folder, sources in folders().items())


def test_the_command_writes_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verdicts", f"--results={tmp_path}"]) == 0
    page = (tmp_path / "verdicts.md").read_text()
    assert page.startswith("# Is the paper reproduced?\n") and page in capsys.readouterr().out
    short = page.split("\n\n")[1]
    none = "0 supported (0 different claims), 0 contradicted, 30 undecided (30 with nothing to compare yet)"
    assert short == f"30 claims on single experiments, which we chose: {none}."
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
        "5 claims on single experiments, which we chose: 3 supported (1 different claims), 1 contradicted, 1 undecided "
        "(1 with nothing to compare yet).",
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
