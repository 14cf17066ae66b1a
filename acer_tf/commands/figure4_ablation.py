"""Figure 4 of the ACER paper: continuous ACER without one of its parts, on fish, walker2d and humanoid.

python -m acer_tf figure4_ablation --tasks=walker2d --total_steps=3_000_000 --seeds=1
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import control

EXPERIMENT = Experiment(
    name="figure4_ablation",
    title="Figure 4 of ACER: ablations",
    sweep="control",
    text=(
        "Reproduces Figure 4 of Wang et al. 2017: ACER without the trust region, without stochastic dueling "
        "networks (a separate network for Q), without Retrace and Q_opc (both replaced by importance-sampled "
        "returns), and without truncation and bias correction (c infinite).",
        grids.CONTROL_DEVIATIONS,
        grids.CONTROL_SETTING,
    ),
    envs=grids.ABLATION_TASKS,
    methods=grids.figure4_ablation(),
    seeds=3,
    report=control.figure4,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
