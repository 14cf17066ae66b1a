"""The README's examples run, and its tables say what the code says."""

import dataclasses
import importlib
import math
import re
from pathlib import Path

import pytest

from acer_tf.reproduction.methods import make_cells
from acer_tf.settings import DQN_PRESETS, PRESETS, Settings, make_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "results" / "README.md").read_text(encoding="utf-8")


def test_python_examples_run_in_order_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 5
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert "CartPole-v1" in printed
    assert (tmp_path / "runs/cartpole/policy/saved_model.pb").exists()


def test_the_table_of_presets_is_the_code():
    section = README.split("## Presets, side by side")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    assert rows[0] == ["setting", *PRESETS]
    written = {row[0].strip("`"): row[1:] for row in rows[2:]}
    agents = {name: "dqn" if name in DQN_PRESETS else "acer" for name in PRESETS}
    given = [{"env": "atari/Pong", "preset": name, "agent": agent} for name, agent in agents.items()]
    presets = {values["preset"]: dataclasses.asdict(make_settings(values)) for values in given}
    shown = {field.name for field in dataclasses.fields(Settings)} - {"env", "agent", "preset", "seed", "total_steps"}
    assert set(written) == shown
    for name, cells in written.items():
        baselines = presets["baselines"][name]
        assert cells[0] == _cell(baselines), name
        for cell, preset in zip(cells[1:], list(PRESETS)[1:], strict=True):
            assert cell == ("" if presets[preset][name] == baselines else _cell(presets[preset][name])), name


def test_every_function_in_the_equation_table_exists():
    section = README.split("## The paper in code")[1].split("\n## ")[0]
    cells = [line.rsplit(" | ", 1)[1] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    named = []
    for cell in cells:
        for name in re.findall(r"`([\w.]+)`", cell):
            named.append(named[-1].rsplit(".", 1)[0] + name if name.startswith(".") else name)
    assert len(named) == 30 and "distributions.Categorical.kl_gradient" in named
    for name in named:
        parts = name.split(".")
        depth = 2 if parts[0] in ("agents", "training") else 1
        found = importlib.import_module("acer_tf." + ".".join(parts[:depth]))
        for part in parts[depth:]:
            found = getattr(found, part)


def test_every_flag_that_a_readme_names_exists():
    names = (
        "benchmark demo evaluate export figure_cliffwalk figure1_minatar figure3_continuous learning_curves peers "
        "table_control train"
    )
    apart = ("benchmark", "peers")
    folders = {name: "experiments" if name in apart else "acer_tf.commands" for name in names.split()}
    scripts = [importlib.import_module(f"{folder}.{name}") for name, folder in folders.items()]
    known = {name for script in scripts for name in script.FLAGS}
    others = {"logdir", "dir", "tag_set", "signature_def", "inputs"}  # TensorBoard's and saved_model_cli's
    named = set(re.findall(r"--(\w+)", README + RESULTS))
    assert {n for n in named if n not in known and n.removeprefix("no") not in known} <= others


@pytest.mark.parametrize(("text", "folder"), [(README, ROOT), (RESULTS, ROOT / "results")], ids=["README", "results"])
def test_every_file_that_a_readme_links_to_exists(text, folder):
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", prose) if "://" not in link]
    assert len(links) >= 5
    assert [link for link in links if not (folder / link).exists()] == []


def _cell(value: object) -> str:
    if value is None:
        return "by environment"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else f"{value:g}"
    return str(value)


def test_the_table_of_scripts_is_complete_and_counts_their_runs():
    from acer_tf.commands import pipeline

    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| (\d+) runs \|$", README, re.MULTILINE))
    folder = Path(pipeline.__file__).parent
    scripts = {path.stem for path in folder.glob("*.py") if "pipeline.define(" in path.read_text()}
    assert all(f"`{name}`" in README for name in scripts)
    assert len(rows) >= 8
    for name, count in rows.items():
        experiment = importlib.import_module(f"acer_tf.commands.{name}").EXPERIMENT
        cells = make_cells(experiment.methods.values(), experiment.envs, experiment.seeds)
        assert len(cells) == int(count), name
