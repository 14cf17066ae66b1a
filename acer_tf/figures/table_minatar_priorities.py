"""Prioritized replay on MinAtar: Double DQN and ACER, each with uniform, proportional and rank-based replay.

python -m acer_tf table_minatar_priorities --processes=2
python -m acer_tf table_minatar_priorities --report_only
"""

import functools

from acer_tf.reproduction import minatar
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import OTHER_TASKS, Claim, Figure, Finding, Method
from acer_tf.reproduction.report.output import numbers
from acer_tf.reproduction.scores import published_scores
from acer_tf.reproduction.verdicts import own_design
from acer_tf.settings.presets import PRESETS

# Each with priorities against the same agent's uniform replay.
_AGAINST = {f"{agent}_{kind}": agent for agent in ("ddqn", "acer") for kind in ("proportional", "rank")}
_EXPONENTS_OF_RANK = ("priority_exponent", "importance_exponent")


def methods() -> dict[str, Method]:
    """Double DQN and ACER, each with uniform, proportional and rank-based replay."""
    acer = minatar.acer_methods()["replay4_trust"]
    found = {**minatar.dqn_methods(), "acer": acer}
    rank = {name: PRESETS["ddqn_rank"][name] for name in _EXPONENTS_OF_RANK}
    for kind, exponents in {"proportional": {}, "rank": rank}.items():
        prioritized = {**acer.settings, "replay_priority": kind, **exponents}
        found[f"acer_{kind}"] = Method(f"ACER, prioritized trajectories ({kind})", prioritized, minatar.STEPS)
    return found


def priorities(recorded: RecordedRuns) -> Finding:
    """Whether both kinds of priorities are an improvement of Double DQN."""
    kinds = ("rank", "proportional")
    gains = [recorded.improvement(f"ddqn_{kind}", "ddqn", minatar.score) for kind in kinds]
    agents = ("Double DQN", *(f"Prioritized Double DQN ({kind})" for kind in kinds))
    theirs = [published_scores(agent, "human starts").median() for agent in agents]
    return Finding(
        gains,
        f"{numbers([gain.estimate.value for gain in gains])} (a run beats a uniform one, {', '.join(kinds)})",
        f"{numbers(theirs)} (medians on Atari: uniform, {', '.join(kinds)})",
    )


FIGURE = Figure(
    __name__,
    order=61,
    source="PER, Table 1, on MinAtar",
    title="Prioritized replay on MinAtar",
    text=(
        "Double DQN with uniform, proportional and rank-based replay (Schaul et al. 2016: a quarter of the "
        "learning rate with priorities), and ACER with the same for its trajectories, which is this package's "
        "extension; five games, a million steps, three seeds.",
        "Nothing of this was published: scores are normalised by random play and by ACER with replay 4 and trust "
        "region. DQN's replay start, memory, exploration and target period are Atari's, shortened for runs of a "
        "million steps.",
    ),
    kind=OTHER_TASKS,
    envs=minatar.MINATAR,
    methods=methods(),
    seeds=3,
    report=functools.partial(minatar.report, against=_AGAINST),
    claims=(Claim("priorities help Double DQN", priorities, own_design),),
)
