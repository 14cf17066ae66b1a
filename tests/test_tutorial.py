"""docs/tutorial.ipynb runs from top to bottom, and is committed with its outputs."""

import json
import re
import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.ipynb"


def test_the_notebook_has_outputs_and_names_no_folder_of_a_machine() -> None:
    text = PAGE.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [kind for cell in cells for output in cell["outputs"] for kind in output.get("data", {})]
    assert kinds.count("image/png") >= 4
    assert not re.search(r'"stderr"|(?<![\w.])/(?:home|root|tmp|usr|work)\b', text)
    assert len(text) < 500_000


@pytest.mark.xla
@pytest.mark.process
@pytest.mark.training
def test_the_notebook_runs(tmp_path: Path) -> None:
    """With shorter runs, whose first episode may end before the step that a figure shows."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").symlink_to(ROOT / "results")
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("total_steps=150_000") == 1
    shorter = text.replace("total_steps=150_000", "total_steps=3_000").replace("seen[10]", "seen[-1]")
    notebook = nbformat.reads(shorter, nbformat.NO_CONVERT)
    runpy.run_path(str(ROOT / "docs" / "run_tutorial.py"))["execute"](notebook, tmp_path / "docs")
