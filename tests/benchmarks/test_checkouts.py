import json

import pytest
from absl.testing import flagsaver

from acer_tf.commands import cli, train
from acer_tf.settings import make_settings
from benchmarks import __main__ as benchmark
from benchmarks import checkouts

SMALL = ("--env=CartPole-v1", "--network=mlp", "--num_envs=2", "--unroll_length=3", "--trajectories_per_update=1")
# What an older checkout has in common with this one: the training command, its flags, and what it writes.
OLDER = """
import argparse, json, pathlib, time
parser = argparse.ArgumentParser()
for flag in ("env", "network", "precision", "preset"):
    parser.add_argument(f"--{flag}")
parser.add_argument("--replay_ratio", type=float)
parser.add_argument("--run_dir", type=pathlib.Path)
options, _ = parser.parse_known_args()
if options.env == "minatar/pong":
    raise SystemExit("error: there is no minatar/pong")
options.run_dir.mkdir()
settings = {"replay_ratio": options.replay_ratio, "num_envs": 2, "unroll_length": 3, "precision": options.precision}
(options.run_dir / "run.json").write_text(json.dumps({"format": 1, "settings": settings}))
rate = 100 if options.replay_ratio else 200
rows = [f"{n * rate},{n},{n},{int(n * options.replay_ratio)}" for n in range(20)]
text = "\\n".join(["steps,seconds,on_policy_updates,replay_updates", *rows, ""])
(options.run_dir / "progress.csv").write_text(text)
time.sleep(60)
"""


@pytest.fixture
def older(tmp_path, monkeypatch):
    folder = tmp_path / "older"
    (folder / "experiments").mkdir(parents=True)
    (folder / "experiments" / "__init__.py").touch()  # so that Python finds this one first
    (folder / "experiments" / "train.py").write_text(OLDER)
    monkeypatch.setattr(checkouts, "HERE", folder)
    return folder


@pytest.mark.process
def test_this_checkout_beside_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checkouts, "WORKLOADS", {"cartpole": checkouts.Loop((*SMALL, "--log_interval=60"), (4,))})
    monkeypatch.setattr(checkouts, "SECONDS", 0.1)
    saved = flagsaver.save_flag_values(benchmark.FLAGS)
    try:
        flags = [f"--against={checkouts.HERE}", "--repetitions=1", f"--output={tmp_path}", f"--scratch={tmp_path}"]
        assert benchmark.main(["benchmark", *flags]) == 0
        assert benchmark.main(["benchmark", *flags]) == 2
    finally:
        flagsaver.restore_flag_values(saved, benchmark.FLAGS)
    said = capsys.readouterr()
    assert "benchmark.json exists: move it away" in said.err
    ours, theirs = json.loads((tmp_path / "benchmark.json").read_text())["against"]["cartpole"]
    for (rates,) in (ours, theirs):
        assert rates["4"] > 0
    assert (tmp_path / "benchmark.md").read_text().count("| cartpole |") == 1


@pytest.mark.process
def test_a_checkout_needs_the_training_command_alone(older, monkeypatch):
    monkeypatch.setattr(checkouts, "WORKLOADS", {"cartpole": checkouts.Loop(SMALL)})
    monkeypatch.chdir(older.parent)
    assert list(checkouts.compare(older.relative_to(older.parent), 1)) == [
        ("cartpole", [{"0": 200.0, "4": 100.0}], [{"0": 200.0, "4": 100.0}])
    ]


@pytest.mark.process
def test_what_a_checkout_refuses_is_said(older, monkeypatch):
    monkeypatch.setattr(checkouts, "WORKLOADS", {"pong": checkouts.Loop(("--env=minatar/pong",))})
    with pytest.raises(ValueError, match="older .*minatar/pong"):
        next(checkouts.compare(older, 1))


def test_the_flags_of_every_loop_are_known():
    for loop in checkouts.WORKLOADS.values():
        cli.parse(train.FLAGS, ["train", *loop.flags], None)


def test_the_table_has_medians_and_the_median_of_ratios():
    ours, theirs = [{"4": 200.0}, {"4": 300.0}, {"4": 100.0}], [{"4": 100.0}, {"4": 100.0}, {"4": 100.0}]
    line = checkouts.table({"loop": (ours, theirs)}).splitlines()[-1]
    assert line == "| loop | 4 | 100 steps/s | 200 steps/s | 2.00 |"


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be the folder of a checkout"):
        checkouts.require_checkout(tmp_path)


@pytest.mark.parametrize("name", checkouts.WORKLOADS)
def test_the_agent_of_each_loop_takes_its_preset(name):
    flags = [flag.removeprefix("--").split("=") for flag in checkouts.WORKLOADS[name].flags if "=" in flag]
    given = {name: value for name, value in flags if name in ("env", "agent", "preset")}
    assert make_settings(given).preset == given.get("preset", "minatar")
