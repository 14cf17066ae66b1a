"""A small campaign, and that one finds what is planted."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from acer_tf.types import EnvironmentSpec
from tests.torture import clusters, common, signals, spaces

ROOT = Path(__file__).parents[2]
# A value out of range is no SettingsError.
FLAGS_FAULT = """
from acer_tf.settings import Settings
def fail(*_):
    raise KeyError("planted")
Settings.__post_init__ = fail
"""
# A run hears no signal; its environment is slow, so that the signal comes before the end on any machine.
SIGNALS_FAULT = """
import time
from gymnasium.envs.classic_control import CartPoleEnv
from acer_tf.runs.signals import StopRequest
step = CartPoleEnv.step
CartPoleEnv.step = lambda *given: time.sleep(0.01) or step(*given)
StopRequest.__enter__ = lambda self: self
StopRequest.__exit__ = lambda self, *_: None
"""
# An exported policy numbers its actions from 100.
SPACES_FAULT = """
from acer_tf.policies import policy
answer = policy.Policy.answer
policy.Policy.answer = lambda *given, **named: {name: x + 100 for name, x in answer(*given, **named).items()}
"""
# An evaluation changes the weights that are trained.
EVALUATED_FAULT = """
from acer_tf.training.evaluations import Evaluations
evaluate = Evaluations.evaluate
def disturb(self, *given):
    evaluate(self, *given)
    for weight in self._policy.network.trainable_variables:
        weight.assign(weight + 0.01)
Evaluations.evaluate = disturb
"""
# A run with processes leaves one behind.
WORKERS_FAULT = """
import subprocess
from acer_tf.envs.workers import WorkersVector
begin = WorkersVector._check_spaces
def stray(self):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    begin(self)
WorkersVector._check_spaces = stray
"""
# A search takes another number for the return of a run.
SEARCHES_FAULT = """
from acer_tf.reproduction import trials
trials.value_of = lambda run: 1.0
"""
# No mask is read.
MASKS_FAULT = """
import numpy as np
from acer_tf.envs import masks
masks.valid_actions = lambda given, spec, ended, *_: np.ones((len(ended), spec.num_actions), bool)
"""
# The form of answers is not checked.
VECTORS_FAULT = """
from acer_tf.envs.own_vectors import OwnVector
OwnVector._numbers = lambda self, method, name, found, kinds: found
"""
# Every answer is taken for the right one.
ANSWERS_FAULT = """
from acer_tf.conformance import check
check._difference = lambda *_: ""
"""
# Each attempt is a process of its own, in which a fault is planted before it begins.
CAMPAIGN = """
import functools, json, sys
from tests.torture import __main__ as campaign

def planted(fault, attempt, *given):
    exec(fault, {})
    return attempt(*given)

for kind, fault in json.loads(sys.argv.pop(1)).items():
    attempt, count = campaign.KINDS[kind]
    campaign.KINDS[kind] = functools.partial(planted, fault, attempt), count
sys.exit(campaign.main(sys.argv[1:]))
"""


# Of the kinds that are quick and have no planted fault below, and of one that has.
QUICK = ("kill:1", "observations:1", "environments:0", "signals_played:1", "endless:0", "spaces:1")
FOUND = {
    "flags:3": (FLAGS_FAULT, "a traceback: KeyError: 'planted'"),
    "signals:49": (SIGNALS_FAULT, "no checkpoint of the moment"),
    "spaces:0": (SPACES_FAULT, "is not in"),
    "answers:0": (ANSWERS_FAULT, "passed: "),
    "evaluated:0": (EVALUATED_FAULT, "another result than that of a run without evaluations"),
    "workers:4": (WORKERS_FAULT, "left: sleep"),
    "searches:2": (SEARCHES_FAULT, "has the value 1.0"),
    "masks:4": (MASKS_FAULT, "is not valid"),
    "vectors:0": (VECTORS_FAULT, "a traceback"),
}


def campaign(*command):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True)


def only(*names):
    return [f"--only={name}" for name in names]


@pytest.mark.process
def test_a_few_attempts_of_the_quick_kinds_are_right(tmp_path):
    done = campaign("-m", "tests.torture", "--seed=1", f"--output={tmp_path}", *only(*QUICK))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"| all | {len(QUICK)} | {len(QUICK)} | 0 | 0 |" in (tmp_path / "seed-1.md").read_text()
    assert len((tmp_path / "seed-1.csv").read_text().splitlines()) == 1 + len(QUICK)


@pytest.mark.process
def test_planted_faults_are_found(tmp_path):
    faults = json.dumps({name.partition(":")[0]: fault for name, (fault, _) in FOUND.items()})
    done = campaign("-c", CAMPAIGN, faults, "--seed=1", *only(*FOUND), f"--output={tmp_path}")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = (tmp_path / "seed-1.md").read_text().splitlines()
    for name, (_, wrong) in FOUND.items():
        assert [line for line in lines if line.startswith(f"- `{name}`") and wrong in line], done.stdout


@pytest.mark.parametrize(
    ("done", "wrong"),
    [
        (common.Done(0, "", "a notice\n"), ""),
        (common.Done(2, "", "error: --seed=x: must be\n"), ""),
        (common.Done(2, "", "error: no\n"), "the message names none of --seed: error: no"),
        (common.Done(-11, "", ""), "status -11: nothing on standard error"),
        (common.Done(None, "", ""), "it hangs"),
        (common.Done(2, "", "error: --seed\nmore\n"), "more than one line: error: --seed ... more"),
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


class TestSignals:
    def shots(self, *sent):
        shots = signals.Shots(random.Random(0))
        shots.effective = [getattr(signal, name) for name in sent]
        return shots

    @pytest.mark.parametrize(
        ("status", "said", "wrong"),
        [
            (129, "stopped by SIGHUP; the same command continues from here", ""),
            (-11, "", ""),
            (0, "", ""),  # it had ended before
            (143, "stopped by SIGTERM", "status 143: stopped by SIGTERM"),
            (-1, "", "status -1: nothing on standard error"),
            (129, "", "no line says that SIGHUP stopped it: ''"),
        ],
    )
    def test_the_end_that_each_signal_is_due(self, status, said, wrong):
        assert self.shots("SIGHUP", "SIGSEGV").complaint(common.Done(status, "", said)) == wrong


class TestSpaces:
    @pytest.mark.parametrize("given", [[2], [-1], [0.5, float("nan")]])
    def test_an_action_outside_the_space_is_found(self, given):
        spec = EnvironmentSpec((4,), "float32", 1, 2, action_start=0)
        spaces.require_inside(np.array([0, 1]), spec)
        with pytest.raises(AssertionError, match="is not in"):
            spaces.require_inside(np.array(given), spec)

    def test_ways_out_are_read_from_a_refusal(self):
        wrapper = "gymnasium.wrappers.TransformAction(env, lambda a: (a), gymnasium.spaces.Discrete(2))"
        assert spaces.ways_out(f"error: no; with {wrapper}, or so\n") == [wrapper]
        assert spaces.ways_out(f"error: --network=mlp; else {wrapper}") == ["--network=mlp", wrapper]
        assert spaces.ways_out("error: --agent=acer: no; it takes --agent=tis, a3c") == ["--agent=tis"]
        assert spaces.ways_out("error: it gives masks: give --noaction_masks") == ["--noaction_masks"]
        assert spaces.ways_out("error: no") == []

    def test_every_seed_makes_an_environment_that_keeps_to_its_spaces(self, monkeypatch):
        for seed in range(30):
            monkeypatch.setenv(spaces.VARIABLE, str(seed))
            env = spaces.make()
            env.unwrapped.masks = ""  # a random action need not be valid
            assert env.observation_space.contains(env.reset(seed=0)[0])
            assert env.observation_space.contains(env.step(env.action_space.sample())[0])


class TestClusters:
    def test_rows_may_differ_after_an_actor_was_replaced(self, tmp_path, monkeypatch):
        expected = [{"steps": "1000", "a": "1"}, {"steps": "2000", "a": "2"}, {"steps": "3000", "a": "3"}]
        monkeypatch.setattr(common, "expected_rows", lambda *_, **__: expected)
        note = "run, step 2,000: actor 1 is gone: another takes its place, with new episodes\n"

        def judge(content, err, status=0):
            rows = [f"{row},1,1" for row in content]
            (tmp_path / "progress.csv").write_text("\n".join(["steps,a,seconds,steps_per_second", *rows]))
            return clusters.judge_rows(common.Done(status, "", err), tmp_path, tmp_path, 0)

        assert judge(["1000,1", "2000,2", "3000,3"], "") == ""
        assert judge(["1000,1", "2000,9", "3010,9"], note) == ""
        assert "another result" in judge(["1000,1", "2000,2", "3000,9"], "")
        assert "another result" in judge(["1000,9", "2000,2", "3000,3"], note)
        assert "are missing" in judge(["1000,1", "2000,2"], "")
        assert judge(["1000,1", "2000,2"], "", status=1) == ""

    @pytest.mark.process
    def test_what_is_left_behind_is_found_and_ended(self, tmp_path):
        program = """
import os, subprocess, sys, multiprocessing
from pathlib import Path
from tests.torture import clusters, common
clusters._PATIENCE_SECONDS = 0.5
clusters.adopt()
process = common.Fork(lambda: subprocess.Popen(["sleep", "60"], start_new_session=True) and None, Path(sys.argv[1]))
process.process.join()
print(clusters.left_of(process), clusters.left_of(process))
"""
        done = campaign("-c", program, str(tmp_path / "log"))
        assert done.stdout == "['sleep'] []\n", done.stderr
