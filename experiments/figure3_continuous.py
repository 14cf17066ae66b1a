"""Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.

python -m experiments.figure3_continuous --plan
python -m experiments.figure3_continuous --processes=2 --output=runs/figure3
python -m experiments.figure3_continuous --tasks=walker2d --seeds=1 --total_steps=3_000_000 --skip_recorded \
    --setting=replay_capacity=500 --setting=log_interval=30_000
"""

from __future__ import annotations

import sys

from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import control
from experiments import pipeline

EXPERIMENT = Experiment(
    name="figure3_continuous",
    title="Figure 3 of ACER: continuous control",
    sweep="control",
    text=(
        "Reproduces Figure 3 of Wang et al. 2017: five methods on six MuJoCo tasks with games of 500 steps; A3C's "
        "variants get twice the steps, as there.",
        grids.CONTROL_DEVIATIONS,
        grids.CONTROL_SETTING,
    ),
    envs=grids.CONTROL,
    methods=grids.figure3_continuous(),
    seeds=3,
    report=control.figure3,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
