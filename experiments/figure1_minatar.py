"""Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one machine finishes.

python -m experiments.figure1_minatar --processes=2
python -m experiments.figure1_minatar --games=breakout --agents=replay0,replay4_trust --seeds=1
"""

from __future__ import annotations

import functools
import sys

from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import minatar
from experiments import pipeline

# Each ratio with its trust region against the same without; without, against the ratio below.
AGAINST = {
    **{f"ACER, replay {ratio}": f"ACER, replay {ratio}, no trust region" for ratio in (0, 1, 4, 8)},
    "ACER, replay 1, no trust region": "ACER, replay 0, no trust region",
    "ACER, replay 4, no trust region": "ACER, replay 1, no trust region",
    "ACER, replay 8, no trust region": "ACER, replay 4, no trust region",
    "Prioritized Double DQN (proportional)": "Double DQN",
}
EXPERIMENT = Experiment(
    name="figure1_minatar",
    title="Figure 1's design on MinAtar",
    sweep="minatar",
    text=(
        "The design of the ACER paper's Figure 1 on the five MinAtar games: ACER with replay ratios 0, 1, 4 and 8, "
        "with and without trust region, beside Double DQN with uniform and with proportional prioritized replay. "
        "The paper asked whether more replay learns more per step, and whether the trust region helps more at high "
        "ratios.",
        "Nothing of this was published: scores are normalised by random play and by ACER with replay 4 and trust "
        "region at a million steps (where its own curve so passes near 1). Settings are preset baselines with "
        "learning rate 0.003 and replay from 1,000 steps per environment; DQN's replay, exploration and target "
        "period are shortened in proportion.",
    ),
    envs=grids.MINATAR,
    methods=grids.figure1_minatar(),
    seeds=3,
    report=functools.partial(minatar.report, against=AGAINST),
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
