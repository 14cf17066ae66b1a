"""Where the trust region helps on MinAtar: at which replay ratios, and with which δ and lag of the average policy.

python -m acer_tf figure_trust_region --processes=2
python -m acer_tf figure_trust_region --agents=replay8_trust,replay8 --games=breakout --seeds=3
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

from acer_tf.reproduction import minatar
from acer_tf.reproduction.atari import published_gain
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import OTHER_TASKS, Claim, Figure, Finding, Method
from acer_tf.reproduction.report import output
from acer_tf.reproduction.report.output import Drawing, Report, numbers
from acer_tf.reproduction.statistics import Comparison
from acer_tf.reproduction.verdicts import own_design

_STEPS = 300_000
_RATIOS = (4, 8)
_PRESETS = {"minatar": "", "paper": "paper_"}  # with the prefix of their methods
_DELTAS = (0.01, 0.1, 1.0)
_LAGS = (400, 6_400)  # steps
_UPDATE_STEPS = 16 * 20 / (1 + 8)  # steps per update with preset minatar at ratio 8: windows of 20 from 16 environments


def methods() -> dict[str, Method]:
    """Each preset at each ratio with and without trust region; then preset minatar at ratio 8 by δ and lag."""
    found = {}
    for (preset, prefix), ratio in itertools.product(_PRESETS.items(), _RATIOS):
        settings: dict[str, Any] = {"preset": preset, "replay_ratio": float(ratio)}
        label = f"preset {preset}, replay {ratio}"
        found[f"{prefix}replay{ratio}_trust"] = Method(label, {**settings, "trust_region_delta": 1.0}, _STEPS)
        without = {**settings, "trust_region_delta": math.inf}
        found[f"{prefix}replay{ratio}"] = Method(f"{label}, without trust region", without, _STEPS)
    for delta, lag in itertools.product(_DELTAS, _LAGS):
        # The average forgets the policy within 1 / (1 - α) updates.
        region = {"trust_region_delta": delta, "average_decay": 1 - _UPDATE_STEPS / lag}
        settings = {"preset": "minatar", "replay_ratio": 8.0, **region}
        found[f"delta{delta:g}_lag{lag}"] = Method(f"δ {delta:g}, lag {lag:,}", settings, _STEPS)
    return found


_METHODS = methods()
_PAIRS = {  # of the claims: a method, and the same without trust region
    preset: [(f"{prefix}replay{ratio}_trust", f"{prefix}replay{ratio}") for ratio in _RATIOS]
    for preset, prefix in _PRESETS.items()
}
_AGAINST = dict(itertools.chain(*_PAIRS.values())) | {key: "replay8" for key in _METHODS if key.startswith("delta")}


def report(recorded: RecordedRuns) -> Report:
    """MinAtar's tables, and how often a run with the trust region beats one without."""
    figure, (axes,) = output.panels(1)
    gains = {key: recorded.improvement(key, other, minatar.score) for key, other in _AGAINST.items()}
    known = {key: gain for key, gain in gains.items() if math.isfinite(gain.estimate.value)}
    places = range(len(known))
    for place, gain in zip(places, known.values(), strict=True):
        value, low, high = gain.estimate
        axes.hlines(place, low, high, color="C0")
        axes.plot(value, place, "o", color="C0", fillstyle="full" if gain.side else "none")
    axes.set_yticks(places, [_METHODS[key].label for key in known])
    axes.invert_yaxis()
    axes.axvline(0.5, color="0.5", linestyle=":")
    axes.set(xlim=(0, 1), xlabel="probability that a run with the trust region beats one without")
    output.dress(axes, "seconds")
    drawn = (
        "How often a run with the trust region beats one of the same preset and replay ratio without, mean over games, "
        "with 95 % intervals (dotted: even; full: shown by the rule of the verdicts). The rows with δ and lag, in "
        "steps, are of preset minatar at ratio 8."
    )
    return Report(minatar.tables(recorded, _AGAINST), {"figure": Drawing(drawn, figure)})


def helps(recorded: RecordedRuns) -> Finding:
    """Whether the trust region is an improvement at both ratios, with both presets."""
    pairs = itertools.chain(*_PAIRS.values())
    gains = {_METHODS[pair[0]].label: recorded.improvement(*pair, minatar.score) for pair in pairs}
    return _finding(gains, "a run with it beats one without")


def gains_more(recorded: RecordedRuns) -> Finding:
    """Whether the trust region is a larger improvement at ratio 8 than at ratio 4, with both presets."""
    gains = {
        f"preset {preset}": recorded.larger_gain(more, less, f"preset {preset}, ratio 8 less 4", minatar.score)
        for preset, (less, more) in _PAIRS.items()
    }
    return _finding(gains, "a run with it beats one without, ratio 8 less 4")


def _finding(gains: Mapping[str, Comparison], what: str) -> Finding:
    """The claim is of all `gains`, so one without runs leaves it undecided; those with runs are shown."""
    known = {name: gain.estimate.value for name, gain in gains.items() if math.isfinite(gain.estimate.value)}
    ours = f"{numbers([*known.values()])} ({what}: {'; '.join(known)})" if known else ""
    published = numbers([published_gain(*pair) for pair in _PAIRS["minatar"]])
    theirs = f"order only: {published} (median with it by that without, ratios 4, 8, Atari, 150M frames)"
    return Finding([*gains.values()], ours, theirs)


_SOURCE = "ACER, Section 4, on MinAtar, 300k steps"
FIGURE = Figure(
    __name__,
    order=21,
    source=_SOURCE,
    title="Where the trust region helps on MinAtar",
    text=(
        "The ACER paper's Section 4 has the trust region help more the more is replayed. Here its preset and that of "
        "MinAtar are run at replay ratios 4 and 8, with and without it, on the five MinAtar games; then the latter at "
        "ratio 8 with δ of 0.01, 0.1 and 1, and an average policy that lags 400 or 6,400 steps, about as those of the "
        "two presets do at ratio 4.",
        "Nothing of this was published. Scores are normalised as in figure1_minatar, whose runs are three times as "
        "long, but have three seeds.",
    ),
    kind=OTHER_TASKS,
    envs=minatar.MINATAR,
    methods=_METHODS,
    seeds=10,
    report=report,
    claims=(
        Claim("the trust region helps at replay ratios 4 and 8", helps, own_design),
        Claim("the trust region gains more with more replay", gains_more, own_design),
    ),
)
