"""Rules for the package: which part may import which, what is never loaded, what is never committed.

Each rule is a function from source text to a list of violations, so that tests can show that it finds some.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]

# The parts of the package, lowest layer first. A part may import all parts of earlier layers, and within its layer
# those of its group. acer_tf/__init__.py is the front door: it may import every part, and no part imports it. OUTSIDE
# is not part of the package.
LAYERS: list[list[set[str]]] = [
    [{"types"}, {"errors"}, {"references"}, {"schedules"}, {"importing"}],
    [{"files"}],
    [{"equations", "distributions"}],
    [{"networks"}, {"replay"}, {"envs"}],
    [{"settings"}, {"resources"}],
    [{"agents"}],
    [{"policies"}, {"runs"}],
    [{"training"}],
    [{"reproduction"}, {"conformance"}],
    [{"figures", "commands"}],
    [{"__main__"}],
    [{"experiments"}, {"benchmarks"}],
]
OUTSIDE = ("experiments", "benchmarks")

# Stricter than the layers: these parts and modules import only the given parts, besides their own.
ONLY: dict[str, set[str]] = {
    "types": set(),
    "files": {"errors"},
    "references": set(),
    "errors": set(),
    "schedules": set(),
    "equations": set(),
    "replay": {"types", "errors", "files", "schedules"},
    "envs": {"types", "errors"},
    "networks.torsos": {"types", "references"},
    "policies.policy": {"types", "files", "errors"},
    "conformance.check": set(),
}

TENSORFLOW = {"tensorflow", "tensorflow_probability", "tf_keras", "keras", "tensorboard"}
SIMULATORS = {"gymnasium", "ale_py", "minatar", "mujoco", "dm_control", "shimmy"}
FORBIDDEN: dict[str, set[str]] = {
    "policies.policy": TENSORFLOW - {"tensorflow"},
    **dict.fromkeys(("types", "files", "references", "errors", "replay", "envs", "settings"), TENSORFLOW),
    **dict.fromkeys(("networks.torsos", "networks.image_axes"), TENSORFLOW),
    "conformance.check": TENSORFLOW,
}
EQUATIONS_MAY_IMPORT = {"tensorflow", "__future__", "typing", "collections"}

PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


class Import(NamedTuple):
    line: int
    module: str  # dotted and absolute: acer_tf.replay.chunks, tensorflow


def sources() -> list[Path]:
    return sorted(path for folder in ("acer_tf", *OUTSIDE) for path in (ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, package: str) -> Iterator[Import]:
    """Every import, also in functions and under TYPE_CHECKING; relative ones are resolved in `package`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            # `from acer_tf import envs` imports a part; `from acer_tf.envs import make` a name from one.
            for alias in node.names:
                yield Import(node.lineno, f"{base}.{alias.name}" if base == "acer_tf" else base)


def part_of(module: str) -> str | None:
    """The part that a module belongs to; "" for the front door, None for other packages."""
    top, *rest = module.split(".")
    if top in OUTSIDE:
        return top
    if top == "acer_tf":
        return rest[0] if rest else ""
    return None


def rule_for(module: str, rules: dict[str, set[str]]) -> set[str] | None:
    """The rule of a module, or else of its part; None if neither has one."""
    _, _, path = module.partition(".")
    return rules.get(path, rules.get(path.partition(".")[0]))


def allowed_parts(module: str) -> set[str]:
    part = part_of(module) or ""
    if (only := rule_for(module, ONLY)) is not None:
        return only | {part}
    allowed: set[str] = set()
    for layer in LAYERS:
        for group in layer:
            if part in group:
                return allowed | group
        allowed.update(*layer)
    raise KeyError(part)


def import_violations(source: str, module: str, is_package: bool = False) -> list[str]:
    part = part_of(module)
    if not part:
        return []
    try:
        allowed = allowed_parts(module)
    except KeyError:
        return [f"{module}: the part '{part}' has no place in LAYERS"]
    everything = {part for layer in LAYERS for group in layer for part in group}
    found = []
    for line, target in imports(source, module if is_package else module.rpartition(".")[0]):
        where = f"{module}:{line} imports {target}"
        top, target_part = target.split(".")[0], part_of(target)
        if target_part is not None:
            front_door = target_part not in everything
            if front_door and part not in OUTSIDE and target != "acer_tf.__version__":
                found.append(f"{where}: a part imports parts, not the front door")
            elif not front_door and target_part not in allowed:
                found.append(f"{where}: {part} may import {sorted(allowed - {part})}")
        elif top in (rule_for(module, FORBIDDEN) or set()):
            found.append(f"{where}: {part} never imports {top}")
        elif top in SIMULATORS and part not in ("envs", "benchmarks", "conformance"):  # these bring some of their own
            found.append(f"{where}: only envs knows the simulators")
        elif part == "equations" and top not in EQUATIONS_MAY_IMPORT:
            found.append(f"{where}: equations imports TensorFlow alone")
    return found


def loading_violations(source: str) -> list[str]:
    """Ways to run code from a data file: any pickle module, and np.load without allow_pickle=False."""
    found = [f"line {line} imports {name}" for line, name in imports(source, "") if name.split(".")[0] in PICKLES]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "numpy" and any(a.name == "load" for a in node.names):
            found.append(f"line {node.lineno} imports load from numpy: write np.load")
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
            said = {keyword.arg: keyword.value for keyword in node.keywords}.get("allow_pickle")
            if not (isinstance(said, ast.Constant) and said.value is False):
                found.append(f"line {node.lineno} calls np.load without allow_pickle=False")
    return found


LOCAL_PATH = re.compile(rb"(?<![\w.~*])/(?:home|root|work|Users)/[\w.-]|file:/{3}")


def local_paths(content: bytes) -> list[str]:
    """Paths that exist only on the machine where the file was written."""
    return [match.group().decode() for match in LOCAL_PATH.finditer(content)]


def repository_files() -> list[Path]:
    """Files that are tracked, or would be by `git add`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in files if path.is_file()]


def test_no_file_of_the_package_is_longer_than_the_rule_says():
    (most,) = re.findall(r"files of the package of at most (\d+) lines", (ROOT / "CONTRIBUTING.md").read_text())
    package = ROOT / "acer_tf"
    lines = {str(path.relative_to(package)): path.read_text().count("\n") for path in package.rglob("*.py")}
    long = {name for name, count in lines.items() if count > int(most)}
    assert long <= {"settings/settings.py"}


def test_imports_run_downwards():
    # benchmarks/peer_programs/ run in other projects' environments and import nothing of this package.
    ours = [path for path in sources() if path.parent.name != "peer_programs"]
    modules = [(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py") for path in ours]
    assert len(modules) > 20
    assert [violation for module in modules for violation in import_violations(*module)] == []


def import_cycle(modules: dict[str, str]) -> list[str]:
    """An import cycle among modules, given as sources by name; empty if there is none.

    Imports for annotations alone do not count.
    """
    graph = {}
    for name, source in modules.items():
        conditions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If)]
        typing_only = [node for node in conditions if ast.unparse(node.test) == "TYPE_CHECKING"]
        left_out = {line for node in typing_only for line in range(node.lineno, (node.end_lineno or 0) + 1)}
        found = {i.module for i in imports(source, name.rpartition(".")[0]) if i.line not in left_out}
        graph[name] = found & modules.keys()
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_no_modules_import_each_other():
    # Modules of a package may import each other through its __init__.
    files = [path for path in sources() if path.name != "__init__.py"]
    assert import_cycle({module_name(path): path.read_text(encoding="utf-8") for path in files}) == []


def test_a_cycle_is_found():
    modules = {
        "acer_tf.a.b": "def f():\n    from ..c import x",
        "acer_tf.c": "from acer_tf.d import y",
        "acer_tf.d": "",
    }
    assert import_cycle(modules) == []
    modules["acer_tf.d"] = "if TYPE_CHECKING:\n    from acer_tf.a.b import f"
    assert import_cycle(modules) == []
    modules["acer_tf.d"] = "from acer_tf.a.b import f"
    assert set(import_cycle(modules)) == set(modules)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("acer_tf.types", "from acer_tf import equations", "types may import []"),
        ("acer_tf.types", "import keras", "never imports keras"),
        ("acer_tf.equations", "from acer_tf.types import Trajectory", "equations may import []"),
        ("acer_tf.equations", "import numpy as np", "TensorFlow alone"),
        ("acer_tf.distributions", "import acer_tf.networks.discrete", "distributions may import"),
        (
            "acer_tf.policies.policy",
            "from acer_tf.networks.discrete import Network",
            "policies may import ['errors', 'files', 'types']",
        ),
        ("acer_tf.policies.policy", "def f():\n    import keras", "policies never imports keras"),
        ("acer_tf.policies.policy", "import gymnasium", "only envs knows"),
        ("acer_tf.replay.trajectories", "def f():\n    import tensorflow as tf", "replay never imports"),
        (
            "acer_tf.replay.trajectories",
            "from acer_tf.equations import retrace",
            "replay may import ['errors', 'files', 'schedules', 'types']",
        ),
        ("acer_tf.replay.trajectories", "from ..envs import make", "replay may import ['errors', 'files', 'schedules'"),
        ("acer_tf.envs.atari", "from keras import ops", "envs never imports"),
        ("acer_tf.networks.discrete", "from acer_tf import replay", "networks may import"),
        ("acer_tf.networks.discrete", "import gymnasium", "only envs knows"),
        ("acer_tf.agents.acer", "if TYPE_CHECKING:\n    import acer_tf.training.train", "agents may import"),
        ("acer_tf.training.loop", "from ..reproduction import report", "training may import"),
        ("acer_tf.training.loop", "import acer_tf.commands.train", "training may import"),
        ("acer_tf.training.loop", "from acer_tf import load_policy", "front door"),
        ("acer_tf.training.loop", "import acer_tf", "front door"),
        ("acer_tf.reproduction.plan", "from benchmarks import timing", "reproduction may import"),
        ("experiments.train", "import benchmarks.peers", "experiments may import"),
        ("acer_tf.surprise", "", "no place in LAYERS"),
    ],
)
def test_an_upward_or_foreign_import_is_found(module, source, complaint):
    (violation,) = import_violations(source, module)
    assert complaint in violation


def test_a_relative_import_in_a_package_file_is_resolved():
    assert import_violations("from .trajectories import TrajectoryReplay", "acer_tf.replay", is_package=True) == []
    (violation,) = import_violations("from ..agents import acer", "acer_tf.replay", is_package=True)
    assert "imports acer_tf.agents" in violation


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("acer_tf", "from acer_tf.policies.policy import load_policy"),
        ("acer_tf.equations", "from __future__ import annotations\nfrom typing import NamedTuple\nimport tensorflow"),
        ("acer_tf.policies.policy", "import tensorflow\nfrom acer_tf.types import EnvironmentSpec"),
        ("acer_tf.networks.discrete", "import keras\nfrom acer_tf import equations, types"),
        ("acer_tf.replay.trajectories", "import numpy\nfrom acer_tf.types import Trajectory\nfrom . import chunks"),
        ("acer_tf.training.train", "from acer_tf import __version__, agents, envs, replay"),
        ("acer_tf.commands.train", "from acer_tf.settings import Settings\nfrom acer_tf.reproduction import report"),
        ("benchmarks.checkouts", "from acer_tf.commands import cli\nfrom benchmarks.peers import speed"),
    ],
)
def test_a_downward_import_is_not(module, source):
    assert import_violations(source, module) == []


@pytest.mark.process
def test_importing_these_loads_no_tensorflow():
    """Also through what they import in turn, the front door included."""
    modules = "acer_tf.types, acer_tf.replay, acer_tf.envs, acer_tf.settings"
    code = f"import sys, {modules}; print(*{TENSORFLOW!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_nothing_is_unpickled():
    found = {module_name(path): loading_violations(path.read_text(encoding="utf-8")) for path in sources()}
    assert {module: violations for module, violations in found.items() if violations} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import numpy as np\nnp.load('a.npz')",
        "import numpy as np\nnp.load('a.npz', allow_pickle=True)",
        "import numpy as np\nnp.load('a.npz', allow_pickle=flag)",
        "from numpy import load",
    ],
)
def test_an_unsafe_load_is_found(source):
    assert len(loading_violations(source)) == 1


def test_a_safe_load_is_not():
    assert loading_violations("import numpy as np\nnp.load('a.npz', mmap_mode='r', allow_pickle=False)") == []


@pytest.mark.process
def test_no_file_names_a_local_path():
    found = {str(path.relative_to(ROOT)): local_paths(path.read_bytes()) for path in repository_files()}
    assert found
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_a_local_path_is_found():
    for folder in ("home", "root", "work", "Users"):
        assert local_paths(f'run_dir = "/{folder}/somebody/runs"'.encode()) == [f"/{folder}/s"]
    assert local_paths(b"--find-links " + b"file:" + b"///opt/wheels")


def test_an_address_or_a_relative_path_is_not():
    assert local_paths(b"https://example.org/home/index.html runs/work/0 ~/" + b"work/runs and/or /" + b"tmp/run") == []


def pins(lock: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    malformed = [line for line in pinned if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)]
    assert malformed == []
    return {canonical(name): version for name, version in (line.split("==") for line in pinned)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("lock", "python"), [("py311", "3.11"), ("py312", "3.12"), ("py313", "3.13"), ("lowest", "3.11")]
)
def test_a_lock_has_a_matching_version_of_every_requirement(lock, python):
    requirements = [Requirement(text) for text in metadata.requires("acer_tf") or []]
    assert {"tensorflow", "ray", "mujoco", "minatar", "pytest", "rliable"} <= {r.name.lower() for r in requirements}
    locked = pins(f"{lock}.lock")
    extras = metadata.metadata("acer_tf").get_all("Provides-Extra") or []
    needed = [
        r
        for r in requirements
        if r.marker is None or any(r.marker.evaluate({"python_version": python, "extra": extra}) for extra in extras)
    ]
    assert [str(r) for r in needed if not r.specifier.contains(locked.get(canonical(r.name), "0"))] == []
    assert {"dm-control", "tensorflow"} <= set(locked)
