"""What an addition to the package takes: each is made in a copy of it by these edits alone, and then used by a run."""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")

# By file: the line after which a line is added and that line, or for a new file its content.
Edits = dict[str, tuple[str, str] | str]
HYPER_PARAMETER: Edits = {
    "acer_tf/settings/settings.py": (
        '    critic_weight: float = setting(0.5, d.NOT_NEGATIVE, "factor of ½ (Q_ret − Q)²")',
        '    policy_weight: float = setting(1.0, d.NOT_NEGATIVE, "factor of z*", classes=_ACER)',
    ),
    "acer_tf/agents/acer.py": ("            z += entropy_gradient", "        z *= h.policy_weight"),
}
TORSO: Edits = {
    "acer_tf/networks/torsos.py": (
        '    "mlp": Torso(_mlp, lambda spec: spec.stack == 1, continuous=True),',
        '    "linear": Torso(lambda layers, x: layers.hidden(32, "linear", "dense", layers.flat(x)), '
        "lambda spec: spec.stack == 1),",
    ),
}
RULE: Edits = {
    "acer_tf/settings/rules.py": (
        '    "acer": Rule(_ACER, recurrent=True),',
        '    "vtrace": Rule("acer_tf.agents.vtrace:VTrace", fixed={"trust_region_delta": math.inf}),',
    ),
    "acer_tf/agents/vtrace.py": re.findall(r"```python\n# my_rules.py\n(.*?)```", EXTENDING, flags=re.DOTALL)[0],
}
FAMILY: Edits = {
    "acer_tf/envs/families.py": (
        "FAMILIES: dict[str, Family] = {",
        '    "corridor": Family("acer_tf.envs.corridor:make_corridor", ("short", "long"), ("classic", "")),',
    ),
    "acer_tf/envs/corridor.py": re.findall(r"```python\n# my_envs.py\n(.*?)```", EXTENDING, flags=re.DOTALL)[0]
    + """

def make_corridor(name, num_envs, seeds, *, threads, render):
    from acer_tf.envs.generic import make_gym

    limit = {"short": 50, "long": 200}[name]
    return make_gym("Corridor-v0", num_envs, seeds, threads=threads, render=render, max_episode_steps=limit)
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds a copy of the package with all four additions."""
    folder = tmp_path_factory.mktemp("additions")
    shutil.copytree(ROOT / "acer_tf", folder / "acer_tf", ignore=shutil.ignore_patterns("__pycache__"))
    for edits in (HYPER_PARAMETER, TORSO, RULE, FAMILY):
        for name, edit in edits.items():
            if isinstance(edit, tuple):
                text = (folder / name).read_text(encoding="utf-8")
                anchor, added = edit
                assert text.count(f"{anchor}\n") == 1, anchor
                edit = text.replace(f"{anchor}\n", f"{anchor}\n{added}\n")
            (folder / name).write_text(edit, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("edits", "most"), [(HYPER_PARAMETER, 2), (TORSO, 2), (RULE, 4), (FAMILY, 3)])
def test_an_addition_touches_few_files(edits, most):
    assert len(edits) <= most


def run(folder, *flags):
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", "acer_tf", "train", *flags]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_run_uses_the_family_the_torso_and_the_hyper_parameter(folder):
    common = ["--env=corridor/short", "--network=linear", "--total_steps=20_000"]
    done = run(folder, *common, "--policy_weight=1.5", "--run_dir=weighted")
    assert done.returncode == 0, done.stderr[-2000:]
    with (folder / "weighted" / "progress.csv").open(newline="") as file:
        assert float(list(csv.DictReader(file))[-1]["mean_return"]) > -1, "the best is 0.4, a random walk about -4"
    assert '"policy_weight": 1.5' in (folder / "weighted" / "run.json").read_text()
    refused = run(folder, *common, "--policy_weight=-1", "--run_dir=refused")
    assert refused.returncode == 2 and "--policy_weight=-1.0: must be at least 0" in refused.stderr


def test_a_run_uses_the_rule_which_refuses_what_it_does_not_read(folder):
    common = ["--env=corridor/long", "--agent=vtrace", "--total_steps=2_000", "--run_dir=vtrace"]
    refused = run(folder, *common, "--policy_weight=2")
    assert refused.returncode == 2 and "--policy_weight=2.0: has no effect with --agent=vtrace" in refused.stderr
    done = run(folder, *common)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (folder / "vtrace" / "policy").is_dir()


def test_the_help_lists_what_was_added(folder):
    text = run(folder, "--help").stdout
    assert "policy_weight" in text and "vtrace" in text and "linear_lstm" in text
