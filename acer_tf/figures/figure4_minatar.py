"""Figure 4's question on MinAtar: discrete ACER without one of its parts.

python -m acer_tf figure4_minatar --processes=2
python -m acer_tf figure4_minatar --agents=acer,no_retrace --games=breakout --seeds=3
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from acer_tf.reproduction import minatar
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import OTHER_TASKS, Claim, Figure, Finding, Method
from acer_tf.reproduction.report.output import numbers
from acer_tf.reproduction.verdicts import own_design

_STEPS = 300_000
_WHOLE: dict[str, Any] = {"preset": "minatar", "replay_ratio": 8.0}
_WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {
    "no_trust_region": ("no trust region", {"trust_region_delta": math.inf}),
    "no_retrace": ("importance-sampled returns, no Retrace", {"retrace": False}),
    "one_step": ("one-step returns, λ = 0", {"retrace_lambda": 0.0}),
    "no_truncation": ("neither truncation nor bias correction", {"importance_truncation": math.inf}),
    "no_bias_correction": ("truncation without bias correction", {"bias_correction": False}),
}


def without(parts: Sequence[str], published: str, recorded: RecordedRuns) -> Finding:
    """Whether ACER is better than without each one of some parts; `published` is the paper's finding."""
    gains = [recorded.improvement("acer", part, minatar.score) for part in parts]
    known = [part for part, gain in zip(parts, gains, strict=True) if math.isfinite(gain.estimate.value)]
    shown = numbers([gain.estimate.value for gain in gains if math.isfinite(gain.estimate.value)])
    labels = "; ".join(recorded.methods[part].label for part in known)
    return Finding(gains, f"{shown} (a run of ACER beats one with: {labels})" if known else "", published)


_PAPER = "order only: worse on {} of 3 control tasks, continuous actions"
FIGURE = Figure(
    __name__,
    order=22,
    source="ACER, Figure 4, on MinAtar",
    title="Figure 4's question on MinAtar: ablations",
    text=(
        "Discrete ACER at replay ratio 8 on the five MinAtar games, whole and without one of its parts: the trust "
        "region; Retrace, replaced by importance-sampled returns or by one-step returns (λ = 0); truncation and bias "
        "correction (c infinite); or the correction alone. The paper's Figure 4 asks this of continuous ACER.",
        "Nothing of this was published. The stochastic dueling network and Q_opc are continuous ACER's alone. Scores "
        "are normalised as in figure1_minatar.",
    ),
    kind=OTHER_TASKS,
    envs=minatar.MINATAR,
    methods={"acer": Method("ACER, replay 8", _WHOLE, _STEPS)}
    | {key: Method(label, _WHOLE | change, _STEPS) for key, (label, change) in _WITHOUT.items()},
    seeds=10,
    report=functools.partial(minatar.report, against=dict.fromkeys(_WITHOUT, "acer")),
    claims=(
        Claim(
            "without trust region or Retrace ACER is worse",
            functools.partial(without, ("no_trust_region", "no_retrace"), _PAPER.format(3)),
            own_design,
        ),
        Claim(
            "without truncation it is worse",
            functools.partial(without, ("no_truncation",), _PAPER.format(1)),
            own_design,
        ),
    ),
)
