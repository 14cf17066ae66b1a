"""What the trust region takes of the policy's gradient that reaches the network, in short runs.

    cd results/trust_region; python share.py share.csv

Writes a line per log interval: the settings, and means over the replayed updates of the interval. `takes` is
Σ ‖J (g − z*)‖ / Σ ‖J g‖ over the unmasked rows of an update, where J is the chain rule from φ to the logits (for a
Gaussian's mean: 1). `takes_there` has the rows alone on which the constraint binds, in both sums.
"""

from __future__ import annotations

import csv
import sys
import tempfile

import tensorflow as tf

import acer_tf
from acer_tf.agents import acer, acer_continuous

SEED, STEPS = 0, 150_000
RUNS = (
    *(("OfProbabilities", f"minatar/{game}", preset) for game in ("breakout", "seaquest") for preset in ("minatar", "paper")),
    *(("OfMean", f"control/{task}", "paper_continuous") for task in ("walker2d", "reacher3")),
)
SETTINGS = ("env", "preset", "replay_ratio", "trust_region_delta", "seed")
SHOWN = ("trust_region_active", "kl_average", "k_norm", "g_norm", "takes", "takes_there")


class Measured:
    """An update rule whose diagnostics say what the projection takes."""

    def reaching(self, x, policy):
        return x

    def project(self, g, policy, average):
        z = super().project(g, policy, average)
        self._found = [tf.norm(self.reaching(x, policy), axis=-1) for x in (g, g - z)], tf.reduce_any(g != z, axis=-1)
        return z

    def output_gradients(self, trajectory, *outputs):
        gradients = super().output_gradients(trajectory, *outputs)
        norms, binds = self._found
        for name, rows in (("takes", trajectory.mask), ("takes_there", trajectory.mask & binds)):
            before, less = (tf.reduce_sum(tf.where(rows, norm, tf.zeros_like(norm))) for norm in norms)
            gradients.diagnostics[name] = tf.math.divide_no_nan(less, before)
        return gradients


class OfProbabilities(Measured, acer.Acer):
    def reaching(self, x, policy):
        f = policy.statistics
        return f * (x - tf.reduce_sum(f * x, axis=-1, keepdims=True))


class OfMean(Measured, acer_continuous.AcerContinuous):
    pass


def main(output: str) -> None:
    with open(output, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*SETTINGS, "steps", "mean_return", *SHOWN])

        def write(settings: acer_tf.Settings, row: acer_tf.Row) -> None:
            values = [row["steps"], row["mean_return"], *(row[f"replay/{name}"] for name in SHOWN)]
            table.writerow([*(getattr(settings, name) for name in SETTINGS), *(f"{value:.5g}" for value in values)])
            file.flush()

        for rule, env, preset in RUNS:
            settings = acer_tf.make_settings(
                env=env, preset=preset, agent=f"share:{rule}", seed=SEED, total_steps=STEPS, log_interval=STEPS // 5
            )
            with tempfile.TemporaryDirectory() as folder:
                acer_tf.train(settings, folder + "/run", threads=1, quiet=True, on_row=lambda row, _: write(settings, row))


if __name__ == "__main__":
    sys.modules["share"] = sys.modules["__main__"]  # where `share:...` finds the classes
    main(sys.argv[1])
