"""Executes docs/tutorial.ipynb and keeps its outputs there: `python docs/run_tutorial.py` (`make tutorial`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from nbclient import NotebookClient

PAGE = Path(__file__).with_name("tutorial.ipynb")


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Runs all cells of the notebook in `folder`, a docs/ folder beside a results/ folder, and keeps their outputs.

    Log messages on standard error, which name files of this machine, are left out.

    Raises:
        CellExecutionError: a cell failed.
    """
    options = {"timeout": 1_800, "kernel_name": "python3", "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options).execute()
    notebook.metadata.pop("language_info", None)  # the version of Python and the like
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


if __name__ == "__main__":
    notebook = nbformat.read(PAGE, nbformat.NO_CONVERT)
    execute(notebook, PAGE.parent)
    nbformat.write(notebook, PAGE)
    shutil.rmtree(PAGE.parent / "tutorial_runs")
