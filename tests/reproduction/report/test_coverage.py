"""How much of a figure was run, and which of its runs a verdict is on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.evidence import Evidence, read_evidence, write_evidence
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.verdicts import coverage, own_design
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document
from tests.reproduction.report.synthetic import cut, outcome, record, row

pytestmark = pytest.mark.usefixtures("few_resamples")


def test_a_run_that_failed_counts_as_far_as_it_came(tmp_path: Path) -> None:
    figure = figures()["figure1_minatar"]
    record(tmp_path, figure.name, figure.envs, lambda cell: 1.0, seeds=2)
    cut(tmp_path, figure.name, "replay4_trust", 5, seed=1, state="failed")
    judged = own_design(figure, tmp_path / figure.name)
    assert judged is not None and judged.share.endswith(", 2/3 seeds, 50–100 % of steps")


def test_draws_of_a_search_are_not_judged_as_the_preset(tmp_path: Path) -> None:
    experiment = figures()["figure3_continuous"]
    (cell, *_) = make_cells(experiment.methods, ("control/cheetah",), 1, total_steps=1_000_000)
    made = outcome(tmp_path / "made", experiment.methods, [cell], lambda cell: [1.0] * 10)
    draw = dataclasses.replace(made.cells[0], draw=0)
    write_evidence(tmp_path / experiment.name, Evidence(experiment.name, "", (), "", (draw,)))
    assert row(tmp_path, "ACER, Figure 3", "leads")["share"] == "none of it"


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
    share = "2/5 games of MinAtar (none of the paper's), 4/10 methods, 1–2/3 seeds, 30–100 % of steps"
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
