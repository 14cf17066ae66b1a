"""Table 1 of the prioritized-replay paper: median and mean human-normalised scores of DQN's family.

python -m acer_tf table1_prioritized --games=atari5 --agents=ddqn_tuned,ddqn_proportional --total_steps=5_000_000
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import atari

EXPERIMENT = Experiment(
    name="table1_prioritized",
    title="Table 1 of prioritized experience replay",
    sweep="atari",
    text=(
        "Reproduces Table 1 of Schaul et al. 2016: DQN with uniform and rank-based replay, Double DQN with "
        "uniform, rank-based and proportional replay, 200M frames. The published columns are recomputed from the "
        "paper's scores by game, over the games of ours and over all.",
        "Deviations: ours are training scores of the last 1M frames under the exploring policy, normalised by "
        "no-op references; the paper evaluates the best agent of each run from human starts, which are not public.",
    ),
    envs=grids.ATARI57,
    methods=grids.table1_prioritized(),
    seeds=1,
    report=atari.table1,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
