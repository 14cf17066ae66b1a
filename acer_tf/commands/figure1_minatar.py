"""Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one machine finishes.

python -m acer_tf figure1_minatar --processes=2
python -m acer_tf figure1_minatar --games=breakout --agents=replay0,replay4_trust --seeds=1
python -m acer_tf figure1_minatar --preset=paper --processes=2
"""

from __future__ import annotations

import dataclasses
import functools

from absl import flags

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.report import minatar

# Each ratio with its trust region against the same without; without, against the ratio below.
AGAINST = {
    **{f"ACER, replay {ratio}": f"ACER, replay {ratio}, no trust region" for ratio in (0, 1, 4, 8)},
    "ACER, replay 1, no trust region": "ACER, replay 0, no trust region",
    "ACER, replay 4, no trust region": "ACER, replay 1, no trust region",
    "ACER, replay 8, no trust region": "ACER, replay 4, no trust region",
    "Prioritized Double DQN (proportional)": "Double DQN",
}
DESIGN = (
    "The design of the ACER paper's Figure 1 on the five MinAtar games: ACER with replay ratios 0, 1, 4 and 8, with "
    "and without trust region, beside Double DQN with uniform and with proportional prioritized replay. The paper "
    "asked whether more replay learns more per step, and whether the trust region helps more at high ratios."
)
SETTINGS = {
    "baselines": "preset baselines with learning rate 0.003 and replay from 1,000 steps per environment",
    "paper": "preset paper's as they are",
}


def text(preset: str) -> tuple[str, ...]:
    return (
        DESIGN,
        "Nothing of this was published: scores are normalised by random play and by ACER with replay 4 and trust "
        "region at a million steps of preset baselines (where its own curve so passes near 1). ACER's settings are "
        f"{SETTINGS[preset]}; DQN's replay, exploration and target period are shortened in proportion.",
    )


EXPERIMENT = Experiment(
    name="figure1_minatar",
    title="Figure 1's design on MinAtar",
    sweep="minatar",
    text=text("baselines"),
    envs=grids.MINATAR,
    methods=grids.figure1_minatar(),
    seeds=3,
    report=functools.partial(minatar.report, against=AGAINST),
)
FLAGS = pipeline.define(EXPERIMENT)
flags.DEFINE_enum("preset", "baselines", list(SETTINGS), "the settings of ACER", flag_values=FLAGS)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT, _chosen)


def _chosen(values: flags.FlagValues) -> tuple[Experiment, pipeline.Keep]:
    if values.preset == "baselines":
        return EXPERIMENT, list
    if not values["output"].present:
        values["output"].value = f"results/figure1_minatar_{values.preset}"
    title, methods = f"Figure 1's design on MinAtar, preset {values.preset}", grids.figure1_minatar(values.preset)
    return dataclasses.replace(EXPERIMENT, title=title, text=text(values.preset), methods=methods), list
