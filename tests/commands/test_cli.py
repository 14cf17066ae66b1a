"""What all commands do: errors as one line on standard error and an exit status; --help."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from acer_tf import errors
from acer_tf.commands import cli, pipeline
from acer_tf.reproduction.figure import figures
from acer_tf.runs.signals import signal_of

ROOT = Path(__file__).parents[2]
STATUS = {
    errors.SettingsError("--gamma=2: must be in [0, 1]"): 2,
    errors.EvidenceError("--output=x holds the evidence of y"): 2,
    errors.PolicyFolderError("x exists and is not a policy"): 2,
    errors.CheckpointError("checkpoint 3 cannot be read"): 1,
    errors.ClusterLost("the Ray cluster is gone"): 1,
    OSError(28, "No space left on device"): 1,
}


def ending(error: BaseException, *, begun: bool = False) -> int:
    @cli.command
    def main(argv: list[str]) -> int:
        if not begun:
            raise error
        with cli.begun():
            raise error

    return main([])


@pytest.mark.parametrize(("error", "status"), STATUS.items(), ids=lambda value: type(value).__name__)
def test_an_error_is_one_line_and_its_status(error, status, capsys):
    assert ending(error) == status
    assert capsys.readouterr() == ("", f"error: {error}\n")


def test_a_line_break_in_a_value_does_not_break_the_line(capsys):
    assert ending(errors.SettingsError("--preset=\n: must be one of paper")) == 2
    assert capsys.readouterr().err == "error: --preset= : must be one of paper\n"


def test_bad_input_that_is_found_after_the_work_has_begun_is_a_failure(capsys):
    assert ending(errors.EvidenceError("a record is damaged"), begun=True) == 1
    assert ending(errors.EvidenceError("another one")) == 2
    assert capsys.readouterr().err == "error: a record is damaged\nerror: another one\n"


def test_the_traceback_of_the_users_environment_comes_first(capsys):
    failure = errors.EnvironmentFailure("mine failed in step(): KeyError: 'x'")
    failure.__cause__ = KeyError("x")
    assert ending(failure) == 1
    assert capsys.readouterr().err.splitlines() == ["KeyError: 'x'", f"error: {failure}"]


@pytest.mark.parametrize("error", [BrokenPipeError(), ZeroDivisionError()])
def test_a_pipe_without_a_reader_and_our_own_mistakes_are_not_lines(error):
    with pytest.raises(type(error)):
        ending(error)


def test_every_error_has_the_base_and_a_docstring():
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    assert len(found) > 10
    assert all(kind.__doc__ for kind in found)
    failures = [kind for kind in found if issubclass(kind, errors.AcerError)]
    assert all(kind.status in (1, 2) for kind in failures) and [*{*found} - {*failures}] == [errors.Interrupted]


def test_an_interruption_is_no_failure():
    """`except Exception` around a loop of runs must not swallow Ctrl-C."""
    stop = errors.Interrupted(15)
    assert isinstance(stop, KeyboardInterrupt) and not isinstance(stop, Exception)
    assert (stop.status, signal_of(stop), str(stop)) == (143, 15, "SIGTERM")
    with pytest.raises(errors.Interrupted):
        ending(stop)


HELP = """What it does.

First:
  --size=INTEGER: how large (at least 1; default: 20_000)
  --[no]loud: whether it is heard (default: True)
  --weight=NUMBER: 0: none (0.0 to 1.0; default: 0.0)

Second:
  --kind=one|two: which (default: one)
  --name=TEXT: of the owner (may be repeated)
  --part=left|right: which; may be repeated
  --sizes=A,B,...: some (default: 1,2)
  --count=INTEGER: of each (may be repeated; default: 1,2_000)
  --folder=PATH: where it lies (required)

  --flagfile=PATH: also take the flags in this file, one per line
"""


def test_help_has_the_flags_in_the_order_of_their_definition_with_kind_bounds_and_default(capsys):
    values = cli.new_flags()
    first, second = cli.definers(values, "First"), cli.definers(values, "Second")
    first.integer("size", 20_000, "how large", lower_bound=1)
    second.enum("kind", "one", ["one", "two"], "which")
    second.multi_string("name", [], "of the owner")
    second.multi_enum("part", [], ["left", "right"], "which; may be repeated")
    first.bool("loud", True, "whether it is heard")
    first.float("weight", 0.0, "0: none", 0.0, 1.0)
    second.list("sizes", ["1", "2"], "some")
    second.multi_integer("count", [1, 2_000], "of each")
    second.path("folder", None, "where it lies")
    with pytest.raises(SystemExit) as ended:
        cli.parse(values, ["", "--help"], "What it does.\n", required=("folder",))
    assert ended.value.code == 0
    assert capsys.readouterr().out == HELP


def test_every_command_and_benchmark_has_a_help():
    folders = ("acer_tf/commands", "acer_tf/figures", "benchmarks")
    paths = [path for folder in folders for path in (ROOT / folder).glob("*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    found = [module.FLAGS for module in map(importlib.import_module, names) if hasattr(module, "FLAGS")]
    found += [pipeline.define(figure) for figure in figures().values() if figure.methods]
    assert len(found) >= 30
    for values in found:
        shown = re.findall(r"^  --(?:\[no\])?(\w+)", cli.help_of(values), flags=re.MULTILINE)
        assert {*shown} == {*values, "flagfile"} - {"help"}
