"""docs/tutorial.ipynb runs from top to bottom, and is committed with its outputs."""

import json
import re
import runpy
from pathlib import Path

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


@pytest.mark.process
@pytest.mark.training
def test_the_notebook_runs(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").symlink_to(ROOT / "results")
    execute = runpy.run_path(str(ROOT / "docs" / "run_tutorial.py"))["executed"]
    execute(tmp_path / "docs")
