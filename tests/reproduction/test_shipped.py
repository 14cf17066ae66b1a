"""The shipped records are of cells that today's commands ask for."""

import dataclasses
import itertools
import re
from pathlib import Path

import pytest

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.evidence import read_evidence
from acer_tf.settings.record import idle, settings_from
from acer_tf.training.resolve import DECIDED_BY_RUN

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent for path in RESULTS.rglob("experiment.json"))


def could_be_asked(cell: Cell) -> bool:
    """Whether its settings, with what a run decides or does not read as it was asked for, give the cell its name."""
    read = {name: value for name, value in cell.settings.items() if name not in idle(cell.settings)}
    decided = ((), ("network",), ("precision",), DECIDED_BY_RUN)
    for document, names in itertools.product((cell.settings, read), decided):
        settings = dataclasses.replace(settings_from(document), **dict.fromkeys(names, "auto"))
        if Cell.asked(cell.method, settings).name == cell.name:
            return True
    return False


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(RESULTS)))
def test_a_shipped_cell_is_found_by_the_command_that_made_it(folder: Path) -> None:
    evidence = read_evidence(folder)
    named = [cell for cell in evidence.cells if re.search(r"-seed\d+-[0-9a-f]{10}$", cell.name)]
    assert [cell.name for cell in named if not could_be_asked(cell)] == []
    assert all((folder / "runs" / cell.name).is_dir() for cell in named)


def test_the_shipped_cells_of_a_figure_have_such_names() -> None:
    cells = read_evidence(RESULTS / "figure3_draws").cells
    assert len(cells) == 150 and all(re.search(r"-seed\d+-[0-9a-f]{10}$", cell.name) for cell in cells)
