"""Figure 1 of the ACER paper: median human-normalised score over Atari games, against frames and hours.

python -m acer_tf figure1_atari57 --plan
python -m acer_tf figure1_atari57 --games=atari5 --agents=replay4_trust,replay0 --total_steps=2_000_000
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import atari

EXPERIMENT = Experiment(
    name="figure1_atari57",
    title="Figure 1 of ACER: replay ratios on Atari",
    sweep="atari",
    text=(
        "Reproduces Figure 1 of Wang et al. 2017: ACER with replay ratios 0, 1, 4 and 8, with and without trust "
        "region, DQN, and prioritized Double DQN, on 57 Atari games. A game's score is the mean return of "
        "training over the last 1M frames; the curve is the cumulative maximum of its median over games. Four "
        "frames are one agent step.",
        grids.ATARI_DEVIATIONS,
        "Which of the prioritized agents the paper shows is not said: ours is the proportional one.",
    ),
    envs=grids.ATARI57,
    methods=grids.figure1_atari(),
    seeds=1,
    report=atari.figure1,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
