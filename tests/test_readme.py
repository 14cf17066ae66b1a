"""The documentation is correct: examples run, links resolve, and tables and messages are those of the code."""

import collections
import csv
import importlib
import re
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from acer_tf.__main__ import commands
from acer_tf.commands import pipeline
from acer_tf.reproduction.figure import figures
from acer_tf.settings.presets import PRESETS

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "results").glob("**/README.md")]
TEXT = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(PAGES)}
EVERYTHING = "\n".join(TEXT.values())
# Programs that are not commands of acer_tf.
OTHER_PROGRAMS = ("benchmarks.__main__", "benchmarks.ladder", "benchmarks.peers")
COMMENTED_PRINT = re.compile(r"\bprint\(.*\)  # (.*)")


# Their examples are files that test_extending.py runs in one folder, in this order, since some use earlier ones.
EXAMPLES = ("docs/environments.md", "docs/extending.md", "docs/training.md")


@pytest.mark.training
@pytest.mark.parametrize("page", [p for p, text in TEXT.items() if "```python" in text and p not in EXAMPLES])
def test_python_examples_run_in_order_with_the_results_at_hand(page, tmp_path, monkeypatch):
    """And print the numbers that comments beside their prints have, rounded as there."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT[page], flags=re.DOTALL):
        printed: collections.defaultdict[int, str] = collections.defaultdict(str)

        def note(*values, printed=printed):
            printed[sys._getframe(1).f_lineno] += " ".join(map(str, values)) + "\n"

        namespace["print"] = note
        exec(block, namespace)
        for number, line in enumerate(block.splitlines(), start=1):
            if said := COMMENTED_PRINT.search(line):
                shown = iter(_numbers_in(printed[number]))
                for wanted, digits in _numbers_in(said[1]):
                    assert any(round(value, digits) == wanted for value, _ in shown), (line, printed[number])


def test_there_are_examples_of_training_policies_and_published_data():
    assert {page for page, text in TEXT.items() if "```python" in text} >= {
        "README.md",
        "docs/policies.md",
        "docs/published-data.md",
    }
    comments = COMMENTED_PRINT.findall(TEXT["docs/published-data.md"])
    assert sum(map(bool, map(_numbers_in, comments))) >= 3


def test_the_table_of_presets_is_what_the_code_makes():
    source = importlib.util.spec_from_file_location("presets_page", ROOT / "docs" / "presets.py")
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run make docs"
    assert all(f"`{name}`" in module.PAGE.read_text(encoding="utf-8") for name in PRESETS)


def test_every_function_in_the_equation_table_exists():
    section = TEXT["docs/paper-in-code.md"].split("## Equations")[1].split("\n## ")[0]
    cells = [line.rsplit(" | ", 1)[1] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    named = []
    for cell in cells:
        for name in re.findall(r"`([\w.]+)`", cell):
            named.append(named[-1].rsplit(".", 1)[0] + name if name.startswith(".") else name)
    assert "distributions.Categorical.kl_gradient" in named
    for name in named:
        parts = name.split(".")
        depth = 2 if parts[0] in ("agents", "networks", "policies", "runs", "training") else 1
        found = importlib.import_module("acer_tf." + ".".join(parts[:depth]))
        for part in parts[depth:]:
            found = getattr(found, part)


def test_every_column_of_the_records_is_described():
    section = TEXT["docs/paper-in-code.md"].split("## Diagnostics")[1]
    described = set(re.findall(r"`(\w+)`", section))
    written = set()
    for record in (ROOT / "results").rglob("progress.csv"):
        if re.search(r'"agent": "\w+:', record.with_name("run.json").read_text(encoding="utf-8")):
            continue  # a rule of one's own, with columns of its own, which its page describes
        with record.open(newline="") as file:
            written |= {name.rpartition("/")[2] for name in next(csv.reader(file))}
    assert "trajectory_weight_mean" in written and "td_error_clipped" in written
    assert written - described == set()


def test_every_command_and_flag_that_is_named_exists():
    named = set(re.findall(r"python -m acer_tf ([a-z]\w*)", EVERYTHING))
    assert {"train", "evaluate", "curves", "figure1_atari57"} <= named <= {*commands(), "benchmark"}
    paths = [path for folder in ("commands", "figures") for path in (ROOT / "acer_tf" / folder).glob("*.py")]
    programs = [*(f"acer_tf.{path.parent.name}.{path.stem}" for path in paths), *OTHER_PROGRAMS]
    known = {name for program in programs for name in getattr(importlib.import_module(program), "FLAGS", ())}
    known |= {name for figure in figures().values() if figure.methods for name in pipeline.define(figure)}
    others = {"logdir", "dir", "tag_set", "signature_def", "inputs"}  # TensorBoard's and saved_model_cli's
    others |= {"version"}  # of acer_tf itself
    others |= {"no", "algorithm"}  # pip's --no-deps, results/peers/sb3_learn.py's
    others |= {"record", "head", "address"}  # --record-durations of tests/conftest.py; ray start's
    flags = set(re.findall(r"--(\w+)", EVERYTHING))
    assert {n for n in flags if n not in known and n.removeprefix("no") not in known} <= others


@pytest.mark.parametrize("page", TEXT)
def test_every_file_and_heading_that_is_linked_exists(page):
    prose = re.sub(r"```.*?```", "", TEXT[page], flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)]+)\)", prose):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_every_detail_says_where_it_is_from_what_turns_it_and_what_it_did():
    page = TEXT["docs/details.md"]
    _, *details = re.split(r"^\*\*(\d+)\. ", page, flags=re.MULTILINE)
    assert [*map(int, details[::2])] == [*range(1, len(details) // 2 + 1)] and len(details) // 2 >= 30
    for detail in details[1::2]:
        assert re.findall(r"^- \*(\w+):\*", detail, re.MULTILINE) == ["Where", "Flag", "Effect"], detail
    used, links = (
        set(re.findall(r"\]\[([\w-]+)\]", page)),
        dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", page, re.MULTILINE)),
    )
    assert used == links.keys()
    files = [link for link in links.values() if link.startswith("https://github.com/") and "/blob/" in link]
    assert all(re.search(r"/blob/[0-9a-f]{40}/", link) for link in files) and len(files) >= 20


def test_the_tables_of_findings_are_what_their_examples_print(monkeypatch, capsys):
    page = TEXT["docs/findings.md"]
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) >= 20 and all(row in page.splitlines() for row in printed.splitlines())


def test_the_readme_counts_the_verdicts_as_they_are():
    with (ROOT / "results" / "verdicts.csv").open(newline="") as file:
        words = [row["verdict"].partition(":")[0] for row in csv.DictReader(file)]
    supported, contradicted, undecided = map(words.count, ("supported", "contradicted", "undecided"))
    said = f"Of {len(words)} claims, tested by one rule, {supported} are supported, {contradicted} contradicted and"
    assert f"{said} {undecided} undecided" in " ".join(TEXT["README.md"].split())


def test_every_page_of_docs_is_in_the_index():
    pages = {path.name for kind in ("*.md", "*.ipynb") for path in (ROOT / "docs").glob(kind)} - {"README.md"}
    assert pages == set(re.findall(r"^\| \[(\S+)\]\(\1\)", TEXT["docs/README.md"], re.MULTILINE))


def test_every_folder_of_results_has_a_page_that_the_index_names():
    folders = {path.name for path in (ROOT / "results").iterdir() if path.is_dir()}
    assert folders == {page.split("/")[1] for page in TEXT if page.startswith("results/") and page.count("/") == 2}
    assert folders <= set(re.findall(r"\]\((\w+)/README\.md\)", TEXT["results/README.md"]))
    assert TEXT["results/README.md"].count("\n") <= 200


def test_every_message_that_is_explained_is_one_of_the_code():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "acer_tf").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*\+?\s*\(?f?"', "", source)  # a string continued in the next line
    firsts = re.findall(r"^\| (`[^|]*) \|", TEXT["docs/errors.md"], re.MULTILINE)
    messages = [message for cell in firsts for message in re.findall(r"`([^`]+)`", cell)]
    assert len(messages) >= 50
    for message in messages:
        for part in message.split("…"):
            words = part.strip(" ();:,?")
            assert words in source, (message, part)


def test_the_table_of_figures_is_complete_and_counts_their_runs():
    page = TEXT["docs/sweeps.md"]
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| (\d+) runs \|$", page, re.MULTILINE))
    assert all(f"| `{name}` |" in page for name in figures())
    assert len(rows) >= 9
    for name, count in rows.items():
        assert len(figures()[name].whole) == int(count), name


def _anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _numbers_in(text):
    """The numbers in a text, and how many digits each has after the point; "M" stands for millions."""
    found = re.findall(r"(?<![\w.])(-?\d+(?:\.\d+)?(?:e-?\d+)?)(?!\w)( M\b)?", text)
    digits = [-int(Decimal(number).as_tuple().exponent) - 6 * bool(millions) for number, millions in found]
    values = [float(number) * (1e6 if millions else 1) for number, millions in found]
    return list(zip(values, digits, strict=True))
