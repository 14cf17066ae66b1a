"""A small campaign, and that one finds what is planted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture import common

ROOT = Path(__file__).parents[2]
# The fault: a value out of range is no SettingsError.
PLANT = """
import sys
from acer_tf import settings
from acer_tf.settings import declaration
def fail(*_):
    raise KeyError("planted")
settings.Settings.__post_init__ = fail
from tests.torture import __main__
sys.exit(__main__.main(sys.argv[1:]))
"""


def campaign(*command):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.process
def test_a_few_attempts_of_the_quick_kinds_are_right(tmp_path):
    only = ("kill:1", "flags:1", "observations:1", "environments:0")
    done = campaign("-m", "tests.torture", "--seed=1", f"--output={tmp_path}", *(f"--only={name}" for name in only))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 4 | 4 | 0 | 0 |" in (tmp_path / "seed-1.md").read_text()
    assert len((tmp_path / "seed-1.csv").read_text().splitlines()) == 5


@pytest.mark.process
def test_a_planted_fault_is_found(tmp_path):
    done = campaign("-c", PLANT, "--seed=1", "--only=flags:3", f"--output={tmp_path}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "a traceback: KeyError: 'planted'" in (tmp_path / "seed-1.md").read_text()


@pytest.mark.parametrize(
    ("done", "wrong"),
    [
        (common.Done(0, "", "a notice\n"), ""),
        (common.Done(2, "", "error: --seed=x: must be\n"), ""),
        (common.Done(2, "", "error: no\n"), "the message names none of --seed: error: no"),
        (common.Done(-11, "", ""), "status -11: nothing on standard error"),
        (common.Done(None, "", ""), "it hangs"),
        (common.Done(0, "", "Traceback (most recent call last):\nOops\n"), "a traceback: Oops"),
    ],
)
def test_what_is_wrong_with_the_end_of_a_process(done, wrong):
    assert common.complaint(done, (0, 2), ["--seed"]) == wrong


def test_a_result_that_differs_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "expected_rows", lambda scratch, steps: [{"steps": str(steps)}])
    (tmp_path / "progress.csv").write_text("steps,seconds,steps_per_second\n50,1.5,9\n")
    whole, warned = common.Done(0, "", ""), common.Done(0, "", "falling back to the previous checkpoint\n")
    assert common.judge_resumption(whole, tmp_path, tmp_path, 50) == ""
    assert "another result" in common.judge_resumption(whole, tmp_path, tmp_path, 40)
    assert "without a word" in common.judge_resumption(whole, tmp_path, tmp_path, 100, earlier=50)
    assert common.judge_resumption(warned, tmp_path, tmp_path, 100, earlier=50) == ""
    (tmp_path / ".policy.new").touch()
    assert common.judge_resumption(whole, tmp_path, tmp_path, 50) == "left: .policy.new"
