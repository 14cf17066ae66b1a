"""Tables and figures of Atari runs, against numbers worked by hand."""

import dataclasses

import numpy as np
import pytest

from acer_tf.figures import figure1_atari57, table1_prioritized, table_atari49, table_atari57
from acer_tf.reproduction import atari
from acer_tf.reproduction.figure import make_cells
from acer_tf.reproduction.published import figure1_by_frames
from acer_tf.reproduction.scores import WEIGHTS, atari_references, human_normalized, published_scores
from tests.reproduction.report.synthetic import outcome, row_of

pytestmark = pytest.mark.usefixtures("few_resamples")
GAMES = ("Pong", "Breakout", "Qbert")
ENVS = tuple(f"atari/{game}" for game in GAMES)
FIRST = {"Pong": 0.0, "Breakout": 0.5, "Qbert": 2.0}  # human-normalised
FIGURE1, TABLE49 = figure1_atari57.FIGURE.methods, table_atari49.FIGURE.methods


def raw(game, normalized):
    random, human = atari_references("training")[game]
    return random + normalized * (human - random)


def game_of(cell):
    return cell.env.removeprefix("atari/")


def cells_of(methods, seeds=1, total_steps=10_000_000):
    return make_cells(methods, ENVS, seeds, total_steps=total_steps)


def test_figure1_takes_the_median_over_games_and_its_cumulative_maximum(tmp_path):
    methods = {k: m for k, m in FIGURE1.items() if k in ("replay4_trust", "replay4", "dqn")}

    def returns(cell):
        if cell.method == "dqn":
            return None
        # Intervals of 1M steps, four windows each. Breakout, the median, rises to 1.5 and falls to 1.
        steps = [FIRST[game_of(cell)]] * 10 if game_of(cell) != "Breakout" else [0.5] * 5 + [1.5] * 4 + [1.0]
        return [raw(game_of(cell), value) for value in steps]

    report = figure1_atari57.report(outcome(tmp_path, methods, cells_of(methods), returns))
    row = row_of(report.tables["table"], "ACER, replay 4")
    assert (row["cells finished"], row["frames (M)"]) == ("3 of 3", "40.0")
    assert (row["median"], row["cumulative maximum"]) == ("1.00", "1.50")
    method = next(m for m in figure1_by_frames() if m.label == "ACER, replay 4")
    published = figure1_by_frames()[method].at(40e6)
    assert 0.4 < published < 0.7
    assert float(row["published"]) == pytest.approx(published, abs=0.005)
    assert row["difference"] == ""  # the paper's median is over 57 games
    assert float(row["hours per run"]) == pytest.approx(10_000 / 3600, abs=0.05)
    assert row_of(report.tables["table"], "DQN")["cells finished"] == "0 of 3"
    lines = {line.get_label(): line for line in report.figures["figure"].figure.axes[0].lines}
    ours = lines["ACER, replay 4, 3 games"]
    assert {"ACER, replay 4, paper", "ACER, replay 4, no trust region, paper", "DQN, paper"} <= set(lines)
    assert ours.get_ydata()[-1] == pytest.approx(1.5)
    assert ours.get_xdata()[-1] == pytest.approx(40.0)
    assert (ours.get_linestyle(), lines["ACER, replay 4, no trust region, 3 games"].get_linestyle()) == ("-", ":")


def test_the_median_needs_a_score_of_every_game(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    made = outcome(tmp_path, methods, cells_of(methods), lambda cell: [1.0] * 10)
    late = made.runs("replay4_trust", "atari/Pong")
    late[0] = late[0]._replace(episodes=np.maximum(0.0, late[0].episodes - 50))  # none has ended before half of the run
    found = atari.medians(made.by_env("replay4_trust"), "steps")
    assert np.isfinite(found.values[found.points > 7e6]).all()
    assert np.isnan(found.values[found.points < 5e6]).all()


def test_a_median_without_any_score_is_an_empty_cell(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    made = outcome(tmp_path, methods, cells_of(methods), lambda cell: [1.0] * 10)
    for runs in made.by_env("replay4_trust").values():
        runs[:] = [run._replace(episodes=0 * run.episodes) for run in runs]
    row = row_of(figure1_atari57.report(made).tables["table"], "ACER, replay 4")
    assert (row["median"], row["cumulative maximum"]) == ("", "")


def test_figure1_of_atari5_estimates_the_median_over_57_games(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    games = tuple(f"atari/{game}" for game in WEIGHTS)
    cells = make_cells(methods, games, 1, total_steps=10_000_000)
    report = figure1_atari57.report(outcome(tmp_path, methods, cells, lambda cell: [raw(game_of(cell), 1.0)] * 10))
    row = row_of(report.tables["table"], "ACER, replay 4")
    # Human in all five: 101^(sum of the weights) - 1 per cent, and 0.79 and 1.33 times that.
    assert (row["median over"], row["cumulative maximum"]) == ("57 games estimated from 5", "0.85 [0.67, 1.13]")
    assert float(row["difference"]) == pytest.approx(0.85 - float(row["published"]), abs=0.011)
    axes = report.figures["figure"].figure.axes[0]
    assert [line.get_label() for line in axes.lines][0] == "ACER, replay 4, 57 games estimated from 5"
    assert len(axes.collections) == 1  # the interval
    assert "estimated" in report.tables["table"].caption


def test_figure1_ends_where_the_shortest_run_ends(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    cells = cells_of(methods)
    made = outcome(tmp_path, methods, cells, lambda cell: [raw(game_of(cell), FIRST[game_of(cell)])] * 10)
    short = made.runs("replay4_trust", "atari/Pong")
    short[0] = short[0]._replace(**{n: getattr(short[0], n)[:3] for n in short[0]._fields[3:]})
    row = row_of(figure1_atari57.report(made).tables["table"], "ACER, replay 4")
    assert (row["frames (M)"], row["median"]) == ("12.0", "0.50")


def test_the_table_of_57_has_raw_and_normalised_scores_beside_the_published(tmp_path):
    methods = {k: m for k, m in FIGURE1.items() if k in ("replay4_trust", "dqn")}
    seeds = {0: 1.0, 1: 3.0}

    def returns(cell):
        if cell.method == "dqn" and game_of(cell) != "Pong":
            return None
        return [raw(game_of(cell), seeds[cell.seed] * FIRST[game_of(cell)])] * 10

    tables = table_atari57.report(outcome(tmp_path, methods, cells_of(methods, seeds=2), returns)).tables
    assert row_of(tables["normalized"], "Breakout")["ACER, replay 4"] == "1.00 ± 0.50"
    assert row_of(tables["normalized"], "Breakout")["DQN"] == ""
    mean = raw("Breakout", 1.0)
    random, human = atari_references("training")["Breakout"]
    assert row_of(tables["table"], "Breakout")["ACER, replay 4"] == f"{mean:,.2f} ± {0.5 * (human - random):,.2f}"
    last = row_of(tables["normalized"], "median over games")
    assert (last["ACER, replay 4"], last["DQN"]) == ("1.00 (3 games)", "0.00 (1 game)")
    theirs = published_scores("Rainbow", "no-op starts")
    assert row_of(tables["table"], "Pong")["Rainbow (no-op starts, published)"] == f"{theirs.scores['Pong']:,.2f}"
    assert last["Rainbow (no-op starts, published)"] == f"{theirs.median(GAMES):,.2f} (3 games)"


def test_the_table_of_49_lays_the_last_100_games_beside_the_ppo_papers(tmp_path):
    cells = make_cells(TABLE49, ("atari/Pong", "atari/Asterix"), 2)

    def returns(cell):
        return None if "Asterix" in cell.env else [-21.0] * 9 + [18.0 + 2 * cell.seed]

    report = table_atari49.report(outcome(tmp_path, TABLE49, cells, returns))
    row = row_of(report.tables["table"], "Pong")
    assert row["ACER"] == "19.00 ± 1.00"
    published = published_scores("ACER", "training").scores["Pong"]
    assert row["ACER, published at 40M"] == f"{published:.2f}"
    assert row["ACER, difference"] == f"{19.0 - published:+.2f}"
    assert row["ACER, frames (M)"] == "40.0"
    assert row_of(report.tables["table"], "Asterix")["ACER"] == ""
    assert row_of(report.tables["table"], "Asterix")["PPO, published at 40M"] != ""
    last = row_of(report.tables["table"], "median over games, human-normalised")
    random, human = atari_references()["Pong"]
    assert last["ACER"] == f"{(19 - random) / (human - random):.2f} (1 game)"
    theirs = human_normalized("Pong", published, protocol="training")
    assert last["ACER, published at 40M"] == f"{theirs:.2f} (1 game)"
    assert row_of(report.tables["table"], "cells finished")["ACER"] == "2 of 4"


def test_a_short_run_has_no_difference_to_40m_frames(tmp_path):
    cells = make_cells(TABLE49, ("atari/Pong",), 1, total_steps=1_000_000)
    row = row_of(
        table_atari49.report(outcome(tmp_path, TABLE49, cells, lambda cell: [-20.0] * 10)).tables["table"],
        "Pong",
    )
    assert (row["ACER, frames (M)"], row["ACER, difference"]) == ("4.0", "")
    assert row["OpenAI baselines' ACER at equal frames"] == "-19.99, -19.98"


def test_a_longer_run_counts_as_it_was_at_40m_frames(tmp_path):
    cells = make_cells(TABLE49, ("atari/Pong",), 1, total_steps=20_000_000)
    made = outcome(tmp_path, TABLE49, cells, lambda cell: [-20.0, 7.0, 20.0, 21.0])
    row = row_of(table_atari49.report(made).tables["table"], "Pong")
    assert (row["ACER"], row["ACER, frames (M)"]) == ("7.00", "40.0")
    assert row["ACER, difference"] != ""


@pytest.mark.parametrize("methods", [FIGURE1, TABLE49])
def test_whole_runs_that_end_a_little_late_have_their_published_numbers(tmp_path, methods):
    late = {
        key: dataclasses.replace(method, total_steps=method.total_steps + 16 * 20 - 1)
        for key, method in methods.items()
    }
    cells = make_cells(late, ("atari/Pong",), 1)
    made = outcome(tmp_path, late, cells, lambda cell: [20.0] * 10)
    if "dqn" in methods:
        for row in figure1_atari57.report(made).tables["table"].rows:
            assert row[6] != "", row
    else:
        row = row_of(table_atari49.report(made).tables["table"], "Pong")
        assert row["OpenAI baselines' ACER at equal frames"] != "" != row["ACER, difference"]


def test_table_57_says_how_far_ours_have_come(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    cells = cells_of(methods, total_steps=20_000)
    made = outcome(tmp_path, methods, cells, lambda cell: None if "Qbert" in cell.env else [0])
    table = table_atari57.report(made).tables["table"]
    assert row_of(table, "frames (M), least")["ACER, replay 4"] == "0.1"
    assert row_of(table, "cells finished")["ACER, replay 4"] == "2 of 3"


def test_table1_counts_games_above_the_baseline_and_above_human(tmp_path):
    methods = {k: m for k, m in table1_prioritized.FIGURE.methods.items() if k in ("ddqn_tuned", "ddqn_proportional")}
    better = {"Pong": 0.5, "Breakout": -0.1, "Qbert": 1.0}

    def returns(cell):
        game = game_of(cell)
        gain = better[game] if "proportional" in cell.method else 0.0
        return [raw(game, FIRST[game] + gain)] * 10

    tables = table1_prioritized.report(outcome(tmp_path, methods, cells_of(methods), returns)).tables
    ours = row_of(tables["table"], "Prioritized Double DQN (proportional)", "ours")
    assert (ours["games"], ours["median"], ours["mean"]) == ("3", "0.50", f"{(0.5 + 0.4 + 3.0) / 3:.2f}")
    assert (ours["> baseline"], ours["> human"]) == ("2 of 3", "1")
    # The paper's own Table 1.
    whole = row_of(tables["table"], "Prioritized Double DQN (proportional)", "published, all games")
    assert (whole["median"], whole["mean"], whole["> baseline"], whole["> human"]) == ("1.28", "5.51", "42 of 57", "33")
    assert ours["frames (M), least"] == "40.0"
    same = row_of(tables["table"], "Double DQN", "published, the same games")
    theirs = published_scores("Double DQN", "human starts").human_normalized(GAMES).values()
    assert float(same["median"]) == pytest.approx(np.median(list(theirs)), abs=0.005)
    assert row_of(tables["games"], "Qbert")["Double DQN, ours"] == "2.00"


def test_table1_counts_wins_over_the_agent_without_priorities(tmp_path):
    """As the paper's Table 1 does."""
    methods = table1_prioritized.FIGURE.methods
    table = table1_prioritized.report(outcome(tmp_path, methods, cells_of(methods), lambda cell: [0.0] * 10)).tables[
        "table"
    ]
    wins = {name: row_of(table, m.label, "published, all games")["> baseline"] for name, m in methods.items()}
    assert wins == {
        "dqn": "",
        "dqn_rank": "41 of 49",
        "ddqn_tuned": "",
        "ddqn_rank": "38 of 57",
        "ddqn_proportional": "42 of 57",
    }
    # The paper's own: DQN's two columns are of 49 games.
    medians = [row_of(table, methods[name].label, "published, all games")["median"] for name in ("dqn", "dqn_rank")]
    assert medians == ["0.48", "1.06"]


def test_table1_of_one_agent_has_the_papers_numbers_too(tmp_path):
    methods = {"dqn_rank": table1_prioritized.FIGURE.methods["dqn_rank"]}
    tables = table1_prioritized.report(outcome(tmp_path, methods, cells_of(methods), lambda cell: [0.0] * 10)).tables
    whole = row_of(tables["table"], "Prioritized DQN (rank)", "published, all games")
    assert (whole["games"], whole["median"], whole["> baseline"]) == ("49", "1.06", "41 of 49")
    assert tables["games"].head == ["game", "Prioritized DQN (rank), ours", "Prioritized DQN (rank), published"]


def test_table1_compares_with_the_games_that_ours_has(tmp_path):
    methods = {"ddqn_tuned": table1_prioritized.FIGURE.methods["ddqn_tuned"]}
    made = outcome(tmp_path, methods, cells_of(methods), lambda cell: [0.0] * 10 if game_of(cell) == "Pong" else None)
    same = row_of(table1_prioritized.report(made).tables["table"], "Double DQN", "published, the same games")
    theirs = published_scores("Double DQN", "human starts").human_normalized(["Pong"])["Pong"]
    assert (same["games"], same["median"]) == ("1", f"{theirs:.2f}")


@pytest.mark.parametrize("report", [figure1_atari57.report, table_atari57.report])
def test_nothing_begun_is_shown_as_nothing(tmp_path, report):
    made = report(outcome(tmp_path, FIGURE1, cells_of(FIGURE1), lambda cell: None))
    assert len(made.tables["table"].rows) == (10 if report is figure1_atari57.report else 5)
    assert made.figures["figure"].figure.axes


def test_seeds_of_a_table_are_read_where_the_shortest_ends(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    made = outcome(tmp_path, methods, cells_of(methods, seeds=2), lambda cell: [0.0] * 5 + [20.0] * 5)
    runs = made.runs("replay4_trust", "atari/Pong")
    runs[0] = runs[0].until(5_000_000)
    table = table_atari57.report(made).tables["table"]
    assert row_of(table, "Pong")["ACER, replay 4"] == "0.00 ± 0.00"
    assert row_of(table, "frames (M), least")["ACER, replay 4"] == "20.0"
    made = outcome(tmp_path / "49", TABLE49, make_cells(TABLE49, ("atari/Pong",), 2), lambda c: [0.0] * 5 + [20.0] * 5)
    runs = made.runs("acer", "atari/Pong")
    runs[0] = runs[0].until(5_000_000)
    row = row_of(table_atari49.report(made).tables["table"], "Pong")
    assert (row["ACER"], row["ACER, frames (M)"]) == ("0.00 ± 0.00", "20.0")


def test_the_third_panel_of_figure1_is_in_hours(tmp_path):
    methods = {"replay4_trust": FIGURE1["replay4_trust"]}
    made = outcome(tmp_path, methods, cells_of(methods), lambda cell: [raw(game_of(cell), FIRST[game_of(cell)])] * 10)
    line = figure1_atari57.report(made).figures["figure"].figure.axes[2].lines[0]
    assert line.get_xdata()[-1] == pytest.approx(10_000 / 3600)
