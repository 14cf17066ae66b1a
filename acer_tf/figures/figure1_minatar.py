"""Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one machine finishes.

python -m acer_tf figure1_minatar --processes=2
python -m acer_tf figure1_minatar --games=breakout --agents=replay0_trust,replay4_trust --seeds=1
"""

import functools
import itertools

from acer_tf.reproduction import minatar
from acer_tf.reproduction.atari import WITH_TRUST, WITHOUT, published_median, ratios_of, trust_region_gains
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import OTHER_TASKS, Claim, Figure, Finding, Method
from acer_tf.reproduction.report.output import numbers
from acer_tf.reproduction.statistics import interquartile_mean
from acer_tf.reproduction.verdicts import own_design

# With trust region against without; without, against the ratio below.
_AGAINST = {
    **dict(zip(WITH_TRUST, WITHOUT, strict=True)),
    **{more: less for less, more in itertools.pairwise(WITHOUT)},
    "prioritized": "ddqn",
}
_SETTINGS = {  # of ACER, by preset
    "baselines": "preset baselines with learning rate 0.003 and replay from 1,000 steps per environment",
    "paper": "preset paper as it is",
}


def methods(preset: str) -> dict[str, Method]:
    """The methods, with ACER's settings of "baselines" or of "paper"."""
    dqn = minatar.dqn_methods()
    acer = minatar.acer_methods({"preset": preset} if preset == "paper" else None)
    return {**acer, "ddqn": dqn["ddqn"], "prioritized": dqn["ddqn_proportional"]}


def text(preset: str) -> tuple[str, ...]:
    """What the figure shows with a preset of ACER."""
    return (
        "The design of the ACER paper's Figure 1 on the five MinAtar games: ACER with replay ratios 0, 1, 4 and 8, "
        "with and without trust region, beside Double DQN with uniform and with proportional prioritized replay. The "
        "paper asked whether more replay learns more per step, and whether the trust region helps more at high ratios.",
        "Nothing of this was published: scores are normalised by random play (0) and by ACER with replay 4 and trust "
        f"region at a million steps (1), with {_SETTINGS['baselines']}. "
        f"Here ACER has {_SETTINGS[preset]}; DQN's replay, exploration and target period are shortened to "
        "about a tenth.",
    )


def more_replay(recorded: RecordedRuns) -> Finding:
    """Whether every step of the replay ratio is an improvement, with trust region."""
    keys = [key for key in WITH_TRUST if minatar.finals(recorded, [key])]
    gains = [recorded.improvement(more, less, minatar.score) for less, more in itertools.pairwise(keys)]
    middles = [interquartile_mean(scores).value for scores in minatar.finals(recorded, keys)]
    theirs = numbers([published_median(key, 100e6) for key in keys])
    ours = f"{numbers(middles)} (interquartile means, ratios {ratios_of(keys)})" if middles else ""
    return Finding(gains, ours, f"order only: {theirs} (medians on Atari, 100M frames)")


def figure_of(module: str, preset: str) -> Figure:
    """The figure with a preset of ACER, "baselines" or "paper", for the module whose `FIGURE` it is."""
    of = "" if preset == "baselines" else f", preset {preset}"
    gains = functools.partial(trust_region_gains, score=minatar.score)
    section4 = f"ACER, Section 4, on MinAtar{of}"
    return Figure(
        module,
        order=20,
        source=f"ACER, Figure 1, on MinAtar{of}",
        title=f"Figure 1's design on MinAtar{of}",
        text=text(preset),
        kind=OTHER_TASKS,
        envs=minatar.MINATAR,
        methods=methods(preset),
        seeds=3,
        report=functools.partial(minatar.report, against=_AGAINST),
        claims=(
            Claim("more replay learns more per step", more_replay, own_design),
            Claim("the trust region gains more with more replay", gains, own_design, section4),
        ),
    )


FIGURE = figure_of(__name__, "baselines")
