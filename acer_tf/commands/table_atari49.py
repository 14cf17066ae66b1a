"""ACER and A3C after 40M frames beside ACER, A2C and PPO of the PPO paper: the only ACER table by game.

python -m acer_tf table_atari49 --games=Pong,Breakout --total_steps=20_000 --seeds=2
python -m acer_tf table_atari49 --games=openai7 --agents=acer
"""

from __future__ import annotations

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.game_sets import GAME_SETS
from acer_tf.reproduction.report import atari

EXPERIMENT = Experiment(
    name="table_atari49",
    title="Atari 49 at 40M frames",
    sweep="atari",
    text=(
        "Beside Table 6 of Schulman et al. 2017 (PPO), whose ACER is OpenAI baselines': 49 games, 40M frames (10M "
        "agent steps), mean of the last 100 training games, 3 seeds. Preset baselines has the settings of that "
        "code.",
        "Deviations: the published runs used NoFrameskip environments with up to 30 no-ops and ended a return at "
        "a lost life; ours are the emulator's vector environments with the same preprocessing. Our A3C is ACER at "
        "replay ratio 0 without trust region, on 16 environments in lockstep, and stands beside the PPO paper's "
        "A2C.",
    ),
    envs=tuple(f"atari/{game}" for game in GAME_SETS["atari49"]),
    methods=grids.table_atari49(),
    seeds=3,
    report=atari.table49,
)
FLAGS = pipeline.define(EXPERIMENT)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT)
