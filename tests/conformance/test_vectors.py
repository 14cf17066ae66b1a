"""vectors.json is what the twins make, and the documentation has every function of it."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.conformance import twins
from tests.conformance.cases import of_acer
from tests.conformance.replay_cases import of_replay
from tests.test_architecture import imports

ROOT = Path(__file__).resolve().parents[2]
MAKERS = ("tests.conformance.cases", "tests.conformance.replay_cases")
DOCUMENT = json.loads(twins.VECTORS.read_text(encoding="utf-8"))


def refuse(name):
    raise AssertionError(f"{name} is not JSON")


def test_the_committed_vectors_are_what_the_twins_make():
    assert twins.document() == twins.VECTORS.read_text(encoding="utf-8"), "run python -m tests.conformance.twins"


def test_the_twins_are_made_of_pythons_own_modules():
    for name in ("cases.py", "replay_cases.py", "twins.py"):
        source = Path(__file__).with_name(name).read_text(encoding="utf-8")
        used = {each.module for each in imports(source, "") if each.module not in MAKERS}
        assert {module.partition(".")[0] for module in used} <= sys.stdlib_module_names


def test_they_are_strict_json_that_any_language_reads():
    json.loads(twins.VECTORS.read_text(encoding="utf-8"), parse_constant=refuse)


def test_every_case_of_a_function_has_a_name_and_the_same_arguments():
    assert list(DOCUMENT) and set(DOCUMENT) == set(of_acer()) | set(of_replay())
    for name, about in DOCUMENT.items():
        cases = about["cases"]
        assert about["source"] and len(cases) >= 3, name
        assert len({case["name"] for case in cases}) == len(cases), name
        assert len({frozenset(case["inputs"]) for case in cases}) == 1, name


def test_values_agree_where_an_episode_goes_on():
    """What follows a row is then the next row, however an implementation lays rows out."""
    for case in DOCUMENT["retrace"]["cases"]:
        x = case["inputs"]
        for t in range(len(x["value"]) - 1):
            if not (x["terminated"][t] or x["truncated"][t]):
                assert x["next_value"][t] == x["value"][t + 1], case["name"]


def test_the_page_names_every_function_with_its_arguments():
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `(\w+)\(([^)]*)\)` \|", page, re.MULTILINE))
    inputs = {name: list(about["cases"][0]["inputs"]) for name, about in DOCUMENT.items()}
    assert {name: set(arguments.split(", ")) for name, arguments in named.items()} == {
        name: set(arguments) for name, arguments in inputs.items()
    }


@pytest.mark.parametrize("record", sorted((ROOT / "results" / "conformance").glob("*.txt")), ids=lambda path: path.stem)
def test_the_records_of_other_libraries_are_of_these_cases(record):
    rows = re.findall(r"^(\w+) +(\d+) +(\d+) +(\d+)$", record.read_text(encoding="utf-8"), re.MULTILINE)
    counts = {name: sum(map(int, numbers)) for name, *numbers in rows}
    each = {name: len(about["cases"]) for name, about in DOCUMENT.items()}
    assert counts == each | {"cases": sum(each.values())}, "run the checker anew"
