"""Executes docs/tutorial.ipynb and keeps its outputs there: `python docs/run_tutorial.py` (`make tutorial`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
from nbclient import NotebookClient

PAGE = Path(__file__).with_name("tutorial.ipynb")


def executed(folder: Path) -> nbformat.NotebookNode:
    """The notebook after all its cells have run in `folder`, a docs/ folder beside a results/ folder.

    Log messages on standard error, which name files of this machine, are left out.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(PAGE, nbformat.NO_CONVERT)
    options = {"timeout": 1_800, "kernel_name": "python3", "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, **options).execute()
    notebook.metadata.pop("language_info", None)  # the version of Python and the like
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(PAGE.parent), PAGE)
    shutil.rmtree(PAGE.parent / "tutorial_runs")
