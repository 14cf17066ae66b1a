"""Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one machine finishes.

python -m acer_tf figure1_minatar --processes=2
python -m acer_tf figure1_minatar --games=breakout --agents=replay0_trust,replay4_trust --seeds=1
python -m acer_tf figure1_minatar --preset=paper --processes=2
"""

import dataclasses
import functools
import itertools
from pathlib import Path

from absl import flags

from acer_tf.commands import cli
from acer_tf.reproduction import minatar
from acer_tf.reproduction.atari import WITH_TRUST, WITHOUT, published_median, ratios_of, trust_region_gains
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import RESULTS, Claim, Figure, Finding, Judged, Method
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


def define_flags(values: flags.FlagValues) -> None:
    """Adds --preset."""
    cli.definers(values).enum("preset", "baselines", list(_SETTINGS), "the settings of ACER")


def chosen(figure: Figure, values: flags.FlagValues) -> Figure:
    """The figure with the preset that the flags name, and a folder of its own for preset paper."""
    if values.preset != "baselines" and not values["output"].present:
        values["output"].value = f"{RESULTS}/{figure.name}_{values.preset}"
    return with_preset(figure, values.preset)


def with_preset(figure: Figure, preset: str) -> Figure:
    """The figure with a preset of ACER."""
    title = figure.title if preset == "baselines" else f"{figure.title}, preset {preset}"
    options = {"preset": preset}
    return dataclasses.replace(figure, title=title, text=text(preset), methods=methods(preset), options=options)


def more_replay(recorded: RecordedRuns) -> Finding:
    """Whether every step of the replay ratio is an improvement, with trust region."""
    keys = [key for key in WITH_TRUST if minatar.finals(recorded, key).size]
    end = min((minatar.compared_steps(recorded, key) for key in keys), default=0.0)
    finals = {key: found for key in keys if (found := minatar.finals(recorded, key, end)).size}
    gains = [recorded.improvement(more, less, minatar.score) for less, more in itertools.pairwise(finals)]
    ours = numbers([interquartile_mean(scores).value for scores in finals.values()])
    theirs = numbers([published_median(key, 100e6) for key in finals])
    ratios = f"(interquartile means, ratios {ratios_of(finals)})"
    return Finding(gains, f"{ours} {ratios}", f"order only: {theirs} (medians on Atari, 100M frames)")


def read_preset_paper(figure: Figure, folder: Path) -> Judged | None:
    """The runs with preset paper."""
    return own_design(with_preset(figure, "paper"), folder)


_SOURCE, _SECTION4 = "ACER, Figure 1, on MinAtar", "ACER, Section 4, on MinAtar"
_MORE, _GAINS = "more replay learns more per step", "the trust region gains more with more replay"
_trust_region_gains = functools.partial(trust_region_gains, score=minatar.score)
_PAPER = "figure1_minatar_paper"  # folder of the runs with preset paper
FIGURE = Figure(
    __name__,
    order=20,
    source=_SOURCE,
    title="Figure 1's design on MinAtar",
    text=text("baselines"),
    envs=minatar.MINATAR,
    methods=methods("baselines"),
    seeds=3,
    report=functools.partial(minatar.report, against=_AGAINST),
    flags=define_flags,
    chosen=chosen,
    claims=(
        Claim(_MORE, more_replay, own_design),
        Claim(_MORE, more_replay, read_preset_paper, f"{_SOURCE}, preset paper", _PAPER),
        Claim(_GAINS, _trust_region_gains, own_design, _SECTION4),
        Claim(_GAINS, _trust_region_gains, read_preset_paper, f"{_SECTION4}, preset paper", _PAPER),
    ),
)
