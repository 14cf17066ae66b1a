import pytest

from acer_tf.commands import conformance
from tests.processes import answers_of

THEIRS = """
import sys
assert "tensorflow" not in sys.modules

def value_target(rho, q_ret, q, value):
    return value + min(1, rho) * (q_ret - q)

class Wrong:
    value_target = staticmethod(lambda rho, q_ret, q, value: value)
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    (tmp_path / "their_functions.py").write_text(THEIRS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.process
def test_other_functions_are_checked_without_tensorflow(theirs, tmp_path):
    checks = [["conformance", "--check=their_functions"], ["conformance", "--check=their_functions:Wrong"]]
    right, wrong = answers_of(checks, tmp_path)
    assert (right.status, right.err) == (0, "") and "value_target" in right.out
    assert wrong.status == 1 and "FAILED value_target, case 'ρ below 1'" in wrong.out


@pytest.mark.parametrize("name", ["", "no_such_module", "json", "json:loads", ":", "their_functions:Other"])
def test_what_cannot_be_checked_is_named(name, theirs, capsys):
    assert conformance.main(["conformance", f"--check={name}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: --check={name}: ") and error.count("\n") == 1


def test_ours_are_checked_by_default(capsys):
    assert conformance.main(["conformance", "--precision=float32"]) == 0
    assert "trust_region" in capsys.readouterr().out
