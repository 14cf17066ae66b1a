"""The cells of Figure 3 as numbers: returns by task and method beside the paper's.

python -m acer_tf table_control --tasks=reacher3 --total_steps=2_000_000
python -m acer_tf table_control --report_only
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import control

EXPERIMENT = Experiment(
    name="table_control",
    title="Continuous control, as numbers",
    sweep="control",
    text=(
        "Final returns of the same runs as Figure 3's beside the published curves at equal steps and at their "
        "end, and the order of the methods in both.",
        grids.CONTROL_DEVIATIONS,
        grids.CONTROL_SETTING,
    ),
    envs=grids.CONTROL,
    methods=grids.figure3_continuous(),
    seeds=3,
    report=control.table,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
