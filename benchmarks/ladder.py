"""How fast one run is, by the ways that it can use a machine: acting beside the updates, threads, devices, XLA's flags.

python -m benchmarks.ladder --output=results/benchmark/ladder
python -m benchmarks.ladder --machine=gpu --repetitions=1 --output=results/benchmark/gpu

Each figure is the rate of a run of `python -m acer_tf train` from its second row of progress on, with the time of its
parts (`benchmarks.timed_run`); the ways alternate. Writes ladder.json and ladder.md after each run. A way that fails or
takes longer than --limit_seconds is named there and not tried again; the others go on, and the status is 1. About half
an hour on two cores, and about 10 minutes with a GPU and 16 cores, by arithmetic; leave the machine alone meanwhile.
"""

from __future__ import annotations

import ast
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from acer_tf.commands import cli
from benchmarks.timed_run import COUNTED_FROM


class Loop(NamedTuple):
    """A run that is measured."""

    flags: tuple[str, ...]
    steps: int  # of a row of progress, on two cores; a GPU makes three times as many


class Way(NamedTuple):
    """How a run uses the machine."""

    flags: tuple[str, ...] = ()
    xla_flags: str = ""


LOOPS = {
    "Pong, paper, ratio 4": Loop(("--env=atari/Pong", "--preset=paper", "--replay_ratio=4"), 1600),
    "Pong, paper, ratio 0": Loop(("--env=atari/Pong", "--preset=paper", "--replay_ratio=0"), 4800),
    "MinAtar Breakout, minatar, ratio 4": Loop(("--env=minatar/breakout", "--replay_ratio=4"), 16_000),
    "MinAtar Breakout, minatar, ratio 0": Loop(("--env=minatar/breakout", "--replay_ratio=0"), 32_000),
    "control/cheetah, paper_continuous": Loop(("--env=control/cheetah", "--agent=acer_continuous"), 1600),
}
_BESIDE = ("--actors=1",)
_SECOND = ("--acting_device=second", "--gpu_memory_gb=30")
_GRAPHS = "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL --xla_gpu_graph_min_graph_size=1"
WAYS = {
    "cpu": {
        "in turn": Way(),
        "one thread": Way(("--threads=1",)),
        "acting beside": Way(_BESIDE),
        "two actors": Way(("--actors=2",)),
    },
    "gpu": {
        "in turn": Way(),
        "acting beside": Way(_BESIDE),
        "two actors": Way(("--actors=2",)),
        "second device": Way((*_BESIDE, *_SECOND)),
        "second device, two actors": Way(("--actors=2", *_SECOND)),
        "acting on the CPU": Way((*_BESIDE, "--acting_device=cpu")),
        "second device, command buffers": Way((*_BESIDE, *_SECOND), _GRAPHS),
        "the CPU alone": Way(("--device=cpu",)),
        "the CPU alone, beside": Way(("--device=cpu", *_BESIDE)),
        "the CPU alone, beside, 8 threads": Way(("--device=cpu", *_BESIDE, "--threads=8")),
    },
}
USUAL_LOOPS = {"cpu": [*LOOPS], "gpu": [*LOOPS][:2]}
ROWS = COUNTED_FROM + 3

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.enum("machine", "cpu", [*WAYS], "whose ways are measured")
flag.multi_enum("loop", None, [*LOOPS], "measure only this; may be repeated")
flag.multi_string("way", None, "measure only this, and the first; may be repeated")
flag.integer("repetitions", 3, "runs of each kind", 1)
flag.string("precision", "auto", "of the runs")
flag.integer("limit_seconds", 600, "longest time of one run", 1)
flag.path("output", "my_results/benchmark/ladder", "folder")


def measured(loop: Loop, way: Way) -> dict[str, Any]:
    """What `benchmarks.timed_run` prints of one run."""
    # On a GPU machine's CPU alone, the rows of two cores suffice.
    steps = loop.steps * (3 if FLAGS.machine == "gpu" and "--device=cpu" not in way.flags else 1)
    with tempfile.TemporaryDirectory() as folder:
        given = {"run_dir": f"{folder}/run", "log_interval": steps, "total_steps": ROWS * steps}
        given |= {"replay_start": 40, "precision": FLAGS.precision, "checkpoint_minutes": 600}
        program = [sys.executable, "-m", "benchmarks.timed_run", *loop.flags, *way.flags]
        command = [*program, *(f"--{name}={value}" for name, value in given.items())]
        environment = {**os.environ, **({"XLA_FLAGS": way.xla_flags} if way.xla_flags else {})}
        limit = FLAGS.limit_seconds
        try:
            answer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{' '.join(command)} took more than {limit} s") from error
    if answer.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {answer.returncode}:\n{answer.stderr}")
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def table(loops: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Of each loop and way, the median rate with its range, its ratio to the first way, and the parts' medians."""
    names = [
        *dict.fromkeys(
            name for ways in loops.values() for runs in ways.values() for run in runs for name in run["parts"]
        )
    ]
    lines = ["| loop | way | steps/s | ratio | " + " | ".join(f"{name}, ms" for name in names) + " |"]
    lines.append("|---|---|" + "---|" * (2 + len(names)))
    for loop, ways in loops.items():
        base = statistics.median(run["rate"] for run in next(iter(ways.values())) or [{"rate": math.nan}])
        for way, runs in ((way, runs) for way, runs in ways.items() if runs):
            rates = [run["rate"] for run in runs]
            rate = statistics.median(rates)
            cells = [f"{rate:,.0f} [{min(rates):,.0f}, {max(rates):,.0f}]", f"{rate / base:.2f}"]
            cells += [f"{statistics.median(run['parts'].get(name, 0.0) for run in runs):.1f}" for name in names]
            lines.append(f"| {loop} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    from acer_tf.files import write_json, write_whole
    from acer_tf.runs.records import run_document
    from benchmarks.outputs import require_new

    gpus = gpu_names() if FLAGS.machine == "gpu" else []
    if FLAGS.machine == "gpu" and not gpus:
        return cli.fail(2, "--machine=gpu: TensorFlow finds no GPU here; it needs tensorflow[and-cuda] and a driver")
    known = WAYS[FLAGS.machine]
    if unknown := set(FLAGS.way or ()) - set(known):
        return cli.fail(2, f"--way={unknown.pop()}: must be of {', '.join(known)}")
    first = next(iter(known))
    ways = {name: way for name, way in known.items() if not FLAGS.way or name in (first, *FLAGS.way)}
    output = Path(FLAGS.output)
    require_new(output / "ladder.json")
    given = {"machine": FLAGS.machine, "precision": FLAGS.precision, "repetitions": FLAGS.repetitions, "gpus": gpus}
    failed: dict[str, str] = {}
    loops: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for loop in FLAGS.loop or USUAL_LOOPS[FLAGS.machine]:
        loops[loop] = {name: [] for name in ways}
        for _ in range(FLAGS.repetitions):
            for name, way in ways.items():
                if (run := f"{loop}, {name}") in failed:
                    continue
                try:
                    loops[loop][name].append(measured(LOOPS[loop], way))
                except RuntimeError as error:
                    failed[run] = str(error).strip().rpartition("\n")[2]
                    print(f"{run} failed: {error}", file=sys.stderr, flush=True)
                else:
                    print(f"{run}: {loops[loop][name][-1]['rate']:,.0f} steps/s", flush=True)
                write_json(output / "ladder.json", run_document(given, {"loops": loops, "failed": failed}))
                write_whole(
                    output / "ladder.md", table(loops) + "".join(f"\n{run} failed: {failed[run]}\n" for run in failed)
                )
    print(f"\n{table(loops)}", end="")
    return int(bool(failed))


def gpu_names() -> list[str]:
    """The GPUs that TensorFlow finds, asked in a process of its own, which frees them again."""
    code = "import tensorflow as tf; print([tf.config.experimental.get_device_details(g).get('device_name', g.name) "
    code += "for g in tf.config.list_physical_devices('GPU')])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return [] if answer.returncode else list(ast.literal_eval(answer.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
