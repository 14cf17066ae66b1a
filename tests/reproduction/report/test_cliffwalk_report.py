from acer_tf.figures.figure_cliffwalk import report
from acer_tf.reproduction.cliffwalk import Result


def test_the_table_has_medians_and_ranges_and_marks_what_did_not_converge():
    results = [Result("tabular", "uniform", 3, i, updates, True) for i, updates in enumerate((30, 1000, 20, 40))]
    results += [Result("tabular", "oracle", 3, i, u, ok) for i, (u, ok) in enumerate(((50, True), (90, False)))]
    results += [Result("tabular", "greedy", 3, i, 90, False) for i in range(2)]
    results += [Result("linear", "uniform", 2, 0, 7, True)]
    table = report(results).tables["table"]
    assert table.head == ["representation", "n", "transitions", "uniform", "greedy", "oracle"]
    assert table.rows == [
        ["tabular", "3", "14", "35 [20, 1,000]", ">90 [>90, >90]", ">70 [50, >90]"],
        ["linear", "2", "6", "7 [7, 7]", "–", "–"],
    ]


def test_a_panel_per_representation_draws_medians_and_marks_lower_bounds():
    results = [Result(r, "greedy", n, 0, 10 * n, n < 3) for r in ("tabular", "linear") for n in (2, 3)]
    tabular, linear = report(results).figures["figure"].figure.axes
    assert (tabular.get_title(), linear.get_title()) == ("tabular", "linear")
    line, bounds, memory = tabular.lines
    assert line.get_ydata().tolist() == [20, 30]
    assert (bounds.get_xdata().tolist(), bounds.get_marker()) == ([3], "^")
    assert memory.get_ydata().tolist() == [6, 14]


def test_the_figure_draws_medians_between_the_least_and_the_most():
    results = [Result("tabular", "greedy", n, i, u * n, True) for n in (2, 3) for i, u in enumerate((10, 20, 90))]
    (axes,) = report(results).figures["figure"].figure.axes
    assert axes.lines[0].get_ydata().tolist() == [40, 60]
    band = {tuple(vertex) for vertex in axes.collections[0].get_paths()[0].vertices.tolist()}
    assert band == {(2, 20), (2, 180), (3, 30), (3, 270)}
