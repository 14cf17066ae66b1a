"""Claims about the published curves of OpenAI baselines, on synthetic records whose answer is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from acer_tf.figures.openai_baselines import published_curve
from acer_tf.reproduction.cells import Cell, State
from acer_tf.reproduction.collecting import describe
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.evidence import Evidence, read_evidence, write_evidence
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.verdicts import decide
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document
from tests.reproduction.report.synthetic import row, write_run

pytestmark = pytest.mark.usefixtures("few_resamples")


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
