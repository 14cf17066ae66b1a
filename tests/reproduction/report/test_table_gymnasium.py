"""The table of gymnasium's tasks: what was run, and which method it calls best."""

import pytest

from acer_tf.figures.table_gymnasium import FIGURE, best, report
from acer_tf.reproduction.figure import make_cells
from tests.reproduction.report.synthetic import outcome


def test_steps_are_those_that_were_done(tmp_path):
    cells = make_cells({"acer": FIGURE.methods["acer"]}, ["CartPole-v1"], 2, total_steps=2000)
    made = outcome(tmp_path, FIGURE.methods, cells, lambda cell: [1.0] * 10)
    for cell in made.cells:
        path = tmp_path / "runs" / cell.name / "progress.csv"
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([f"{head},evaluation_return", *(f"{row},{100}" for row in rows)]) + "\n")
    table = report(made).tables["table"]
    (row,) = [row for row in table.rows if row[0] == "CartPole-v1"]
    first = table.head.index("ACER")
    assert (table.head[first + 1], row[first : first + 2]) == ("steps", ["100.00 ± 0.00", "2,000"])


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ({"ACER": [1.0, 1.2], "PPO": [3.0, 3.2], "DQN": []}, ["PPO"]),
        ({"ACER": [1.0, 2.0], "PPO": [1.5, 2.5]}, ["PPO", "ACER"]),  # their standard errors meet
        ({"ACER": [1.0, 1.2], "PPO": [3.0]}, []),  # one run is no rival
        ({"ACER": [1.0, 1.2]}, []),
    ],
)
def test_the_best_is_one_of_several_methods_of_several_runs(scores, found):
    assert best(scores) == found
