"""The wheel, as a user has it: built, installed beside its dependencies, and run far from the checkout."""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from acer_tf.reproduction.figure import figures
from tests.processes import answers_of

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[1]
TINY = "--total_steps=640"


class Installed(NamedTuple):
    wheel: Path
    environment: Path
    folder: Path  # empty, and far from the checkout

    @property
    def interpreter(self) -> Path:
        return self.environment / "bin" / "python"

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [str(self.interpreter), *arguments], cwd=self.folder, env=variables, capture_output=True, text=True
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    place = tmp_path_factory.mktemp("wheel")
    # A copy, because setuptools writes where it builds; with folders that do not belong in the wheel.
    for folder in ("acer_tf", "experiments", "benchmarks"):
        shutil.copytree(ROOT / folder, place / "copy" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / "copy")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", f"--wheel-dir={place}", str(place / "copy")]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = place.glob("*.whl")
    environment, folder = place / "environment", place / "elsewhere"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", f"--target={packages}", str(wheel)], check=True)
    # Folders named in a .pth file come after the environment's own, and .pth files in them, as of an editable install,
    # are not read.
    dependencies = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # TensorFlow Probability imports distutils, which from Python 3.12 on comes from setuptools by such a file.
    shim = ["import _distutils_hack; _distutils_hack.add_shim()"] if sys.version_info >= (3, 12) else []
    (packages / "dependencies.pth").write_text("\n".join([*dependencies, *shim]) + "\n")
    yield Installed(wheel, environment, folder)
    shutil.rmtree(place)


def test_it_holds_the_package_with_its_data_and_nothing_else(installed):
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"acer_tf"}
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "acer_tf").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert {Path(name).suffix for name in ours} >= {".py", ".csv", ".xml", ".html", ".typed"}
    assert ours <= set(names)


def test_its_metadata_names_every_python_that_is_tested_and_every_extra(installed):
    code = "import importlib.metadata as m; print(m.metadata('acer_tf').as_string())"
    head = installed.python("-c", code).stdout.partition("\n\n")[0].splitlines()
    assert {"Requires-Python: >=3.11,<3.14", "Home-page: https://arxiv.org/abs/1611.01224"} <= set(head)
    tested = {f"3.{path.stem.removeprefix('py3')}" for path in (ROOT / "requirements").glob("py3*.lock")}
    classifiers = {line.rpartition(" :: ")[2] for line in head if line.startswith("Classifier: Programming Language")}
    assert classifiers == {"Only", *tested}
    extras = {line.partition(": ")[2] for line in head if line.startswith("Provides-Extra")}
    assert extras == {"control", "minatar", "classic", "formats", "ray", "slurm", "reproduction", "tune", "dev"}


def test_its_program_is_the_package(installed):
    code = "from importlib.metadata import entry_points as e; import sys; sys.argv = ['acer_tf', 'nonsense']; "
    code += "(program,) = e(group='console_scripts', name='acer_tf'); program.load()()"
    done = installed.python("-c", code)
    assert done.returncode == 2 and "unknown command 'nonsense'" in done.stderr


def test_its_program_finds_the_modules_of_the_current_folder_and_none_of_its_own(installed):
    (installed.folder / "my_place.py").write_text(
        "import gymnasium\n\n"
        "gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=50)\n"
    )
    program = installed.environment / "bin" / "acer_tf"  # as pip writes it
    program.write_text(f"#!{installed.interpreter}\nfrom acer_tf.__main__ import console\nconsole()\n")
    (program.parent / "my_other_place.py").write_text("")
    small = ["--num_envs=2", "--unroll_length=10", "--replay_start=100", "--replay_capacity=1000", TINY]
    done = installed.python(str(program), "train", "--env=my_place:Mine-v0", "--run_dir=runs/mine", *small)
    assert done.returncode == 0, done.stderr
    done = installed.python(str(program), "train", "--env=my_other_place:Mine-v0", "--run_dir=runs/other", *small)
    assert done.returncode == 2 and "Python finds no module my_other_place, in the current folder" in done.stderr


def test_importing_it_loads_no_tensorflow(installed):
    code = "import sys, acer_tf; print(acer_tf.__file__, acer_tf.__version__, 'tensorflow' in sys.modules)"
    file, _, loaded = installed.python("-c", code).stdout.split()
    assert Path(file).is_relative_to(installed.environment)
    assert loaded == "False"


def test_it_trains_evaluates_and_makes_a_figure(installed):
    small = ["--env=CartPole-v1", "--num_envs=2", "--unroll_length=10", "--replay_start=100", "--replay_capacity=1000"]
    which = ["--games=breakout", "--agents=replay4_trust", "--seeds=1"]
    commands = [
        ["train", *small, TINY, "--run_dir=runs/cartpole", "--seed=1"],
        ["evaluate", "--policy=runs/cartpole/policy", "--episodes=2", "--json"],
        ["figure1_minatar", *which, TINY],
    ]
    answers = answers_of(commands, installed.folder, python=installed.interpreter)
    assert [answer.status for answer in answers] == [0, 0, 0], answers
    trained, evaluated, drawn = (answer.out for answer in answers)
    assert trained.splitlines()[-1] == "finished: policy in runs/cartpole/policy"
    assert json.loads((installed.folder / "runs/cartpole/run.json").read_text())["finished"]
    assert len(json.loads(evaluated)["returns"]) == 2
    assert "1 of 1 cells are finished" in drawn
    output = installed.folder / "my_results" / "figure1_minatar"
    assert {"experiment.json", "figure.png", "figure.svg"} <= {path.name for path in output.iterdir()}
    assert figures()["figure1_minatar"].title in html.unescape((output.parent / "index.html").read_text())


def test_the_benchmark_is_not_in_it_whatever_else_has_its_name(installed):
    foreign = installed.folder / "benchmarks"
    for make in (lambda: None, foreign.mkdir, (foreign / "__init__.py").touch):
        make()
        done = installed.python("-m", "acer_tf", "benchmark", "--only=machine")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: benchmark ") and done.stderr.count("\n") == 1
