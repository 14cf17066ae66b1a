"""Figure 4 of the ACER paper: continuous ACER without one of its parts, on fish, walker2d and humanoid.

python -m acer_tf figure4_ablation --tasks=walker2d --total_steps=3_000_000 --seeds=1
"""

import functools
import itertools
import math
from typing import Any

from acer_tf.figures.figure3_continuous import METHODS as FIGURE3_METHODS
from acer_tf.reproduction.control import DEVIATIONS, ONE_SETTING, curves_report, returns_at_end
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.published import published_ablations
from acer_tf.reproduction.verdicts import most, own_design

_WHOLE = FIGURE3_METHODS["acer_continuous"]
_WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {
    "no_trust_region": ("no trust region", {"trust_region_delta": math.inf}),
    "no_sdn": ("no SDN", {"dueling": False}),
    "no_retrace": ("no Retrace and no Q_opc", {"retrace": False}),
    "no_truncation": ("no truncation and bias correction", {"importance_truncation": math.inf}),
}


def every_part(recorded: RecordedRuns) -> Finding:
    """Whether the return is lower without most of the parts."""
    ours, theirs, higher = [], [], []
    for env, (key, method) in itertools.product(recorded.envs, recorded.methods.items()):
        published = returns_at_end(published_ablations(env))
        if (scores := recorded.compared(env, [key, "acer_continuous"])) and scores[0] != scores[1]:
            ours.append(scores[0] < scores[1])
            theirs.append(published[method.published] < published[_WHOLE.published])
            if not ours[-1]:
                higher.append(f"{method.label} on {env.rpartition('/')[2]}")
    without = f"{sum(ours)} of {len(ours)} are lower" + (f"; higher: {', '.join(higher)}" if higher else "")
    return Finding(most(ours), without, f"{sum(theirs)} of these at its end")


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
    envs=("control/fish", "control/walker2d", "control/humanoid"),
    methods={"acer_continuous": _WHOLE}
    | {
        key: Method(label, {**_WHOLE.settings, **change}, _WHOLE.total_steps, label)
        for key, (label, change) in _WITHOUT.items()
    },
    seeds=3,
    report=functools.partial(curves_report, published=published_ablations),
    published=published_ablations,
    claims=(Claim("without one of its parts ACER is worse", every_part, own_design),),
)
