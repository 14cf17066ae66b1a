"""Figures 5 and 6 of the ACER paper: what learning rate and δ matter to continuous ACER.

python -m acer_tf figure5_sensitivity --tasks=cheetah --agents=draw0,draw1,draw2,draw3 --total_steps=1_000_000
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import control

EXPERIMENT = Experiment(
    name="figure5_sensitivity",
    title="Figures 5 and 6 of ACER: learning rate and δ",
    sweep="control",
    text=(
        "Reproduces Figures 5 and 6 of Wang et al. 2017: a random search over learning rate (log-uniform in 1e-4 "
        "to 10^-3.3) and δ (uniform in 0.1 to 2). The settings are those that the paper drew, as far as its "
        "figures show them, so that each of our points has its counterpart.",
        grids.CONTROL_DEVIATIONS,
    ),
    envs=grids.CONTROL,
    methods=grids.figure5_sensitivity(),
    seeds=1,
    report=control.figure5,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
