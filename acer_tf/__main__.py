"""python -m acer_tf COMMAND [flags]"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from acer_tf.runs.signals import STOPPED, Terminated, signal_of

# The module of `acer_tf.commands` that runs each, and a summary. "pipeline" runs the experiments of
# `acer_tf.reproduction.catalogue`. This table is here so that the list of commands imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "train one agent in one environment, or continue the run"),
    "evaluate": ("evaluate", "play whole episodes with an exported policy"),
    "export": ("export", "export the policy of a run's newest checkpoint, also as ONNX or TFLite"),
    "curves": ("learning_curves", "compare the learning curves of runs with each other and with published ones"),
    "demo": ("demo", "train on MinAtar and, briefly, on Pong; export, evaluate and plot"),
    "figure1_atari57": ("pipeline", "ACER, Figure 1: replay ratios on 57 Atari games"),
    "figure1_minatar": ("pipeline", "the design of Figure 1 on five MinAtar games"),
    "figure3_continuous": ("pipeline", "ACER, Figure 3: five methods on six control tasks"),
    "figure4_ablation": ("pipeline", "ACER, Figure 4: continuous ACER without one of its parts"),
    "figure5_sensitivity": ("pipeline", "ACER, Figures 5 and 6: learning rate and δ"),
    "figure_cliffwalk": ("figure_cliffwalk", "prioritized replay, Figures 1 and 2: the Blind Cliffwalk"),
    "table1_prioritized": ("pipeline", "prioritized replay, Table 1: DQN's family on 57 Atari games"),
    "table_atari49": ("pipeline", "ACER and A3C on 49 Atari games at 40M frames"),
    "table_atari57": ("pipeline", "the runs of Figure 1, by game"),
    "table_control": ("pipeline", "the runs of Figure 3 as numbers"),
    "table_minatar_priorities": ("pipeline", "prioritized replay on five MinAtar games"),
    "verdicts": ("verdicts", "which claims of the papers the records of a results folder show"),
}
_REPRODUCTION = ("arch", "jinja2", "matplotlib", "pandas", "PIL", "rliable", "scipy")  # packages of that extra
_BENCHMARK = "speed of the parts and of the whole loop (in a checkout of the repository)"
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main(argv: list[str]) -> int:
    """Runs the command that `argv` names after the program, and returns its exit status.

    That is 128 + N after signal N, also 141 if the reader of a pipe has gone. Bad flags and --help raise SystemExit.
    """
    # Before anything large is imported; and not if it is ignored, as it is for a shell's background jobs.
    usual = {number: handler for number, handler in _USUAL.items() if signal.getsignal(number) == handler}
    for number in usual:
        signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal need not have ± and δ
    status = 0
    try:
        try:
            status = _run(argv)
        except STOPPED as stop:
            status = 128 + signal_of(stop)
            with contextlib.suppress(OSError):  # Ctrl-C also ends the reader of a pipe
                print(f"stopped by {signal_of(stop).name}", file=sys.stderr)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # Python flushes again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno == errno.EPIPE:  # the reader has what it wanted, or was stopped too
            return status if status > 128 else 128 + signal.SIGPIPE
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    return status


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises; within an import, ends the process, since C code there would print or swallow the exception."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, f"stopped by {signal.Signals(number).name}\n".encode())
            os._exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _run(argv: list[str]) -> int:
    name = argv[1] if len(argv) > 1 else "--help"
    if name in COMMANDS:
        try:
            module = importlib.import_module(f"acer_tf.commands.{COMMANDS[name][0]}")
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _REPRODUCTION:
                raise
            install = f"{name} needs {package}, which is not installed: pip install 'acer_tf[reproduction]'"
            print(f"error: {install}", file=sys.stderr)
            return 2
        return module.main([name, *argv[2:]])
    if name == "benchmark":
        return _benchmark(argv[2:])
    summaries = {command: summary for command, (_, summary) in COMMANDS.items()} | {"benchmark": _BENCHMARK}
    usage = "\n".join(f"  {command:26}{summary}" for command, summary in summaries.items())
    if name in ("help", "-h", "-help", "--help"):
        print(f"usage: python -m acer_tf COMMAND [flags]; COMMAND --help lists its flags\n\n{usage}")
        return 0
    print(f"error: unknown command {name!r}; python -m acer_tf --help lists them", file=sys.stderr)
    return 2


def _benchmark(flags: list[str]) -> int:
    # A wheel has no benchmarks, and another package may have that name: only the one beside this package is meant.
    spec = importlib.util.find_spec("benchmarks")
    if spec is None or spec.origin != str(Path(__file__).parents[1] / "benchmarks" / "__init__.py"):
        print("error: benchmark comes with the repository: run it in the folder of a checkout", file=sys.stderr)
        return 2
    module = importlib.import_module("benchmarks.__main__")
    return module.main(["acer_tf benchmark", *flags])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
