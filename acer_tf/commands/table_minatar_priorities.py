"""Prioritized replay on MinAtar: Double DQN and ACER, each with uniform, proportional and rank-based replay.

python -m acer_tf table_minatar_priorities --processes=2
python -m acer_tf table_minatar_priorities --report_only
"""

from __future__ import annotations

import functools

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import minatar

AGAINST = {
    "Prioritized Double DQN (proportional)": "Double DQN",
    "Prioritized Double DQN (rank)": "Double DQN",
    "ACER, prioritized trajectories (proportional)": "ACER, replay 4",
    "ACER, prioritized trajectories (rank)": "ACER, replay 4",
}
EXPERIMENT = Experiment(
    name="table_minatar_priorities",
    title="Prioritized replay on MinAtar",
    sweep="minatar",
    text=(
        "Double DQN with uniform, proportional and rank-based replay (Schaul et al. 2016: a quarter of the "
        "learning rate with priorities), and ACER with the same for its trajectories, which is this package's "
        "extension; five games, a million steps, three seeds.",
        "Nothing of this was published: scores are normalised by random play and by ACER with replay 4 and trust "
        "region. DQN's replay start, memory, exploration and target period are Atari's, shortened for runs of a "
        "million steps.",
    ),
    envs=grids.MINATAR,
    methods=grids.minatar_priorities(),
    seeds=3,
    report=functools.partial(minatar.report, against=AGAINST),
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
