"""Tables and figures of MinAtar runs, against numbers worked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.envs.families import MINATAR_GAMES
from acer_tf.reproduction import minatar
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.statistics import Comparison
from tests.reproduction.report.synthetic import outcome, row_of

pytestmark = pytest.mark.usefixtures("few_resamples")
AGAINST = {"replay4_trust": "replay4"}
METHODS = figures()["figure1_minatar"].methods


@pytest.fixture(autouse=True)
def references(monkeypatch):
    games = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
    references = dict.fromkeys(games, minatar.MinatarReference(1.0, 11.0))
    monkeypatch.setattr(minatar, "minatar_references", lambda: references)


def cells(*names, seeds=2):
    return make_cells({name: METHODS[name] for name in names}, minatar.MINATAR[:2], seeds)


def test_scores_are_pooled_over_games_and_seeds_and_compared(tmp_path):
    # Normalised: trust region 0.5 and 1 in one game, 1 and 1.5 in the other; without it always 0.75.
    raw = {
        ("asterix", 0): 6,
        ("asterix", 1): 11,
        ("breakout", 0): 11,
        ("breakout", 1): 16,
    }

    def returns(cell):
        if not cell.method.endswith("_trust"):
            return [8.5] * 10
        return [1.0] * 9 + [raw[cell.env.removeprefix("minatar/"), cell.seed]]

    report = minatar.report(outcome(tmp_path, METHODS, cells("replay4_trust", "replay4"), returns), AGAINST)
    row = row_of(report.tables["table"], "ACER, replay 4")
    assert (row["games"], row["seeds"], row["steps, all runs"]) == ("2 of 2", "2", "1,000,000")
    assert row["interquartile mean [95 %]"].startswith("1.00 [")
    # Asterix 0.5 < 0.75 < 1, breakout both better.
    # Two seeds of two games are ordered so by chance once in 36 times: no interval.
    assert row["probability of improvement [95 %]"] == "0.75"
    assert row["compared with"] == "ACER, replay 4, no trust region"
    assert row["hours per run"] == f"{1000 / 3600:.2f}"
    assert row_of(report.tables["games"], "asterix")["ACER, replay 4"].startswith("8.50 ± 2.50; 8.50 [")
    steps, hours = report.figures["figure"].figure.axes
    line = {line.get_label(): line for line in steps.lines}["ACER, replay 4, 2 games, 2 seeds"]
    assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (pytest.approx(1e6), pytest.approx(1.0))
    assert hours.lines[0].get_xdata()[-1] == pytest.approx(1000 / 3600)
    assert hours.get_xscale() == "linear"
    games = report.figures["games"].figure.axes[0]
    for name, style in {"ACER, replay 4": ("C2", "-"), "ACER, replay 4, no trust": ("C2", ":")}.items():
        assert _style(games, name) == _style(steps, name) == style


def _style(axes, begin):
    """Colour and line style of the line whose label begins so, with its count of seeds or games."""
    ends = tuple(f"{begin}{end}" for end in (" region (", " region, 2", " (", ", 2"))
    (line,) = [line for line in axes.lines if line.get_label().startswith(ends)]
    return line.get_color(), line.get_linestyle()


def test_hours_that_differ_much_have_a_logarithmic_axis(tmp_path):
    made = outcome(tmp_path, METHODS, cells("replay4_trust", "ddqn", seeds=1), lambda cell: [6.0] * 10)
    for env in minatar.MINATAR[:2]:
        made.runs("ddqn", env)[:] = [run._replace(seconds=4 * run.seconds) for run in made.runs("ddqn", env)]
    steps, hours = minatar.report(made, AGAINST).figures["figure"].figure.axes
    assert (steps.get_xscale(), hours.get_xscale()) == ("linear", "log")


def test_what_each_method_is_compared_with(tmp_path):
    found = {}
    for name in ("figure1_minatar", "table_minatar_priorities"):
        figure = figures()[name]
        made = outcome(
            tmp_path / name,
            figure.methods,
            make_cells(figure.methods, figure.envs[:1], 2, total_steps=1_000_000),
            lambda cell: [5.0] * 10,
        )
        table = figure.report(made).tables["table"]
        found |= {key: row_of(table, m.label)["compared with"] for key, m in figure.methods.items()}
    names = {"without": "ACER, replay {}, no trust region", "with": "ACER, replay {}"}
    assert found == {
        **{f"replay{ratio}_trust": names["without"].format(ratio) for ratio in (0, 1, 4, 8)},
        "replay0": "",
        "replay1": names["without"].format(0),
        "replay4": names["without"].format(1),
        "replay8": names["without"].format(4),
        "ddqn": "",
        "prioritized": "Double DQN",
        "ddqn_proportional": "Double DQN",
        "ddqn_rank": "Double DQN",
        "acer": "",
        "acer_proportional": "ACER, replay 4",
        "acer_rank": "ACER, replay 4",
    }


def test_seeds_that_not_all_games_have_are_left_out_of_the_estimates(tmp_path):
    def returns(cell):
        return None if (cell.env, cell.seed) == ("minatar/breakout", 1) else [6.0] * 10

    made = outcome(tmp_path, METHODS, cells("replay4_trust"), returns)
    report = minatar.report(made, AGAINST)
    row = row_of(report.tables["table"], "ACER, replay 4")
    assert (row["cells finished"], row["seeds"]) == ("3 of 4", "1")
    assert row["interquartile mean [95 %]"] == "0.50"
    assert row["probability of improvement [95 %]"] == ""


def test_a_method_is_as_long_as_its_compared_runs_and_not_as_one_that_is_left_out(tmp_path):
    """Seed 1 has just begun in one game, where the other method stands too."""
    made = outcome(tmp_path, METHODS, cells("replay4_trust", "replay4"), lambda cell: [6.0] * 10)
    first, second = minatar.MINATAR[:2]
    made.runs("replay4_trust", first)[1:] = [made.runs("replay4_trust", first)[1].until(100_000)]
    made.runs("replay4_trust", second)[1:] = []
    for env in (first, second):
        made.runs("replay4", env)[:] = [run.until(100_000) for run in made.runs("replay4", env)]
    row = row_of(minatar.report(made, AGAINST).tables["table"], "ACER, replay 4")
    assert (row["seeds"], row["steps, all runs"]) == ("1", "1,000,000")
    assert row["probability of improvement [95 %]"] == "0.50"


def test_a_method_that_is_not_shown_is_not_named(tmp_path):
    made = outcome(tmp_path, METHODS, cells("replay4_trust"), lambda cell: [6.0] * 10)
    row = row_of(minatar.report(made, AGAINST).tables["table"], "ACER, replay 4")
    assert (row["compared with"], row["probability of improvement [95 %]"]) == ("", "")


def test_methods_are_compared_where_the_shorter_one_ends(tmp_path):
    made = outcome(
        tmp_path,
        METHODS,
        cells("replay4_trust", "replay4", seeds=1),
        lambda cell: [6.0] * 10 if cell.method == "replay4_trust" else [1.0] * 5 + [11.0] * 5,
    )
    for env in minatar.MINATAR[:2]:
        (run,) = made.runs("replay4_trust", env)
        made.runs("replay4_trust", env)[:] = [run.until(500_000)]
    row = row_of(minatar.report(made, AGAINST).tables["table"], "ACER, replay 4")
    assert (row["steps, all runs"], row["probability of improvement [95 %]"]) == ("500,000", "1.00")


def test_seeds_are_compared_where_the_shortest_ends(tmp_path):
    made = outcome(tmp_path, METHODS, cells("replay4_trust"), lambda cell: [1.0] * 5 + [11.0] * 5)
    runs = made.runs("replay4_trust", "minatar/asterix")
    runs[0] = runs[0].until(500_000)
    tables = minatar.report(made, AGAINST).tables
    assert row_of(tables["table"], "ACER, replay 4")["interquartile mean [95 %]"].startswith("0.00 [")
    assert row_of(tables["games"], "asterix")["ACER, replay 4"].startswith("1.00 ± 0.00")


def test_nothing_begun_is_shown_as_nothing(tmp_path):
    report = minatar.report(outcome(tmp_path, METHODS, cells("replay4_trust"), lambda cell: None), AGAINST)
    assert row_of(report.tables["table"], "ACER, replay 4")["interquartile mean [95 %]"] == ""


def test_the_reference_of_random_play_is_that_of_random_play(monkeypatch):
    monkeypatch.undo()
    references = minatar.minatar_references()
    assert set(references) == set(MINATAR_GAMES)
    env = envs.make("minatar/breakout", 50, 3, threads=1)
    generator, returns, scores = np.random.default_rng(3), np.zeros(50), []
    env.reset()
    for _ in range(200):
        step = env.step(generator.integers(env.spec.num_actions, size=50))
        returns += step.reward
        scores += returns[step.last].tolist()
        returns[step.last] = 0.0
    env.close()
    error = np.std(scores) / len(scores) ** 0.5
    assert len(scores) > 500
    assert all(reference > random for random, reference in references.values())
    assert np.mean(scores) == pytest.approx(references["breakout"].random, abs=4 * error)
    assert minatar.normalize("minatar/breakout", references["breakout"].reference) == 1.0


def test_a_ratio_without_a_score_is_not_compared(monkeypatch):
    def finals(recorded, keys):
        return [] if "replay1_trust" in keys else [np.full((3, 5), 0.5) for _ in keys]

    monkeypatch.setattr(minatar, "finals", finals)
    compared = []
    recorded = SimpleNamespace(improvement=lambda more, less, *_: compared.append((more, less)) or Comparison())
    (claim, *_) = figures()["figure1_minatar"].claims
    finding = claim.judge(recorded)
    assert compared == [("replay4_trust", "replay0_trust"), ("replay8_trust", "replay4_trust")]
    assert finding.ours == "0.50, 0.50, 0.50 (interquartile means, ratios 0, 4, 8)"
