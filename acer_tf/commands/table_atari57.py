"""The cells of Figure 1 by game: final scores beside those published of DQN, prioritized replay, A3C and Rainbow.

python -m acer_tf table_atari57 --games=atari5 --agents=replay4_trust --total_steps=10_000_000
python -m acer_tf table_atari57 --report_only
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import atari

EXPERIMENT = Experiment(
    name="table_atari57",
    title="Atari 57, by game",
    sweep="atari",
    text=(
        "Final scores of the same runs as Figure 1's, by game, beside published ones. No ACER scores by game were "
        "published for 57 games. Ours are training scores of the last 1M frames; the published ones are "
        "evaluations, each by the protocol that its column names, most of them after 200M frames and of the best "
        "agent seen in training.",
        grids.ATARI_DEVIATIONS,
    ),
    envs=grids.ATARI57,
    methods=grids.figure1_atari(),
    seeds=1,
    report=atari.table57,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
