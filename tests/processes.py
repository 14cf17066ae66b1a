"""Commands of acer_tf in a process of their own, several of them after one start of TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_PROGRAM = """
import contextlib, io, json, sys

exec(sys.argv[2])
from acer_tf.__main__ import main


def answer(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(["acer_tf", *arguments])
        except SystemExit as ended:
            status = ended.code
    return status or 0, out.getvalue(), err.getvalue()


answers = [answer(arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps(answers))
"""


class Answer(NamedTuple):
    status: int
    out: str
    err: str


def answers_of(
    commands: Sequence[Sequence[str]],
    cwd: Path,
    *,
    python: Path | str = sys.executable,
    first: str = "",
    **environment: str,
) -> list[Answer]:
    """What each of the commands, `["train", "--env=..."]`, does in `cwd`, which is on Python's path.

    `first` is code that the process runs before it imports acer_tf.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | environment
    program = [str(python), "-c", _PROGRAM, json.dumps([list(command) for command in commands]), first]
    done = subprocess.run(program, cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return [Answer(*answer) for answer in json.loads(done.stdout.splitlines()[-1])]
