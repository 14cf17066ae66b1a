"""Labels are text for people: reports find methods, published data and comparisons by the methods' names."""

import dataclasses
import re

import pytest

from acer_tf.reproduction.figure import figures, make_cells
from tests.reproduction.report.synthetic import outcome

FIGURES = {name: figure for name, figure in figures().items() if figure.methods}
pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.mark.parametrize("name", FIGURES)
def test_a_reworded_label_changes_nothing_else(tmp_path, name):
    figure = FIGURES[name]
    reworded = {key: dataclasses.replace(m, label=f"<{m.label}>") for key, m in figure.methods.items()}
    reports = []
    for folder, methods in (("as_it_is", figure.methods), ("reworded", reworded)):
        cells = make_cells(methods, figure.envs[:1], 1)
        reports.append(figure.report(outcome(tmp_path / folder, methods, cells, lambda cell: [20.0] * 10)))
    old, new = (
        [
            re.sub("[<>]", "", text)
            for table in report.tables.values()
            for row in (table.head, *table.rows)
            for text in row
        ]
        for report in reports
    )
    assert old == new != []
    styles = [
        [
            (line.get_color(), line.get_linestyle())
            for axes in report.figures["figure"].figure.axes
            for line in axes.lines
        ]
        for report in reports
    ]
    assert styles[0] == styles[1]
