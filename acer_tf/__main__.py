"""python -m acer_tf COMMAND [flags]"""

import ast
import contextlib
import difflib
import errno
import importlib
import importlib.util
import io
import os
import signal
import sys
from pathlib import Path

from acer_tf.runs.signals import STOPPED, USUAL, interrupt, signal_of, stop_behind

# The extra that brings a package.
_EXTRAS = dict.fromkeys(("arch", "jinja2", "matplotlib", "PIL", "rliable", "scipy"), "reproduction")
_EXTRAS["optuna"] = "tune"
_BENCHMARK = "speed of the parts and of the whole loop (in a checkout of the repository)"


def main(argv: list[str]) -> int:
    """Runs the command that `argv` names after the program, and returns its exit status.

    That is 128 + N after signal N, also 141 if the reader of a pipe has gone. Bad flags and --help raise SystemExit.
    """
    # Before anything large is imported; and not if it is ignored, as it is for a shell's background jobs.
    usual = {number: handler for number, handler in USUAL.items() if signal.getsignal(number) == handler}
    for number in usual:
        signal.signal(number, interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal need not have ± and δ
    status = 0
    try:
        try:
            status = _run(argv)
        except (*STOPPED, Exception) as error:
            if (stop := stop_behind(error)) is None:
                raise
            status = 128 + signal_of(stop)
            with contextlib.suppress(OSError):  # Ctrl-C also ends the reader of a pipe
                print(f"stopped by {signal_of(stop).name}", file=sys.stderr)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO, errno.ENOSPC):
            raise
        # Python flushes again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.ENOSPC:  # the reader has what it wanted, or was stopped too; the terminal is closed
            return status if status > 128 else 128 + signal.SIGPIPE
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    return status


def commands() -> dict[str, str]:
    """The first line of what each command says of itself, by name; nothing is imported for it.

    A command is a module of acer_tf/figures, or a module of acer_tf/commands with a function `main`.
    """
    found = {}
    for folder in ("commands", "figures"):
        for path in sorted((Path(__file__).parent / folder).glob("[!_]*.py")):
            module = ast.parse(path.read_text(encoding="utf-8"))
            functions = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
            if folder == "figures" or "main" in functions:
                found[path.stem] = (ast.get_docstring(module) or "").partition("\n")[0]
    return found


def _run(argv: list[str]) -> int:
    name = argv[1] if len(argv) > 1 else "--help"
    if name == "benchmark":
        return _benchmark(argv[2:])
    known = commands()
    if name in known:
        try:
            folder = "figures" if (Path(__file__).parent / "figures" / f"{name}.py").exists() else "commands"
            module = importlib.import_module(f"acer_tf.{folder}.{name}")
            run = getattr(module, "main", None) or importlib.import_module("acer_tf.commands.pipeline").run
            return run([name, *argv[2:]])
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _EXTRAS:
                raise
            install = f"{name} needs {package}, which is not installed: pip install 'acer_tf[{_EXTRAS[package]}]'"
            print(f"error: {install}", file=sys.stderr)
            return 2
    every = known | {"benchmark": _BENCHMARK}
    if name == "help" and argv[2:]:
        return _run([argv[0], argv[2], "--help"])
    if name in ("help", "-h", "-help", "--help", "--helpfull"):
        usage = "\n".join(f"  {command:26}{line}" for command, line in every.items())
        print(f"usage: python -m acer_tf COMMAND [flags]; COMMAND --help lists its flags\n\n{usage}")
        return 0
    if name == "--version":
        print(importlib.import_module("acer_tf").__version__)
        return 0
    near = difflib.get_close_matches(name, every, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    print(f"error: unknown command {name!r}; {meant}python -m acer_tf --help lists them", file=sys.stderr)
    return 2


def _benchmark(flags: list[str]) -> int:
    # A wheel has no benchmarks, and another package may have that name: only the one beside this package is meant.
    spec = importlib.util.find_spec("benchmarks")
    if spec is None or spec.origin != str(Path(__file__).parents[1] / "benchmarks" / "__init__.py"):
        print("error: benchmark comes with the repository: run it in the folder of a checkout", file=sys.stderr)
        return 2
    module = importlib.import_module("benchmarks.__main__")
    return module.main(["acer_tf benchmark", *flags])


def script(file: str) -> None:
    """Runs the command that a script of experiments/ is named by, and ends the process."""
    sys.exit(main(["", Path(file).stem, *sys.argv[1:]]))


def console() -> None:
    """The command `acer_tf` of an installed package, which is `python -m acer_tf`."""
    if not sys.flags.safe_path:  # Python puts the script's folder there, and with -m the current one
        sys.path[0] = os.getcwd()
    sys.exit(main(sys.argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
