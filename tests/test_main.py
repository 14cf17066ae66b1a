"""`python -m acer_tf`, before a command runs."""

import os
import signal
import subprocess
import sys

import pytest

import acer_tf
from acer_tf.__main__ import commands, main
from tests.processes import answers_of

pytestmark = pytest.mark.process
BASE = {"train", "evaluate", "export", "conformance"}  # these need no extra
WITHOUT_THE_EXTRA = """
for name in ("rliable", "scipy", "scipy.stats", "arch", "jinja2", "matplotlib", "matplotlib.figure", "PIL"):
    sys.modules[name] = None
from acer_tf.reproduction.scores import human_normalized  # which `evaluate` shows
"""


def test_a_command_without_its_packages_names_the_extra(tmp_path):
    answers = answers_of([[command, "--help"] for command in commands()], tmp_path, first=WITHOUT_THE_EXTRA)
    for command, answer in zip(commands(), answers, strict=True):
        if command in BASE:
            assert (answer.status, answer.err) == (0, ""), command
        else:
            assert answer.status == 2
            assert answer.err.startswith(f"error: {command} needs ") and "acer_tf[reproduction]" in answer.err


def test_a_search_without_optuna_names_its_extra(tmp_path):
    (answer,) = answers_of([["tune", "--help"]], tmp_path, first='sys.modules["optuna"] = None')
    assert answer.status == 2 and "acer_tf[tune]" in answer.err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--version"], 0, acer_tf.__version__),
        (["help", "evaluate"], 0, "--policy=PATH"),
        (["--helpfull"], 0, "usage: python -m acer_tf COMMAND"),
        (["evalute"], 2, "unknown command 'evalute'; did you mean evaluate? python -m acer_tf --help lists them"),
        (["xyz"], 2, "unknown command 'xyz'; python -m acer_tf --help lists them"),
    ],
)
def test_what_is_no_command_is_answered(words, status, said, capsys):
    try:
        code = main(["acer_tf", *words])
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    assert code == status and said in (err if status else out)


def help_with(**options):
    return subprocess.Popen([sys.executable, "-m", "acer_tf", "train", "--help"], stderr=subprocess.PIPE, **options)


def test_a_reader_that_ends_early_is_no_error():
    process = help_with(stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 128 + signal.SIGPIPE


def test_a_stopped_command_keeps_its_status_if_nobody_reads_its_output():
    """After Ctrl-C in `... | tee log`, which also ends tee."""
    code = "import sys, acer_tf.__main__ as m; m._run = lambda argv: print('line') or 130; sys.exit(m.main(['']))"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONUNBUFFERED": ""}, **pipes)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 130


def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:
        process = help_with(stdout=full)
        assert process.stderr.read() == b"error: [Errno 28] No space left on device\n"
    assert process.wait() == 1


def test_letters_that_the_output_does_not_have_are_replaced():
    process = help_with(stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert b"?" in output


def test_a_path_that_is_not_utf_8_is_refused():
    command = [sys.executable, "-m", "acer_tf", "train", "--env=CartPole-v1", b"--run_dir=run_\xff"]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 2
    assert b"run_dir=" in done.stderr and b": cannot be used: 'utf-8' codec can't encode" in done.stderr
