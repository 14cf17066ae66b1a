"""What an addition to the package takes: each is made in a copy of it by these edits alone, and then used by a run."""

import csv
import difflib
import math
import re
import shutil
from pathlib import Path

import pytest

from tests.processes import answers_of
from tests.test_readme import TEXT

ROOT = Path(__file__).parents[1]


def _example(page: str, module: str) -> str:
    return re.findall(rf"```python\n# {module}\.py\n(.*?)```", TEXT[page], flags=re.DOTALL)[0]


# By file: the line after which a line is added and that line, or for a new file its content.
Edits = dict[str, tuple[str, str] | str]
HYPER_PARAMETER: Edits = {
    "acer_tf/settings/settings.py": (
        '        0.5, d.NOT_NEGATIVE, "factor of the critic loss ½ (Q_ret − Q)²", search=d.log_uniform(0.1, 2.0))',
        '    policy_weight: float = setting(1.0, d.NOT_NEGATIVE, "factor of z*", classes=_ACER)',
    ),
    "acer_tf/agents/acer.py": ("            z += entropy_gradient", "        z *= h.policy_weight"),
}
TORSO: Edits = {
    "acer_tf/networks/torsos.py": (
        '    "mlp": Torso(_mlp, lambda spec: spec.stack == 1),',
        '    "linear": Torso(lambda layers, x: layers.hidden(32, "linear", "dense", layers.flat(x)), '
        "lambda spec: spec.stack == 1),",
    ),
}
RULE: Edits = {
    "acer_tf/settings/rules.py": (
        '    "acer": Rule(_ACER, recurrent=True),',
        '    "vtrace": Rule("acer_tf.agents.vtrace:VTrace", fixed={"trust_region_delta": math.inf}),',
    ),
    "acer_tf/agents/vtrace.py": _example("docs/extending.md", "my_rules"),
}
FAMILY: Edits = {
    "acer_tf/envs/families.py": (
        "FAMILIES: dict[str, Family] = {",
        '    "corridor": Family(("short", "long"), ("classic", "")),',
    ),
    "acer_tf/envs/corridor.py": _example("docs/environments.md", "my_envs")
    + """

def make_corridor(name, num_envs, seeds, *, max_episode_steps, **options):
    from acer_tf.envs.gymnasium import make_gymnasium

    limit = min(max_episode_steps, {"short": 50, "long": 200}[name])
    return make_gymnasium("Corridor-v0", num_envs, seeds, max_episode_steps=limit, **options)
""",
}


# The most files that each may take. It adds one line to each that is there already.
ADDITIONS = {"hyper-parameter": (HYPER_PARAMETER, 2), "torso": (TORSO, 1), "rule": (RULE, 2), "family": (FAMILY, 2)}


def copy_with(folder, *additions):
    shutil.copytree(ROOT / "acer_tf", folder / "acer_tf", ignore=shutil.ignore_patterns("__pycache__"))
    for name, edit in (item for edits in additions for item in edits.items()):
        if isinstance(edit, tuple):
            text = (folder / name).read_text(encoding="utf-8")
            anchor, added = edit
            assert text.count(f"{anchor}\n") == 1, anchor
            edit = text.replace(f"{anchor}\n", f"{anchor}\n{added}\n")
        (folder / name).write_text(edit, encoding="utf-8")
    return folder


def changes(folder):
    """By file of a copy of the package: the lines that differ from ours; infinitely many in a new file."""
    found = {}
    for path in (folder / "acer_tf").rglob("*"):
        ours = ROOT / path.relative_to(folder)
        if path.is_file() and not ours.exists():
            found[path] = math.inf
        elif path.is_file() and path.read_bytes() != ours.read_bytes():
            lines = difflib.ndiff(*(file.read_text(encoding="utf-8").splitlines() for file in (ours, path)))
            found[path] = sum(line.startswith(("+", "-")) for line in lines)
    return found


@pytest.mark.parametrize("name", ADDITIONS)
def test_an_addition_takes_few_files_and_a_line_in_each_that_is_there(name, tmp_path):
    edits, most = ADDITIONS[name]
    changed = changes(copy_with(tmp_path, edits))
    assert 1 <= len(changed) <= most
    assert all(lines == 1 for lines in changed.values() if lines < math.inf)


CORRIDOR = ["train", "--env=corridor/short", "--network=linear", "--total_steps=10_000", "--policy_weight=1.5"]
VTRACE = ["train", "--env=corridor/long", "--agent=vtrace", "--total_steps=2_000", "--run_dir=vtrace"]


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A folder with a copy that has all four, and what commands say there."""
    folder = copy_with(tmp_path_factory.mktemp("additions"), *(edits for edits, _ in ADDITIONS.values()))
    commands = [
        [*CORRIDOR, "--run_dir=weighted"],
        [*CORRIDOR, "--policy_weight=-1", "--run_dir=refused"],
        [*VTRACE, "--policy_weight=2"],
        VTRACE,
        ["train", "--help"],
    ]
    return folder, *answers_of(commands, folder)


@pytest.mark.process
def test_a_run_uses_the_family_the_torso_and_the_hyper_parameter(used):
    folder, done, refused, *_ = used
    assert done.status == 0, done.err[-2000:]
    with (folder / "weighted" / "progress.csv").open(newline="") as file:
        assert float(list(csv.DictReader(file))[-1]["mean_return"]) > -1, "the best is 0.4, a random walk about -4"
    assert '"policy_weight": 1.5' in (folder / "weighted" / "run.json").read_text()
    assert refused.status == 2 and "--policy_weight=-1" in refused.err


@pytest.mark.process
def test_a_run_uses_the_rule_which_refuses_what_it_does_not_read(used):
    folder, _, _, refused, done, _ = used
    assert refused.status == 2 and "--policy_weight=2.0" in refused.err
    assert done.status == 0, done.err[-2000:]
    assert (folder / "vtrace" / "policy").is_dir()


@pytest.mark.process
def test_the_help_lists_what_was_added(used):
    assert all(name in used[-1].out for name in ("policy_weight", "vtrace", "mlp, linear"))
