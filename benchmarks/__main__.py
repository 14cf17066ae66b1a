"""Measures what everything costs, and how near the whole loop comes to the limit that the machine sets.

python -m benchmarks --output=results/benchmark

Prints the tables, and writes them as benchmark.md, with benchmark.json (every repetition), figure.png and figure.svg.
The figure has a panel for each group that is drawn.

python -m benchmarks --against=../older --output=results/benchmark/older

measures the whole loop of this checkout and of another, in turn, and writes benchmark.md and benchmark.json.

Leave the machine alone meanwhile: whatever else runs is measured too. At most 10 minutes on 2 cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from acer_tf.commands import cli

_GROUPS = (
    *("machine", "environments", "atari", "minatar", "control", "replay", "priorities"),
    *("recurrent", "recurrent_small"),
)

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.multi_enum("only", None, _GROUPS, "measure only this group; may be repeated")
flag.integer("repetitions", 7, "times that each figure is measured", lower_bound=1)
flag.string(
    "output", None, "folder for tables, JSON and figures; by default runs/benchmark, or in it one named after --only",
)  # fmt: skip
cli.define_device(FLAGS)
flag.string(
    "against", None, "folder of another checkout: the loops of both, and nothing else; over an hour"
)
flag.string("json", None, "write the JSON here, not into --output")
flag.string(
    "scratch", "runs", "folder on the disk whose speed is to be measured; 12 GB there are used and freed again",
)  # fmt: skip


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    from acer_tf.files import write_json
    from acer_tf.reproduction.evidence import require_folder
    from acer_tf.runs.records import run_document
    from acer_tf.training.device import find_device
    from benchmarks import report
    from benchmarks.checkouts import require_checkout
    from benchmarks.outputs import require_new, require_no_loss

    output = Path(FLAGS.output or Path("runs/benchmark", "_".join(FLAGS.only or ())))
    path = Path(FLAGS.json) if FLAGS.json else output / "benchmark.json"
    against = None if FLAGS.against is None else Path(FLAGS.against)
    if against is not None and (FLAGS.only or FLAGS.device != "auto"):
        given = f"--only={FLAGS.only[0]}" if FLAGS.only else f"--device={FLAGS.device}"
        return cli.fail(2, f"{given}: has no effect with --against, which measures each checkout's whole loops")
    if against is not None:
        require_checkout(against)
    for flag, folder in (("output", output), ("json", path.parent), ("scratch", Path(FLAGS.scratch))):
        require_folder(folder, flag)
    find_device(FLAGS.device)
    if against is not None:
        require_new(path)
        return _compare(against, output, path)
    names = FLAGS.only or _GROUPS
    require_no_loss(path, lambda document: document["groups"], names)
    groups: dict[str, Any] = {}
    for name in names:
        print(f"{name} ...", end=" ", flush=True)
        began = time.monotonic()
        try:
            groups[name] = _measure(name)
        except subprocess.CalledProcessError as error:
            return cli.fail(1, f"group {name} ended with status {error.returncode}")
        print(f"{time.monotonic() - began:.0f} s", flush=True)
    write_json(path, run_document({"repetitions": FLAGS.repetitions}, {"groups": groups}))
    tables = report.summary(groups) + "\n" + report.table(groups)
    print("\n" + tables)
    (output / "benchmark.md").write_text(tables)
    for suffix in ("png", "svg"):
        report.draw(groups, output / f"figure.{suffix}")
    print(f"JSON in {path}; tables and figures in {output}")
    return 0


def _compare(other: Path, output: Path, path: Path) -> int:
    from acer_tf.files import write_json
    from acer_tf.runs.records import run_document
    from benchmarks.checkouts import compare, table

    compared: dict[str, Any] = {}
    try:
        for name, ours, theirs in compare(other, FLAGS.repetitions):
            compared[name] = [ours, theirs]
            print(table({name: (ours, theirs)}).splitlines()[-1], flush=True)
            # Each takes minutes, and the other checkout may lack what the next one needs.
            write_json(path, run_document({"repetitions": FLAGS.repetitions}, {"against": compared}))
    except ValueError as error:
        return cli.fail(1 if compared else 2, error)
    (output / "benchmark.md").write_text(table(compared))
    print(f"\nJSON and table in {output}")
    return 0


def _measure(name: str) -> dict[str, Any]:
    """One group, in a process of its own: a process has one setting of threads."""
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=FLAGS.scratch) as scratch:
        command = [sys.executable, "-m", "benchmarks.child", FLAGS.device, name, str(FLAGS.repetitions), scratch]
        # Else the first group to compute would take all of a GPU's memory.
        env = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", **os.environ}
        answer = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True)
    return dict(json.loads(answer.stdout))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
