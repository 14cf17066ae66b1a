r"""Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.

python -m acer_tf figure3_continuous --plan
python -m acer_tf figure3_continuous --processes=2 --output=runs/figure3
python -m acer_tf figure3_continuous --tasks=walker2d --seeds=1 --total_steps=3_000_000 --skip_recorded \
    --setting=log_interval=30_000
"""

import functools
import itertools
from collections.abc import Mapping, Sequence

from acer_tf.reproduction import control
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report.output import span
from acer_tf.reproduction.verdicts import own_design

METHODS = {
    agent: Method(label, {"agent": agent, "preset": "paper_continuous"}, steps, label)
    for agent, label, steps in (
        ("acer_continuous", "ACER", control.REPLAY_STEPS),
        ("trust_tis", "Trust-TIS", control.REPLAY_STEPS),
        ("tis", "TIS", control.REPLAY_STEPS),
        ("trust_a3c", "Trust-A3C", control.ON_POLICY_STEPS),
        ("a3c", "A3C", control.ON_POLICY_STEPS),
    )
}


def better_in(pairs: Sequence[tuple[str, str]], recorded: RecordedRuns) -> Finding:
    """Whether the first method of each pair is better than the second, in the tasks that all of them have begun."""
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    envs = recorded.shared(keys)
    if not envs:
        return Finding(())
    ours, theirs = 0, 0
    for env, (better, worse) in itertools.product(envs, pairs):
        scores, published = recorded.compared(env, [better, worse]), control.returns_at_end(published_curves(env))
        ours += bool(scores) and scores[0] > scores[1]
        theirs += published[METHODS[better].published] > published[METHODS[worse].published]
    count = len(envs) * len(pairs)
    lengths = f"{_millions(control.REPLAY_STEPS, envs)} steps (A3C's {_millions(control.ON_POLICY_STEPS, envs)})"
    return Finding(
        [recorded.improvement(*pair, envs=envs) for pair in pairs],
        f"{ours} of {count} pairs of means ({', '.join(env.rpartition('/')[2] for env in envs)}, at the same steps)",
        f"{theirs} of {count} at {lengths}",
        f"compared: {len(envs)} tasks" if len(envs) < len(recorded.envs) else "",
    )


def _millions(lengths: Mapping[str, int], envs: Sequence[str]) -> str:
    """The range of the lengths of some tasks: "9–124M"."""
    return f"{span([lengths[env] / 1e6 for env in envs], '.0f')}M"


HELPS = (("trust_tis", "tis"), ("trust_a3c", "a3c"))
BETTER = "TIS and A3C are better with the trust region"
_LEADS = tuple(("acer_continuous", key) for key in METHODS if key != "acer_continuous")
FIGURE = Figure(
    __name__,
    order=30,
    source="ACER, Figure 3",
    title="Figure 3 of ACER: continuous control",
    text=(
        "Reproduces Figure 3 of Wang et al. 2017: five methods on six MuJoCo tasks with episodes of 500 steps; "
        "A3C's variants get twice the steps, as there.",
        control.DEVIATIONS,
        control.ONE_SETTING,
    ),
    envs=control.TASKS,
    methods=METHODS,
    seeds=3,
    report=control.curves_report,
    claims=(
        Claim("ACER leads the others on average over six tasks", functools.partial(better_in, _LEADS), own_design),
        Claim(BETTER, functools.partial(better_in, HELPS), own_design),
    ),
)
