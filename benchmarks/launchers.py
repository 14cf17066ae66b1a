"""What a sweep costs on Ray: the same cells on a local cluster of two nodes and by as many local processes, in turn.

python -m benchmarks.launchers --output=results/benchmark/launchers

The cells are runs of `figure1_minatar` (ACER, replay ratio 4), two at a time, one thread each. Writes launchers.json
and launchers.md, and the last sweep on Ray with its records in the folder ray/.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from acer_tf.commands import cli
from benchmarks.timing import Measurement

NODES = 2
FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.string("games", "asterix,breakout,freeway", "MinAtar games")
flag.integer("seeds", 2, "cells per game", 1)
flag.integer("total_steps", 100_000, "of each cell", 1)
flag.integer("repetitions", 2, "sweeps by each launcher", 1)
flag.path("output", "my_results/benchmark/launchers", "folder")


def seconds(output: Path, *launcher: str) -> float:
    """How long a sweep of the cells takes from its command's start to its end; its records go to `output`.

    Raises:
        RuntimeError: the sweep failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "acer_tf", "figure1_minatar", "--agents=replay4_trust", "--threads=1"]
        command += [f"--{name}={FLAGS[name].value}" for name in ("games", "seeds", "total_steps")]
        began = time.monotonic()
        status = subprocess.call([*command, f"--sweep_dir={folder}/sweep", f"--output={output}", *launcher])
        taken = time.monotonic() - began
    if status:
        raise RuntimeError(f"{' '.join([*command, *launcher])}: exit status {status}")
    return taken


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    from ray.cluster_utils import Cluster

    from acer_tf.files import write_json, write_whole
    from acer_tf.runs.records import run_document

    output = Path(FLAGS.output).resolve()
    if output.exists():
        return cli.fail(2, f"--output={FLAGS.output} exists: move it away, or give another")
    output.mkdir(parents=True)
    # The head is the sweep's; the cells run on the nodes, one on each.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(NODES):
            cluster.add_node(num_cpus=1)
        local, ray = [], []
        for repetition in range(FLAGS.repetitions):
            with tempfile.TemporaryDirectory() as folder:
                local.append(seconds(Path(folder, "local"), f"--processes={NODES}"))
                records = output if repetition == FLAGS.repetitions - 1 else Path(folder)
                ray.append(seconds(records / "ray", "--launcher=ray", f"--ray_address={cluster.address}"))
            print(f"local {local[-1]:.1f} s, Ray {ray[-1]:.1f} s", flush=True)
    except RuntimeError as error:
        return cli.fail(1, error)
    finally:
        cluster.shutdown()
    (output / "index.html").unlink()  # a page of this sweep alone
    efficiency = statistics.median(here / there for here, there in zip(local, ray, strict=True))
    measured = {
        "local": Measurement("s", tuple(local)).document(),
        "ray": Measurement("s", tuple(ray)).document(),
        "efficiency": efficiency,
    }
    write_json(output / "launchers.json", run_document(FLAGS.flag_values_dict(), measured))
    cells = f"{FLAGS.games.count(',') + 1} games, {FLAGS.seeds} seeds, {FLAGS.total_steps:,} steps"
    lines = [
        f"| {cells}, two cells at a time | seconds, median of {len(ray)} |",
        "|---|---|",
        f"| local processes | {statistics.median(local):.1f} |",
        f"| Ray, two nodes | {statistics.median(ray):.1f} |",
        f"| efficiency, median of ratios | {efficiency:.3f} |",
    ]
    write_whole(output / "launchers.md", "\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
