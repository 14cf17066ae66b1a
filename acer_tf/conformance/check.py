"""Checks functions of any framework against vectors.json, which lies beside this file. It needs NumPy alone.

python check.py MODULE[:OBJECT] [float64|float32]

MODULE, or the object in it, has the functions that it offers under the kit's names; docs/conformance.md of acer_tf says
what each takes and returns. A function that it has not is "not offered", and so is a case for which it raises
NotImplementedError. The exit status is 1 if a case fails or none passes, and 2 if
MODULE cannot be used.
"""

import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VECTORS = Path(__file__).with_name("vectors.json")


class Outcome(NamedTuple):
    """How many cases of a function passed, failed and were not offered."""

    function: str
    passed: int
    not_offered: int
    failed: list[str]  # the names of the cases
    first: str  # the first that failed: inputs, expected and got; "" if none did


def load(name: str, vectors: Path = VECTORS) -> Any:
    """The module, or the object in it, that "module" or "module:object" names.

    Raises:
        ImportError: it cannot be imported, or offers none of the kit's functions.
    """
    module, _, path = name.partition(":")
    if not module or module.endswith(".py") or "/" in module:
        such = module.removesuffix(".py").strip("./").replace("/", ".")
        raise ImportError(f"give a module's name, such as {such or 'my_functions'}{', not a file' * bool(module)}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    names = json.loads(vectors.read_text(encoding="utf-8"))
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split(".") if path else ():
            found = getattr(found, attribute)
        offered = any(hasattr(found, function) for function in names)
    except (Exception, SystemExit) as error:
        raise ImportError(f"cannot be imported: {type(error).__name__}: {error}") from error
    if not offered:
        raise ImportError("offers none of the kit's functions: name a module, or module:object, that has them")
    if isinstance(found, type) and any(_needs_self(getattr(found, function, None)) for function in names):
        raise ImportError(
            f"its functions need self: give an object of it, such as {module}:functions after functions = {path}() in "
            "the module, or make them static methods"
        )
    return found


def _needs_self(function: Any) -> bool:
    return inspect.isfunction(function) and function.__code__.co_varnames[:1] == ("self",)


def check(functions: Any, precision: str = "float64", vectors: Path = VECTORS) -> list[Outcome]:
    """What comes of calling the attributes of `functions` with the kit's names on all cases, by function.

    `precision` chooses the tolerance.
    """
    document = json.loads(vectors.read_text(encoding="utf-8"))
    outcomes = []
    for name, about in document.items():
        function: Any = getattr(functions, name, None)
        passed, not_offered, failed, first = 0, len(about["cases"]) * (function is None), list[str](), ""
        for case in about["cases"] if function is not None else ():
            got: Any = None
            try:
                got = function(**{key: _array(value) for key, value in case["inputs"].items()})
                problem = _difference(case, got, about["tolerance"][precision])
            except NotImplementedError:
                not_offered += 1
                continue
            except (Exception, SystemExit) as error:
                problem = f"raised {_where(error)}"
            passed += not problem
            if problem:
                inputs = "\n".join(f"    {key} = {json.dumps(value)}" for key, value in case["inputs"].items())
                expected = json.dumps(case["output"])
                first = first or f"{name}, case '{case['name']}'\n{inputs}\n  expected {expected}\n  {problem:.1000}"
                failed.append(case["name"])
        outcomes.append(Outcome(name, passed, not_offered, failed, first))
    return outcomes


def report(outcomes: Sequence[Outcome]) -> str:
    """A table of the outcomes, and below it what failed."""
    lines = [f"{'function':28}{'passed':>8}{'failed':>8}{'not offered':>13}"]
    lines += [f"{o.function:28}{o.passed:8}{len(o.failed):8}{o.not_offered:13}" for o in outcomes]
    sums = [sum(o.passed for o in outcomes), sum(len(o.failed) for o in outcomes), sum(o.not_offered for o in outcomes)]
    lines.append(f"{'cases':28}{sums[0]:8}{sums[1]:8}{sums[2]:13}")
    if not sums[0] + sums[1]:
        lines.append("\nnothing is offered: no function has a name of the kit, or all raise NotImplementedError")
    for outcome in outcomes:
        if outcome.failed:
            others = "".join(f"\n  also fails: {name}" for name in outcome.failed[1:])
            lines.append(f"\nFAILED {outcome.first}{others}")
    return "\n".join(lines)


def conforms(outcomes: Sequence[Outcome]) -> bool:
    """Whether no case fails, and at least one passes."""
    return any(outcome.passed for outcome in outcomes) and not any(outcome.failed for outcome in outcomes)


def _array(value: Any) -> Any:
    """Lists as arrays: of float64, int64 or bool; lists of names stay. NaN and infinities are names in JSON."""
    if not isinstance(value, list):
        return value
    numbers = [float(v) if v in ("NaN", "Infinity", "-Infinity") else v for v in value]
    return numbers if any(isinstance(v, str) for v in numbers) else np.array(numbers)


def _where(error: BaseException) -> str:
    """The kind of an error, the first line of its message, and the place in the code that is checked."""
    said = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return said + "".join(f" at {frame.filename}:{frame.lineno}" for frame in frames[-1:])


def _difference(case: dict[str, Any], got: Any, tolerance: float) -> str:
    """How the output of a case differs from what is expected; "" if it does not."""
    expected = case["output"]
    if isinstance(expected, dict):
        if not isinstance(got, Mapping):
            return f"got      a {type(got).__name__} instead of a dict with {', '.join(expected)}"
        shared = [key for key in expected if key in got]
        parts = {key: _difference({**case, "output": expected[key]}, got[key], tolerance) for key in shared}
        missing = [f'no "{key}"' for key in expected if key not in got]
        return "; ".join([*missing, *(f"{key}: {problem}" for key, problem in parts.items() if problem)])
    # None stands for a number that may be anything.
    want, found = np.array(expected, np.float64), np.array(got)
    if np.iscomplexobj(found):
        return f"got      complex numbers instead of real ones: {found.tolist()}"
    found = found.astype(np.float64)
    if want.shape != found.shape:
        return f"got      shape {list(found.shape)} instead of {list(want.shape)}: {found.tolist()}"
    shown = found.tolist()
    for tied in case.get("ties", ()):
        want[tied], found[tied] = np.sort(want[tied]), np.sort(found[tied])
    near = np.abs(found - want) <= tolerance * (case.get("scale", 1.0) + np.abs(want))
    return "" if (near | np.isnan(want)).all() else f"got      {json.dumps(shown)}"


def main(argv: Sequence[str]) -> int:
    if argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if len(argv) not in (2, 3) or argv[2:] not in ([], ["float64"], ["float32"]):
        print("usage: python check.py MODULE[:OBJECT] [float64|float32]", file=sys.stderr)
        return 2
    try:
        functions = load(argv[1])
    except ImportError as error:
        print(f"error: {argv[1]}: {error}", file=sys.stderr)
        return 2
    outcomes = check(functions, "".join(argv[2:]) or "float64")
    print(report(outcomes))
    return int(not conforms(outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
