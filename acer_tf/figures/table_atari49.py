"""ACER and A3C after 40M frames beside ACER, A2C and PPO of the PPO paper: the only table of 49 games.

python -m acer_tf table_atari49 --games=Pong,Breakout --total_steps=20_000 --seeds=2 --setting=replay_start=200
python -m acer_tf table_atari49 --games=openai7 --agents=acer
"""

import numpy as np

from acer_tf.reproduction.atari import FRAMES_PER_STEP, games_of, median_of, normalize
from acer_tf.reproduction.curves import RecordedRuns, last_return, reached, whole_matrix
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report import output
from acer_tf.reproduction.report.output import Drawing, Report, Table
from acer_tf.reproduction.scores import GAME_SETS, published_agents, published_scores
from acer_tf.reproduction.statistics import Comparison, compare
from acer_tf.reproduction.verdicts import own_design

_STEPS = 40_000_000 // FRAMES_PER_STEP
_CLOSE = 0.1  # medians of human-normalised scores that count as the same


def report(recorded: RecordedRuns) -> Report:
    """ACER and A3C at 40M frames beside the PPO paper's ACER, A2C and PPO."""
    published = {agent: published_scores(agent, "training") for agent in published_agents("training")}
    head, last, finished = ["game"], ["median over games, human-normalised"], ["cells finished"]
    rows = [[env.removeprefix("atari/")] for env in recorded.envs]
    for key, method in recorded.methods.items():
        label, theirs = method.label, published[method.published]
        with_curve = ["OpenAI baselines' ACER at equal frames"] if key == "acer" else []
        head += [label, f"{label}, frames (M)", f"{theirs.agent}, published at 40M", f"{label}, difference"]
        head += with_curve
        normalized = {}
        for env, row in zip(recorded.envs, rows, strict=True):
            # Longer runs count as they were at the published length.
            steps, ours, error = recorded.result(key, env, last_return, _STEPS)
            their = theirs.scores.get(row[0])
            if np.isfinite(ours):
                normalized[row[0]] = normalize(env, ours)
            frames = output.number(FRAMES_PER_STEP * steps / 1e6, 1)
            row += [output.mean_with_error(ours, error), frames, output.number(their)]
            row.append(output.difference(ours, their) if steps >= 0.99 * _STEPS else "")
            row += [", ".join(output.number(curve.at(steps)) for curve in published_curves(env)) for _ in with_curve]
        same = theirs.human_normalized([game for game in normalized if game in theirs.scores])
        blank = [""] * len(with_curve)
        last += [median_of(normalized), "", median_of(same), "", *blank]
        finished += [recorded.finished(key), "", "", "", *blank]
    ppo = published["PPO"]
    head.append("PPO, published at 40M")
    rows = [[*row, output.number(ppo.scores.get(row[0]))] for row in rows]
    of_ppo = ppo.human_normalized(sorted(row[0] for row in rows if row[0] in ppo.scores))
    rows += [[*last, median_of(of_ppo)], [*finished, ""]]
    table = Table(
        "Mean of the last 100 training games, mean over seeds ± standard error. Published: the PPO paper's Table 6, "
        "mean of the last 100 training games after 40M frames, 3 seeds; our A3C stands beside its A2C. A difference is "
        "given where ours has come as far; medians of ours and theirs are over the games that ours has, PPO's over all "
        "games of this table.",
        head,
        rows,
    )
    labels = {method.published: method.label for method in recorded.methods.values()}
    figure = output.learning_curves(recorded.by_label(), published_curves, labels=labels)
    for ax, env in zip(figure.axes, recorded.envs, strict=False):
        score = published["ACER"].scores.get(env.removeprefix("atari/"))
        far = max((run.steps[-1] for runs in recorded.by_method(env).values() for run in runs), default=0.0)
        # Early in training it would flatten the curves.
        if score is not None and far > _STEPS / 8:
            ax.axhline(score, color="0.3", linestyle=":", linewidth=1)
    caption = (
        "Training curves; dashed: OpenAI baselines' ACER where they published a curve; horizontal dots: the PPO "
        "paper's ACER at 40M frames."
    )
    return Report({"table": table}, {"figure": Drawing(caption, figure)})


def published_median(recorded: RecordedRuns) -> Finding:
    """Whether ACER's median over the published games is within 0.1 of the published one, after as many frames."""
    published = published_scores("ACER", "training")
    envs = [env for env in recorded.by_env("acer") if env.removeprefix("atari/") in published.scores]
    runs = {env: [run.until(_STEPS) for run in recorded.runs("acer", env)] for env in envs}
    # The mean of the last 100 games after 40M frames, as there; no game has ended in runs that have no score.
    known = {env: seeds for env, seeds in runs.items() if np.isfinite([last_return(run) for run in seeds]).all()}
    rows = whole_matrix(known)
    if not rows:
        return Finding(())
    scores = np.array([[normalize(run.env, last_return(run)) for run in row] for row in rows])
    theirs = published.median(env.removeprefix("atari/") for env in known)
    ours = f"median {_median(scores):.2f} over {games_of(len(known))}"
    short = min(map(reached, rows)) < 0.99 * _STEPS
    if short or len(rows) < 2:
        needs = "runs of 40M frames" if short else "2 seeds"
        return Finding([Comparison(needs=needs)], ours, f"{theirs:.2f} over the same")
    both = [  # neither far below nor far above
        compare(lambda x: _median(x) - theirs + _CLOSE, scores, even=0.0, what=f"median above theirs less {_CLOSE}"),
        compare(lambda x: theirs + _CLOSE - _median(x), scores, even=0.0, what=f"median below theirs plus {_CLOSE}"),
    ]
    return Finding(both, ours, f"{theirs:.2f} over the same")


def _median(scores: np.ndarray) -> float:
    """Over games, of the mean over seeds."""
    return float(np.median(scores.mean(axis=0)))


FIGURE = Figure(
    __name__,
    order=50,
    source="PPO, Table 6",
    title="ACER and A3C on 49 Atari games",
    text=(
        "Beside Table 6 of Schulman et al. 2017 (PPO), whose ACER is OpenAI baselines': 49 games, 40M frames (10M "
        "agent steps), mean of the last 100 training games, 3 seeds. Preset baselines has the settings of that "
        "code.",
        "Deviations: the published runs used NoFrameskip environments with up to 30 no-ops and ended a return at "
        "a lost life; ours are the emulator's vector environments with the same preprocessing. Our A3C is ACER at "
        "replay ratio 0 without trust region, on 16 environments in lockstep; it is compared with the PPO "
        "paper's A2C.",
    ),
    envs=tuple(f"atari/{game}" for game in GAME_SETS["atari49"]),
    methods={
        "acer": Method("ACER", {"agent": "acer", "preset": "baselines"}, _STEPS, "ACER"),
        "a3c": Method("A3C", {"agent": "a3c", "preset": "baselines"}, _STEPS, "A2C"),
    },
    seeds=3,
    report=report,
    claims=(Claim("ACER's median over 49 games after 40M frames", published_median, own_design),),
)
