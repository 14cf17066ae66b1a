"""Figure 4 of the ACER paper: continuous ACER without one of its parts, on fish, walker2d and humanoid.

python -m acer_tf figure4_ablation --tasks=walker2d --total_steps=3_000_000 --seeds=1
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from acer_tf.figures.figure3_continuous import METHODS as FIGURE3_METHODS
from acer_tf.reproduction.control import DEVIATIONS, ONE_SETTING, REPLAY_STEPS, curves_report, returns_at_end
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.published import published_ablations
from acer_tf.reproduction.report.output import numbers
from acer_tf.reproduction.verdicts import own_design

_WHOLE = FIGURE3_METHODS["acer_continuous"]
_WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {
    "no_trust_region": ("no trust region", {"trust_region_delta": math.inf}),
    "no_sdn": ("no SDN", {"dueling": False}),
    "no_retrace": ("no Retrace and no Q_opc", {"retrace": False}),
    "no_truncation": ("no truncation and bias correction", {"importance_truncation": math.inf}),
}


def without(parts: Sequence[str], envs: Sequence[str], recorded: RecordedRuns) -> Finding:
    """Whether ACER is better than without each one of some parts, in `envs`."""
    gains = [recorded.improvement("acer_continuous", part, envs=envs) for part in parts]
    ours, theirs = [], []
    for env in envs:
        published = returns_at_end(published_ablations(env))
        if scores := recorded.compared(env, ["acer_continuous", *parts]):
            ours.append(f"{env.rpartition('/')[2]} {numbers(scores)}")
            shown = [published[recorded.methods[key].published] for key in ("acer_continuous", *parts)]
            theirs.append(f"{numbers(shown)} at {REPLAY_STEPS[env] / 1e6:.0f}M steps")
    names = "" if not ours else f" (ACER, {', '.join(recorded.methods[part].label for part in parts)})"
    return Finding(gains, "; ".join(ours) + names, "; ".join(theirs))


_TASKS = ("control/fish", "control/walker2d", "control/humanoid")
_EVERYWHERE = tuple(key for key in _WITHOUT if key != "no_truncation")
FIGURE = Figure(
    __name__,
    order=32,
    source="ACER, Figure 4",
    title="Figure 4 of ACER: ablations",
    text=(
        "Reproduces Figure 4 of Wang et al. 2017: ACER without the trust region, without stochastic dueling "
        "networks (a separate network for Q), without Retrace and Q_opc (both replaced by importance-sampled "
        "returns), and without truncation and bias correction (c infinite).",
        DEVIATIONS,
        ONE_SETTING,
    ),
    envs=_TASKS,
    methods={"acer_continuous": _WHOLE}
    | {
        key: Method(label, {**_WHOLE.settings, **change}, _WHOLE.total_steps, label)
        for key, (label, change) in _WITHOUT.items()
    },
    seeds=3,
    report=functools.partial(curves_report, published=published_ablations),
    published=published_ablations,
    claims=(
        Claim(
            "without trust region, SDN or Retrace ACER is worse",
            functools.partial(without, _EVERYWHERE, _TASKS),
            own_design,
        ),
        Claim(
            "without truncation it is worse on humanoid",
            functools.partial(without, ("no_truncation",), ("control/humanoid",)),
            own_design,
        ),
    ),
)
