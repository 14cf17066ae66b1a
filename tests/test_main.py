"""`python -m acer_tf`, before a command runs."""

import subprocess
import sys

import pytest

from acer_tf.__main__ import COMMANDS

BASE = {"train", "evaluate", "export"}  # these need no extra
WITHOUT_THE_EXTRA = """
import sys
for name in ("rliable", "pandas", "scipy", "scipy.stats", "arch", "jinja2", "matplotlib", "matplotlib.figure"):
    sys.modules[name] = None
from acer_tf.__main__ import main
sys.exit(main(["acer_tf", sys.argv[1], "--help"]))
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_packages_names_the_extra(command):
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_EXTRA, command], capture_output=True, text=True)
    if command in BASE:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {command} needs ")
        assert done.stderr.endswith(", which is not installed: pip install 'acer_tf[reproduction]'\n")
