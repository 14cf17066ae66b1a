"""Functions of a stranger that answer anything, or nothing, to the conformance kit."""

import json
import os
import random
import re
from pathlib import Path

from acer_tf import __main__ as acer_tf
from acer_tf.conformance.check import VECTORS
from tests.torture import common

_ANSWERS = (
    *("None", "float('nan')", "-float('inf')", "[]", "[[1], [1, 2]]", "{}", "{'items': None}", "object()", "10**400"),
    *("'x' * 10**6", "np.zeros(0)", "np.full((3, 10**5), np.nan)", "(n for n in ())", "1 / 0", "sys.exit(0)", "np"),
    *(
        "refuse(NotImplementedError)",
        "refuse(MemoryError)",
        "refuse(RecursionError)",
        "refuse(UnicodeError, '\\udc80')",
    ),
)
_BEGIN = """import sys
import numpy as np

def refuse(kind, *given):
    raise kind(*given)

"""


def answers(rng: random.Random, scratch: Path) -> common.Attempt:
    """No such answer passes, and the command ends with its table."""
    names = rng.sample(list(json.loads(VECTORS.read_text(encoding="utf-8"))), 8)
    code = {name: rng.choice(_ANSWERS) for name in names}
    lines = [f"def {name}(**given):\n    return {answer}\n" for name, answer in code.items()]
    (scratch / "torture_functions.py").write_text(_BEGIN + "\n".join(lines))
    argv = ["", "conformance", "--check=torture_functions", f"--precision={rng.choice(('float64', 'float32'))}"]

    def run() -> int:
        os.chdir(scratch)
        return acer_tf.main(argv)

    done = common.Fork(run, scratch / "check").end(60)
    declined = all("NotImplementedError" in answer for answer in code.values())
    wrong = "" if done.status == int(not declined) else f"status {done.status}: {done.err[-200:]}"
    table = re.search(r"^cases +(\d+) +\d+ +\d+$", done.out, re.MULTILINE)
    if not wrong and (table is None or table[1] != "0"):
        wrong = f"passed: {table[1] if table else done.out[-200:]}"
    return common.Attempt("answers to the conformance kit", " ".join(sorted(set(code.values()))), wrong)
