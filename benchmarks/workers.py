"""How the rate of stepping environments grows with --env_workers, where an environment is as slow as a simulator.

python -m benchmarks.workers --workers=1 --workers=2 --workers=4 --workers=8 --output=results/benchmark/workers

16 copies wait 5 ms per step, which takes no core; nothing is learned. Writes workers.json, workers.md and figure.png.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from acer_tf.commands import cli
from benchmarks import actors

ENVIRONMENTS = 16
WAIT_SECONDS = 0.005
STEPS = 10  # of each environment in a round
FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.multi_integer("workers", [1, 2, 4, 8], "numbers of processes")
flag.integer("rounds", 20, "rounds, of which the fastest counts", 1)
flag.path("output", "my_results/benchmark/workers", "folder")


class Waits(actors.Waits):
    """Ends after 50 steps, each of which takes 5 ms and next to no computation."""

    wait_seconds = WAIT_SECONDS


def rates_of(counts: Sequence[int], rounds: int) -> dict[int, float]:
    """Steps per second of all environments by numbers of processes: in the fastest of rounds that alternate.

    Waiting takes the same time in each; whatever else runs on the machine only adds to it.
    """
    from acer_tf import envs

    action, fastest = np.zeros(ENVIRONMENTS, int), dict.fromkeys(counts, 0.0)
    with contextlib.ExitStack() as opened:
        worlds = {}
        for count in counts:
            worlds[count] = envs.make("waits", ENVIRONMENTS, 0, factory=Waits, workers=count)
            opened.callback(worlds[count].close)
            worlds[count].reset()
        for _ in range(rounds):
            for count, env in worlds.items():
                began = time.monotonic()
                taken = sum(int(env.step(action).mask.sum()) for _ in range(STEPS))
                fastest[count] = max(fastest[count], taken / (time.monotonic() - began))
    return fastest


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    from benchmarks.outputs import require_new

    require_new(Path(FLAGS.output, "workers.json"))
    rates = rates_of(sorted(set(FLAGS.workers)), FLAGS.rounds)
    label = f"processes of {ENVIRONMENTS} environments of {1000 * WAIT_SECONDS:.0f} ms per step"
    return actors.report(rates, Path(FLAGS.output), "workers", label)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
