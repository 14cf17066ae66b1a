"""Table 1 of the prioritized-replay paper: median and mean human-normalised scores of DQN's family.

python -m acer_tf table1_prioritized --games=atari5 --agents=ddqn_tuned,ddqn_proportional --total_steps=5_000_000
"""

from collections.abc import Mapping

import numpy as np

from acer_tf.reproduction import atari
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.published import dqn_zoo_medians
from acer_tf.reproduction.report.output import Drawing, Report, Table, draw_band, number, numbers, panels
from acer_tf.reproduction.scores import published_scores
from acer_tf.reproduction.verdicts import own_design
from acer_tf.settings.presets import PRESETS

_AGENTS = {
    "dqn": "DQN",
    "dqn_rank": "Prioritized DQN (rank)",
    "ddqn_tuned": "Double DQN",
    "ddqn_rank": "Prioritized Double DQN (rank)",
    "ddqn_proportional": "Prioritized Double DQN (proportional)",
}
# The agent that each one of Table 1 is compared with.
_BASELINES = {"dqn_rank": "dqn", "ddqn_rank": "ddqn_tuned", "ddqn_proportional": "ddqn_tuned"}


def report(recorded: RecordedRuns) -> Report:
    """Medians, means, and games won, beside the paper's own of the same games."""
    labels = {key: method.label for key, method in recorded.methods.items()}
    theirs = {key: published_scores(agent, "human starts").human_normalized() for key, agent in _AGENTS.items()}
    # Table 1's games are those of the baseline: DQN was evaluated on 49.
    games = {key: theirs[_BASELINES.get(key, key)] for key in theirs}
    whole = {key: {game: s for game, s in scores.items() if game in games[key]} for key, scores in theirs.items()}
    ours = {key: atari.means(atari.normalized(atari.final_scores(recorded, key))) for key in recorded.methods}
    same = {key: {game: s for game, s in whole[key].items() if game in ours[key]} for key in ours}
    rows = []
    for key, label in labels.items():
        done = [recorded.finished(key), atari.frames_done(recorded, key)]
        rows.append([label, "ours", *done, *_summary(key, ours)])
        rows.append([label, "published, the same games", "", "200.0", *_summary(key, same)])
        rows.append([label, "published, all games", "", "200.0", *_summary(key, whole)])
    head = ["agent", "whose", "cells finished", "frames (M), least", "games", "median", "mean", "> baseline", "> human"]
    caption = (
        f"Human-normalised scores, 1 is human. Ours: {atari.TRAINING}, normalised by no-op references. Published: "
        "evaluations of the best agent from human starts, normalised by their own references."
    )
    columns = {f"{labels[key]}, ours": scores for key, scores in ours.items()}
    columns |= {f"{label}, published": whole[key] for key, label in labels.items()}
    by_game = Table("The same by game.", ["game", *columns], atari.rows_by_game(recorded, (), columns.values()))
    tables = {"table": Table(caption, head, rows), "games": by_game}
    figure, (axes,) = panels(1)
    for place, (key, label) in enumerate(labels.items()):
        if runs := recorded.by_env(key):
            median = atari.medians(runs, "steps")
            x = atari.FRAMES_PER_STEP * median.points / 1e6
            axes.plot(x, median.values, color=f"C{place}", label=f"{label}, {median.games}")
    limit = axes.get_xlim()[1] if axes.lines else 200.0
    for colour, agent in (("C5", "DQN"), ("C6", "Double DQN"), ("C7", "Prioritized DQN")):
        curve = dqn_zoo_medians()[agent]
        axes.plot(curve.frames / 1e6, curve.median, "--", color=colour, linewidth=1, label=f"{agent}, DQN Zoo")
        if curve.low is not None and curve.high is not None:
            draw_band(axes, curve.frames / 1e6, curve.low, curve.high, colour)
    axes.set(xlabel="frames (M)", ylabel="median human-normalised score", xlim=(0, limit))
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small")
    drawn = "Median over the games that have begun; dashed: DQN Zoo's, over 57 games, evaluated from no-op starts."
    return Report(tables, {"figure": Drawing(drawn, figure)})


def _summary(key: str, normalized: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Games, median, mean, games above the baseline and above human."""
    mine = normalized[key]
    if not mine:
        return ["0", "", "", "", ""]
    values = list(mine.values())
    baseline = normalized.get(_BASELINES.get(key, ""), {})
    better = [mine[game] > baseline[game] for game in mine if game in baseline]
    won = f"{sum(better)} of {len(better)}" if better else ""
    middle, mean = number(float(np.median(values))), number(float(np.mean(values)))
    return [str(len(mine)), middle, mean, won, str(sum(value > 1 for value in values))]


def priorities(recorded: RecordedRuns) -> Finding:
    """Whether both kinds of priorities are an improvement of Double DQN."""
    keys = [key for key in ("ddqn_tuned", "ddqn_rank", "ddqn_proportional") if recorded.by_env(key)]
    games = recorded.shared(keys)
    score = atari.training_score_at_end
    gains = [recorded.improvement(key, "ddqn_tuned", score) for key in ("ddqn_rank", "ddqn_proportional")]
    scores = {env: row for env in games if (row := recorded.compared(env, keys, score))}
    if not scores:
        return Finding(gains)
    normalized = [[atari.normalize(env, value) for value in row] for env, row in scores.items()]
    medians = np.median(normalized, axis=0).tolist()
    labels = ", ".join(recorded.methods[key].label for key in keys)
    theirs = [published_scores(_AGENTS[key], "human starts").median() for key in keys]
    where = f"{atari.games_of(len(scores))} ({labels})"
    return Finding(gains, f"{numbers(medians)} over {where}", f"{numbers(theirs)} over 57")


FIGURE = Figure(
    __name__,
    order=60,
    source="PER, Table 1",
    title="Table 1 of prioritized experience replay",
    text=(
        "Reproduces Table 1 of Schaul et al. 2016: DQN with uniform and rank-based replay, Double DQN with "
        "uniform, rank-based and proportional replay, 200M frames. The published columns are recomputed from the "
        "paper's scores by game, over the games of ours and over all of the paper's (49 for DQN, else 57).",
        "Deviations: ours are training scores of the last 1M frames under the exploring policy, normalised by "
        "no-op references; the paper evaluates the best agent of each run from human starts, which are not public.",
    ),
    envs=atari.ATARI57,
    # The priorities are the preset's; named here, --setting cannot change them.
    methods={
        key: Method(
            agent,
            {"agent": "dqn", "preset": key, "replay_priority": PRESETS[key].get("replay_priority", "uniform")},
            atari.DQN_STEPS,
            agent,
        )
        for key, agent in _AGENTS.items()
    },
    report=report,
    claims=(Claim("priorities raise the median over 57 games", priorities, own_design),),
)
