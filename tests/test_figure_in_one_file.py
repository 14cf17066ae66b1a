"""A figure is added in one file: to a copy of the package, which then has its command, its section and its verdict."""

import csv
import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from acer_tf.reproduction.figure import make_cells
from tests.processes import answers_of
from tests.reproduction.report.synthetic import write_run

ROOT = Path(__file__).parents[1]
FIGURE = '''"""Figure 7 of a paper: ACER and A3C on CartPole.

python -m acer_tf figure7_cartpole --tasks=CartPole-v1
"""

from acer_tf.reproduction.verdicts import own_design
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.report.output import learning_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, number


def report(recorded):
    finals = [(method.label, recorded.compared("CartPole-v1", [key])) for key, method in recorded.methods.items()]
    table = Table("Returns.", ["method", "return"], [[label, *map(number, scores)] for label, scores in finals])
    figure = learning_curves(recorded.by_label(), lambda env: ())
    return Report({"table": table}, {"figure": Drawing("Curves.", figure)})


def replay_helps(recorded):
    acer, a3c = recorded.compared("CartPole-v1", ["acer", "a3c"])
    return Finding([recorded.improvement("acer", "a3c")], number(acer - a3c), "more")


FIGURE = Figure(
    __name__,
    order=70,
    source="A paper, Figure 7",
    title="CartPole with and without replay",
    text=("Deviations: all.",),
    envs=("CartPole-v1",),
    methods={agent: Method(agent.upper(), {"agent": agent, "preset": "classic"}, 1_000) for agent in ("acer", "a3c")},
    seeds=4,
    report=report,
    claims=(Claim("replay helps", replay_helps, own_design),),
)
'''


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A folder with the copy, records of two runs of the figure, and what its commands say."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "acer_tf", folder / "acer_tf", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "acer_tf" / "figures" / "figure7_cartpole.py"
    path.write_text(FIGURE)
    specification = importlib.util.spec_from_file_location("figure7_cartpole", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module
    specification.loader.exec_module(module)
    for cell in make_cells(module.FIGURE.methods, module.FIGURE.envs, 4):
        run = folder / "my_results" / "figure7_cartpole" / "runs" / cell.name
        write_run(run, dict(cell.settings), [90.0 if cell.method == "acer" else 30.0] * 10)
    commands = (["--help"], ["figure7_cartpole", "--help"], ["figure7_cartpole", "--report_only"], ["verdicts"])
    return folder, *answers_of(commands, folder)


@pytest.mark.process
def test_its_module_is_its_command(used):
    _, commands, usage, *_ = used
    assert "  figure7_cartpole          Figure 7 of a paper: ACER and A3C on CartPole.\n" in commands.out
    assert usage.out.startswith("Figure 7 of a paper") and "Deviations: all." in usage.out
    assert "The whole: 8 runs, 8,000 agent steps" in usage.out and "only these of acer, a3c" in usage.out


@pytest.mark.process
def test_its_runs_are_on_the_page_and_its_claim_is_judged(used):
    folder, *_, reported, judged = used
    assert (reported.status, judged.status) == (0, 0), reported.err + judged.err
    assert "8 of 8 cells are finished" in reported.out and "| ACER | 90.00 |" in reported.out
    page = (folder / "my_results" / "index.html").read_text()
    assert "CartPole with and without replay" in page and "4/4 seeds, 100 % of steps" in page
    with (folder / "my_results" / "verdicts.csv").open(newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["source"] == "A paper, Figure 7"]
    assert (row["claim"], row["verdict"], row["ours"]) == ("replay helps", "supported", "60.00")
