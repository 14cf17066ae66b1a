"""How much faster one run is when acting goes on beside the updates (`--acting_lag`, `--actors`).

python -m benchmarks.overlap --output=results/benchmark/overlap

Each figure is the rate of a run of `python -m acer_tf train` from where its replay has begun; the ways alternate.
Writes overlap.json and overlap.md. About half an hour on 2 cores; leave the machine alone meanwhile.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from acer_tf.commands import cli


class Loop(NamedTuple):
    """A run that is measured."""

    flags: tuple[str, ...]
    steps: int  # of a row of progress


LOOPS = {
    "Pong, paper, ratio 4": Loop(("--env=atari/Pong", "--preset=paper", "--replay_ratio=4"), 1600),
    "Pong, paper, ratio 0": Loop(("--env=atari/Pong", "--preset=paper", "--replay_ratio=0"), 4800),
    "MinAtar Breakout, minatar, ratio 4": Loop(("--env=minatar/breakout", "--replay_ratio=4"), 16_000),
    "MinAtar Breakout, minatar, ratio 0": Loop(("--env=minatar/breakout", "--replay_ratio=0"), 32_000),
    "control/cheetah, paper_continuous": Loop(("--env=control/cheetah", "--agent=acer_continuous"), 1600),
}
WAYS = {
    "one thread": ("--threads=1",),
    "in turn": (),
    "acting beside": ("--acting_lag=1",),
    "in two threads": ("--actors=2",),
}
ROWS = 5  # of progress, of which the first two do not count: compiling, and a replay that only begins

FLAGS = cli.new_flags()
flags.DEFINE_multi_enum("loop", None, sorted(LOOPS), "measure only this; may be repeated", flag_values=FLAGS)
flags.DEFINE_integer("repetitions", 3, "runs of each kind, after one that does not count", 1, flag_values=FLAGS)
flags.DEFINE_string("precision", "auto", "of the runs", flag_values=FLAGS)
cli.define_device(FLAGS)
cli.definers(FLAGS).path("output", "my_results/benchmark/overlap", "folder")


def rate(loop: Loop, way: tuple[str, ...]) -> float:
    """Steps per second."""
    import pandas

    with tempfile.TemporaryDirectory() as folder:
        flags_of = {"run_dir": f"{folder}/run", "log_interval": loop.steps, "total_steps": ROWS * loop.steps}
        flags_of |= {"replay_start": 40, "precision": FLAGS.precision, "device": FLAGS.device}
        given = [*loop.flags, *(f"--{name}={value}" for name, value in flags_of.items()), *way]
        command = [sys.executable, "-m", "acer_tf", "train", *given]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = pandas.read_csv(f"{folder}/run/progress.csv")
    first, last = rows.iloc[1], rows.iloc[-1]
    return float((last.steps - first.steps) / (last.seconds - first.seconds))


def table(measured: dict[str, dict[str, Any]]) -> str:
    """Medians with their range, and their ratios to `in turn`."""
    lines = ["| steps/s | " + " | ".join(WAYS) + " |", "|---|" + "---|" * len(WAYS)]
    for name, ways in measured.items():
        cells = []
        for found in ways.values():
            ratio = found["median"] / ways["in turn"]["median"]
            cells.append(f"{found['median']:,.0f} [{found['low']:,.0f}, {found['high']:,.0f}] × {ratio:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    from acer_tf.files import write_whole
    from acer_tf.runs.records import run_document, write_json
    from benchmarks.timing import Workload, interleaved

    measured = {}
    output = Path(FLAGS.output)
    output.mkdir(parents=True, exist_ok=True)
    for name in FLAGS.loop or LOOPS:
        ways = {way: Workload("steps/s", functools.partial(rate, LOOPS[name], given)) for way, given in WAYS.items()}
        found = interleaved(ways, FLAGS.repetitions)
        measured[name] = {way: measurement.document() for way, measurement in found.items()}
        print(name, json.dumps({way: round(m["median"]) for way, m in measured[name].items()}), flush=True)
    given = {"precision": FLAGS.precision, "device": FLAGS.device}
    write_json(output / "overlap.json", run_document(given, {"loops": measured}))
    write_whole(output / "overlap.md", table(measured))
    print(table(measured), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
