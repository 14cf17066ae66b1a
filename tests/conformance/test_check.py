"""The checker finds wrong functions, and needs neither this package nor anything but NumPy."""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from acer_tf.conformance import check as checker
from acer_tf.conformance.check import VECTORS, check, load, report


def retrace(reward, terminated, truncated, q, value, next_value, rho, gamma, *, wrong=""):
    """The recursion as a framework without masked rows would write it, right or wrong in one of the usual ways."""
    returns, following = np.zeros(len(reward)), 0.0
    for t in reversed(range(len(reward))):
        ends = terminated[t] or truncated[t] or t + 1 == len(reward)
        if wrong == "bootstraps over ends":
            ends = t + 1 == len(reward)
        if wrong == "multiplies by 1 - done":
            following = (1 - terminated[t]) * (next_value[t] if ends else following)
        elif ends:
            done = truncated[t] if wrong == "time limits are terminations" else False
            following = 0.0 if terminated[t] or done else next_value[t]
        returns[t] = reward[t] + gamma * following
        following = value[t] + (rho[t] if wrong == "no truncation" else min(1.0, rho[t])) * (returns[t] - q[t])
    return returns


def outcome(**functions):
    (name,) = functions
    (found,) = (each for each in check(SimpleNamespace(**functions)) if each.function == name)
    return found


def failed_by(wrong):
    return set(outcome(retrace=lambda **inputs: retrace(**inputs, wrong=wrong)).failed)


def test_a_right_function_passes():
    assert not failed_by("")


@pytest.mark.parametrize(
    ("wrong", "case"),
    [
        ("bootstraps over ends", "a termination inside the window"),
        ("time limits are terminations", "a time limit inside the window bootstraps from its own last observation"),
        ("multiplies by 1 - done", "the value after a termination is NaN, and is not read"),
        ("no truncation", "ρ of 1e12 counts as 1"),
    ],
)
def test_a_usual_mistake_fails_its_case(wrong, case):
    assert case in failed_by(wrong)
    assert "every ρ is exactly 1: on-policy" not in failed_by(wrong)


def projection(g, k, delta, *, wrong=""):
    excess = np.dot(g, k) - delta
    if wrong == "no max":
        return g - excess / np.dot(k, k) * k
    if wrong == "an ε in the divisor":
        return g - max(0.0, excess) / (np.dot(k, k) + 1e-8) * k
    if wrong == "by the norm" and excess > 0:
        return g - max(0.0, excess) / np.sqrt(np.dot(k, k)) * k
    return g - max(0.0, excess) / np.dot(k, k) * k if excess > 0 else g


@pytest.mark.parametrize(
    ("wrong", "case"),
    [
        ("", None),
        ("no max", "k·g just below δ"),
        ("an ε in the divisor", "k of 1e-8 and g of 1e10"),
        ("by the norm", "the constraint binds"),
    ],
)
def test_a_wrong_projection_fails(wrong, case):
    failed = outcome(trust_region=lambda **inputs: projection(**inputs, wrong=wrong)).failed
    assert case in failed if case else not failed


def ranks(priorities, alpha, *, same=False):
    order = np.argsort(-priorities, kind="stable")[::-1] if same == "least first" else np.argsort(-priorities)
    rank = np.zeros(len(priorities))
    rank[order] = 1 + np.arange(len(priorities))
    if same is True:  # equal priorities share a rank
        rank = np.array([1 + np.sum(priorities > p) for p in priorities])
    return rank**-alpha / np.sum(rank**-alpha)


def test_ties_may_come_in_any_order_but_not_share_a_rank():
    assert not outcome(rank_probabilities=ranks).failed
    shared = outcome(rank_probabilities=lambda **inputs: ranks(**inputs, same=True)).failed
    assert shared == ["ties: each has a rank of its own", "equal priorities: ranks 1 to 4 all the same"]
    assert "five items, α = 0.7" in outcome(rank_probabilities=lambda **x: ranks(**x, same="least first")).failed


def test_answers_may_be_read_only():
    def frozen(**inputs):
        answer = ranks(**inputs)
        answer.setflags(write=False)
        return answer

    assert not outcome(rank_probabilities=frozen).failed


def test_what_is_missing_or_declined_is_not_offered():
    def declines_time_limits(**inputs):
        if inputs["truncated"].any():
            raise NotImplementedError
        return retrace(**inputs)

    outcomes = {each.function: each for each in check(SimpleNamespace(retrace=declines_time_limits))}
    cases = json.loads(VECTORS.read_text(encoding="utf-8"))
    some = outcomes["retrace"]
    assert some.passed and some.not_offered and not some.failed
    assert some.passed + some.not_offered == len(cases["retrace"]["cases"])
    assert outcomes["q_opc"].not_offered == len(cases["q_opc"]["cases"]) and not outcomes["q_opc"].passed


@pytest.mark.slow
def test_a_module_that_offers_nothing_does_not_conform():
    assert checker.conforms(check(load("acer_tf.conformance.functions:float64")))
    nothing = check(SimpleNamespace())
    assert not checker.conforms(nothing) and "nothing is offered" in report(nothing)


def test_a_failure_is_shown_with_inputs_expected_and_got():
    text = report(check(SimpleNamespace(dueling_q=lambda **_: 7.0)))
    assert "FAILED dueling_q, case 'five samples'" in text and "also fails: one sample" in text
    assert "advantage = -1.25" in text and "expected" in text and "got      7.0" in text


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda **_: np.zeros(1), "shape [1] instead of []"),
        (lambda **_: np.nan, "got      NaN"),
        (lambda **_: np.inf, "got      Infinity"),
        (lambda **_: 1 / 0, "raised ZeroDivisionError"),
        (lambda **_: sys.exit(), "raised SystemExit"),
        (lambda **_: np.zeros(10**5), "shape [100000] instead of []"),
        (lambda **_: {"q": 1.0}, "raised TypeError"),
        (lambda value: value, "raised TypeError"),
        (lambda **_: "many", "raised ValueError"),
        (lambda **_: None, "got      NaN"),
        (lambda **inputs: inputs["value"] + 0j, "got      complex numbers instead of real ones: (0.5+0j)"),
    ],
)
def test_no_answer_that_is_not_the_number_passes(function, problem):
    found = outcome(dueling_q=function)
    assert not found.passed and problem in found.first and len(found.first) < 2000


def test_an_imaginary_part_is_not_dropped():
    assert not outcome(dueling_q=lambda value, advantage, sampled_advantages: value + 1j).passed


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"items": [1]}, 'no "probabilities"; items: got      shape'),
        ([1, 2], "got      a list instead of a dict with items, probabilities"),
        (None, "got      a NoneType instead of a dict with items, probabilities"),
    ],
)
def test_a_dict_that_lacks_something_is_told_from_a_function_that_raised(answer, problem):
    first = outcome(proportional_draws=lambda **_: answer).first
    assert problem in first and "raised" not in first


def test_where_a_function_raised_is_named():
    def breaks(**_):
        raise ValueError("one line\nand another")

    place = f"{__file__}:{breaks.__code__.co_firstlineno + 1}"
    assert outcome(dueling_q=breaks).first.endswith(f"raised ValueError: one line at {place}")
    assert outcome(dueling_q=lambda: 1).first.endswith("unexpected keyword argument 'value'")


@pytest.mark.parametrize("name", ["", ":", "nothing.at.all", "json:nothing", "a b", "json", "\0", "acer_tf:1.2"])
def test_what_cannot_be_used_is_an_import_error(name):
    with pytest.raises(ImportError):
        load(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "give a module's name, such as my_functions"),
        ("right.py", "give a module's name, such as right, not a file"),
        ("./theirs/right.py:Right", "give a module's name, such as theirs.right, not a file"),
        (
            "right:Bound",
            "its functions need self: give an object of it, such as right:functions after functions = Bound() in the "
            "module, or make them static methods",
        ),
    ],
)
def test_what_would_be_right_is_said_of_a_file_and_of_a_class(name, said, tmp_path, monkeypatch):
    functions = "class Bound:\n    def kl(self, average, probabilities):\n        return 0.0\n\nfunctions = Bound()\n"
    (tmp_path / "right.py").write_text(functions)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError) as refused:
        load(name)
    assert str(refused.value) == said
    assert load("right:functions").kl(None, None) == 0.0


STAND_IN = """
import sys
import numpy as np

def value_target(rho, q_ret, q, value):
    others = {name.partition(".")[0] for name in sys.modules} & {"acer_tf", "tensorflow", "torch", "gymnasium"}
    assert not others, others
    return value + np.minimum(1, rho) * (q_ret - q)

class Wrong:
    @staticmethod
    def value_target(rho, q_ret, q, value):
        return value + rho * (q_ret - q)
"""


@pytest.mark.process
def test_a_copy_of_two_files_checks_any_module(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    for file in (checker.__file__, VECTORS):
        shutil.copy(file, tmp_path / "elsewhere")
    (tmp_path / "theirs.py").write_text(STAND_IN)

    def run(*arguments):
        command = [sys.executable, "elsewhere/check.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    right, wrong, missing, nothing = run("theirs"), run("theirs:Wrong", "float32"), run("theirs:Other"), run()
    assert (right.returncode, right.stderr) == (0, "")
    assert wrong.returncode == 1 and "'ρ above 1'" in wrong.stdout
    for refused in (missing, nothing, run("theirs", "float16")):
        assert refused.returncode == 2 and not refused.stdout and refused.stderr.count("\n") == 1
    assert run("--help").returncode == 0
