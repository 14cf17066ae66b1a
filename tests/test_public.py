"""The public face: what `import acer_tf` offers, and what it costs."""

from __future__ import annotations

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import acer_tf

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = sorted(set(acer_tf.__all__) - {"__version__"})
# The examples of the others take a trained run.
QUICK = ("load_policy", "make_settings", "published_agents", "published_curves", "published_scores")


def test_the_names_are_listed():
    assert set(acer_tf.__all__) <= set(dir(acer_tf))
    assert {"train", "evaluate", "load_policy", "make_settings", "Settings", "read_run"} <= set(PUBLIC)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = acer_tf.nonsense


@pytest.mark.parametrize("name", PUBLIC)
def test_a_name_is_there_and_documented_where_it_is_defined(name):
    value = getattr(acer_tf, name)
    assert (value.__name__, value.__module__) == (name, acer_tf._MODULES[name])
    assert value.__doc__ and not value.__doc__.startswith(f"{name}(")  # what dataclasses and named tuples make up
    if inspect.isfunction(value):
        assert f"acer_tf.{name}(" in value.__doc__


@pytest.mark.parametrize("name", QUICK)
def test_its_example_is_right(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        getattr(acer_tf, name), name, globs={"acer_tf": acer_tf, "np": np}
    )
    assert example.examples
    result = doctest.DocTestRunner().run(example)
    assert result.failed == 0


def test_editors_are_told_of_the_same_names_and_modules():
    for node in ast.parse(Path(acer_tf.__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If):
            told = {a.asname: line.module for line in node.body if isinstance(line, ast.ImportFrom) for a in line.names}
    assert told == acer_tf._MODULES


def test_importing_the_package_loads_neither_tensorflow_nor_a_simulator():
    code = "import sys, acer_tf; dir(acer_tf); print(*sorted({n.partition('.')[0] for n in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "acer_tf" in loaded
    assert not loaded & {"tensorflow", "keras", "numpy", "gymnasium", "ale_py", "minatar", "mujoco", "dm_control"}
