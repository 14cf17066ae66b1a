"""How the rate of stepping environments grows with --env_workers, where an environment is as slow as a simulator.

python -m benchmarks.workers --workers=1 --workers=2 --workers=4 --workers=8 --output=results/benchmark/workers

16 copies wait 5 ms per step, which takes no core; nothing is learned. Writes workers.json, workers.md and figure.png.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from absl import flags

from acer_tf.commands import cli
from benchmarks import actors

ENVIRONMENTS = 16
WAIT_SECONDS = 0.005
FLAGS = cli.new_flags()
flags.DEFINE_multi_integer("workers", [1, 2, 4, 8], "numbers of processes", flag_values=FLAGS)
flags.DEFINE_integer("steps", 100, "steps of each environment that count, after ten that do not", 1, flag_values=FLAGS)
cli.definers(FLAGS).path("output", "my_results/benchmark/workers", "folder")


class Waits(actors.Waits):
    """Ends after 50 steps, each of which takes 5 ms and next to no computation."""

    wait_seconds = WAIT_SECONDS


def rate(workers: int, steps: int) -> float:
    """Steps per second of all environments."""
    from acer_tf import envs

    env, action = envs.make("waits", ENVIRONMENTS, 0, factory=Waits, workers=workers), np.zeros(ENVIRONMENTS, int)
    try:
        env.reset()
        for _ in range(10):
            env.step(action)
        began = time.monotonic()
        taken = sum(int(env.step(action).mask.sum()) for _ in range(steps))
        return taken / (time.monotonic() - began)
    finally:
        env.close()


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    rates = {workers: rate(workers, FLAGS.steps) for workers in sorted(set(FLAGS.workers))}
    label = f"processes of {ENVIRONMENTS} environments of {1000 * WAIT_SECONDS:.0f} ms per step"
    return actors.report(rates, Path(FLAGS.output), "workers", label)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
