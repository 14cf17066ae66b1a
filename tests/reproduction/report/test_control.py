"""Tables and figures of control runs, against numbers worked by hand."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import spearmanr

from acer_tf.figures import figure3_continuous, figure3_draws, figure4_ablation, figure5_sensitivity, table_control
from acer_tf.reproduction.figure import make_cells
from acer_tf.reproduction.published import published_ablations, published_curves, published_search
from tests.reproduction.report.synthetic import outcome, row_of

TASKS = ("control/reacher3", "control/walker2d")


def figure3_outcome(tmp_path):
    cells = make_cells(figure3_continuous.METHODS, TASKS, 2, total_steps=2_000_000)
    level = {"acer_continuous": 300, "trust_tis": 200, "tis": 50}

    def returns(cell):
        if cell.env == "control/walker2d" or cell.method not in level:
            return None
        return [0] * 9 + [level[cell.method] + 10 * cell.seed]

    return outcome(tmp_path, figure3_continuous.METHODS, cells, returns)


def test_figure3_stands_beside_the_paper_at_equal_steps(tmp_path):
    report = figure3_continuous.FIGURE.report(figure3_outcome(tmp_path))
    row = row_of(report.tables["table"], "control/reacher3", "ACER")
    paper = next(curve for curve in published_curves("control/reacher3") if curve.method == "ACER")
    assert (row["cells finished"], row["steps"], row["return"]) == ("2 of 2", "2,000,000", "305.00 ± 5.00")
    assert float(row["paper at equal steps"]) == pytest.approx(paper.at(2e6), abs=0.005)
    assert "difference" not in row  # the paper's model is another
    assert row_of(report.tables["table"], "control/walker2d", "TIS")["cells finished"] == "0 of 2"
    assert len(report.figures["figure"].figure.axes) == 2


def test_the_table_of_control_orders_the_methods(tmp_path):
    table = table_control.report(figure3_outcome(tmp_path)).tables["table"]
    row = row_of(table, "control/reacher3")
    assert row["ACER"] == "305.00 ± 5.00 (2 of 2 finished)"
    assert row["steps, all runs"] == "2,000,000"
    assert row["order, best first"] == "ACER > Trust-TIS > TIS"
    at = {curve.method: curve.at(2e6) for curve in published_curves("control/reacher3")}
    assert at["ACER"] > at["Trust-TIS"] > at["TIS"]
    assert row["order in the paper"] == "ACER > Trust-TIS > TIS"
    assert row_of(table, "control/walker2d")["order, best first"] == ""


def test_the_bars_of_the_table_of_control_are_the_papers(tmp_path):
    axes = table_control.report(figure3_outcome(tmp_path)).figures["figure"].figure.axes[0]
    bars = [line.get_ydata()[0] for line in axes.lines if line.get_marker() == "_" and line.get_markersize() == 16]
    at = {curve.method: curve.at(2e6) for curve in published_curves("control/reacher3")}
    assert bars == [at[method] for method in ("ACER", "Trust-TIS", "TIS", "Trust-A3C", "A3C")]


def test_what_has_no_score_has_no_place_in_the_order(tmp_path):
    cells = make_cells(figure3_continuous.METHODS, TASKS[:1], 1, total_steps=500_000)
    made = outcome(tmp_path, figure3_continuous.METHODS, cells, lambda cell: [100.0] * 10)
    row = row_of(table_control.report(made).tables["table"], "control/reacher3")
    # The paper's curves begin later.
    assert (row["ACER, paper at equal steps"], row["order, best first"], row["order in the paper"]) == ("", "", "")


def test_seeds_that_came_further_are_read_where_the_shortest_ends(tmp_path):
    methods = {"acer_continuous": figure3_continuous.METHODS["acer_continuous"]}
    cells = make_cells(methods, TASKS[:1], 2, total_steps=2_000_000)
    made = outcome(tmp_path, methods, cells, lambda cell: [10.0] * 5 + [100.0] * 5)
    runs = made.runs("acer_continuous", "control/reacher3")
    runs[0] = runs[0].until(1_000_000)
    row = row_of(figure3_continuous.FIGURE.report(made).tables["table"], "control/reacher3", "ACER")
    assert (row["steps"], row["return"]) == ("1,000,000", "10.00 ± 0.00")


def test_whole_runs_that_end_a_little_late_have_their_published_numbers(tmp_path):
    methods = {
        name: dataclasses.replace(method, total_steps=method.total_steps[TASKS[0]] + 799)
        for name, method in figure3_continuous.METHODS.items()
    }
    made = outcome(tmp_path, methods, make_cells(methods, TASKS[:1], 1), lambda cell: [400.0] * 10)
    for row in figure3_continuous.FIGURE.report(made).tables["table"].rows:
        assert row[5] != "", row


def test_figure4_has_a_published_curve_of_every_ablation(tmp_path):
    cells = make_cells(figure4_ablation.FIGURE.methods, ("control/fish",), 1, total_steps=1_000_000)
    figure = figure4_ablation.FIGURE
    report = figure.report(outcome(tmp_path, figure.methods, cells, lambda cell: [-9.0]))
    for curve in published_ablations("control/fish"):
        row = row_of(report.tables["table"], "control/fish", curve.method)
        assert (row["return"], row["paper at its end"]) == ("-9.00", f"{curve.mean[-1]:,.2f} at 79M")
    (axes,) = report.figures["figure"].figure.axes
    colours = {line.get_label(): line.get_color() for line in axes.lines}
    assert colours["no SDN"] == colours["no SDN, paper"]


def test_figure5_lays_each_setting_beside_the_papers_and_gives_the_rank_correlation(tmp_path):
    methods = figure5_sensitivity.FIGURE.methods
    env = "control/cheetah"
    cells = make_cells(methods, (env,), 1, total_steps=1_000_000)
    points = published_search(env)
    assert len(cells) == len(points)

    def returns(cell):
        rate = cell.train_settings.learning_rate
        return [100 * rate] if rate < 3e-4 else None

    report = figure5_sensitivity.report(outcome(tmp_path, methods, cells, returns))
    known = [point for point in points if point.learning_rate < 3e-4]
    assert 2 < len(known) < len(points)
    expected = spearmanr([p.learning_rate for p in known], [p.score for p in known]).statistic
    table = report.tables["table"]
    assert f"{env} {expected:+.2f} over {len(known)} settings" in table.caption
    assert len(table.rows) == len(points)
    row = row_of(table, env, f"{known[0].learning_rate:.3e}")
    assert (row["ours"], row["paper"]) == (f"{100 * known[0].learning_rate:.2f}", f"{known[0].score:.2f}")


def test_the_best_draws_are_those_where_the_shortest_ends_and_are_averaged_apart(tmp_path):
    methods = {"tis": figure3_draws.searches(7)["tis"]}
    env = "control/reacher3"
    cells = make_cells(methods, (env,), 1, total_steps=1_000_000)
    values = dict(enumerate([[value] * 10 for value in (10.0, 4.0, 8.0, 1.0, 6.0, 2.0, 5.0)]))
    values[2][5:] = [99.0] * 5
    made = outcome(tmp_path, methods, cells, lambda cell: values[cell.seed])
    made.runs("tis", env)[0] = made.runs("tis", env)[0].until(500_000)
    report = figure3_draws.report(made)
    (legend,) = report.figures["figure"].figure.legends
    assert "TIS (5 draws)" in [text.get_text() for text in legend.get_texts()]
    tables = report.tables
    assert [row[1] for row in tables["draws"].rows] == [f"TIS, draw {draw}" for draw in (0, 2, 4, 6, 1, 5, 3)]
    row = row_of(tables["table"], env, "TIS")
    assert (row["draws finished"], row["steps"]) == ("7 of 7", "500,000")
    assert (row["best 5"], row["all"]) == ("6.60 ± 2.41", "5.14")


def test_the_table_of_control_is_at_the_steps_of_the_shortest_run(tmp_path):
    methods = {name: figure3_continuous.METHODS[name] for name in ("acer_continuous", "tis")}
    made = outcome(
        tmp_path,
        methods,
        make_cells(methods, ("control/reacher3",), 1, total_steps=2_000_000),
        lambda cell: [10.0] * 5 + [100.0] * 5,
    )
    made.runs("tis", "control/reacher3")[:] = [made.runs("tis", "control/reacher3")[0].until(1_000_000)]
    row = row_of(table_control.report(made).tables["table"], "control/reacher3")
    assert (row["steps, all runs"], row["ACER"]) == ("1,000,000", "10.00 (1 of 1 finished)")


def test_figure5_of_tasks_that_have_not_begun_can_be_drawn(tmp_path):
    envs, methods = ("control/cheetah", "control/fish"), figure5_sensitivity.FIGURE.methods
    cells = make_cells(methods, envs, 1, total_steps=1_000_000)
    made = outcome(tmp_path, methods, cells, lambda c: [1.0] * 10 if c.env == envs[0] else None)
    figure5_sensitivity.report(made).figures["figure"].figure.savefig(tmp_path / "figure.png")


def test_figure5_draws_ours_and_theirs_on_axes_of_their_own(tmp_path):
    env, methods = "control/cheetah", figure5_sensitivity.FIGURE.methods
    cells = make_cells(methods, (env,), 1, total_steps=1_000_000)
    made = outcome(tmp_path, methods, cells, lambda cell: [100 * cell.train_settings.learning_rate])
    figure = figure5_sensitivity.report(made).figures["figure"].figure
    ours, theirs = (axes.collections[0].get_offsets() for axes in figure.axes[:2])
    points = published_search(env)
    np.testing.assert_allclose(ours, [(p.learning_rate, 100 * p.learning_rate) for p in points])
    np.testing.assert_allclose(theirs, [(p.learning_rate, p.score) for p in points])
