"""Figure 1 of the ACER paper: median human-normalised score over Atari games, against frames and hours.

python -m acer_tf figure1_atari57 --plan
python -m acer_tf figure1_atari57 --games=atari5 --agents=replay4_trust,replay0 --total_steps=2_000_000
"""

import functools
import itertools

import numpy as np

from acer_tf.reproduction import atari, scores
from acer_tf.reproduction.curves import Axis, RecordedRuns, cumulative_maximum, hours_per_run
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method
from acer_tf.reproduction.published import figure1_by_frames, figure1_by_hours
from acer_tf.reproduction.report import output
from acer_tf.reproduction.report.output import Axes, Drawing, Report, Table
from acer_tf.reproduction.statistics import Estimate
from acer_tf.reproduction.verdicts import own_design

_STEPS = {0: 225_000_000, 1: 150_000_000, 4: 67_500_000, 8: 40_000_000}  # where the paper's curves end, by ratio
_PRIORITIZED = "Prioritized Double DQN"
_ATARI5 = (
    "Where the games are Atari-5's, the median over 57 games is estimated from them (Aitchison et al. 2022), with the "
    "95 % range of the truth when the method is left out of the fit; the fit is of medians from "
    f"{scores.FITTED[0]:.2f} to {scores.FITTED[1]:.0f}, and below that it is extrapolated."
)


def report(recorded: RecordedRuns) -> Report:
    """Medians over games against frames and hours, beside the published curves."""
    rows = []
    for key, method in recorded.methods.items():
        runs, row = recorded.by_env(key), [method.label, recorded.finished(key)]
        if not runs:
            rows.append([*row, "0 games", *[""] * 6])
            continue
        median = atari.medians(runs, "steps")
        frames, highest = atari.FRAMES_PER_STEP * median.points[-1], float(cumulative_maximum(median.values)[-1])
        published = atari.published_median(key, frames)
        row += [median.games, output.number(frames / 1e6, 1), output.number(float(median.values[-1]))]
        estimate = Estimate(highest, *(bound * highest for bound in median.interval))
        row += ["" if np.isnan(highest) else str(estimate), output.number(published)]
        row += [output.difference(highest, published) if median.of_57 else "", output.number(hours_per_run(runs), 1)]
        rows.append(row)
    head = "method, cells finished, median over, frames (M), median, cumulative maximum, published, difference, "
    head += "hours per run"
    table = Table(
        f"Median over games of the human-normalised {atari.TRAINING}, at the frames that all games have reached. "
        "Published: the cumulative maximum of the median over 57 games at the same frames, read off the figure; a "
        f"difference is given where ours is of 57 games too. {_ATARI5}",
        head.split(", "),
        rows,
    )
    figure, axes = output.panels(3)
    _draw_medians(axes[0], recorded, "steps", largest=True)
    _draw_medians(axes[1], recorded, "steps", largest=False)
    _draw_medians(axes[2], recorded, "seconds", largest=True)
    output.shared_legend(figure, axes)
    caption = (
        "Ours (lines) and the paper's (pale), over the games that have begun and as far as all of them have come. "
        "Left: cumulative maximum, as in the paper; middle: ours without it; right: hours of the machine that ran "
        f"them, the paper's on its own. Solid: with trust region; dotted: without. {_ATARI5}"
    )
    return Report({"table": table}, {"figure": Drawing(caption, figure)})


def _draw_medians(axes: Axes, recorded: RecordedRuns, axis: Axis, *, largest: bool) -> None:
    limit = 0.0
    for key, method in recorded.methods.items():
        if runs := recorded.by_env(key):
            median = atari.medians(runs, axis)
            x = median.points * atari.FRAMES_PER_STEP / 1e6 if axis == "steps" else median.points / 3600
            limit = max(limit, float(x[-1]))
            values = cumulative_maximum(median.values) if largest else median.values
            style = atari.style_of(atari.SHOWN[key])
            axes.plot(x, values, **style, linewidth=1.8, label=f"{method.label}, {median.games}")
            low, high = median.interval
            output.draw_band(axes, x, low * values, high * values, style["color"])
    end = 0.0
    for shown in (atari.SHOWN[key] for key in recorded.methods) if largest else ():  # the paper's are maxima
        if axis == "steps":
            x, published = figure1_by_frames()[shown].frames / 1e6, figure1_by_frames()[shown].median
        elif shown in figure1_by_hours():
            x, published = figure1_by_hours()[shown]
        else:
            continue
        axes.plot(x, published, **atari.style_of(shown), linewidth=1, alpha=0.35, label=f"{shown.label}, paper")
        end = max(end, float(x[-1]))
    unit = "frames (M)" if axis == "steps" else "hours"
    title = "cumulative maximum" if largest else "plain median"
    axes.set(xlabel=unit, ylabel="median human-normalised score", title=title)
    output.place_axis(axes, limit, end)
    axes.grid(alpha=0.25)


def more_replay(recorded: RecordedRuns) -> Finding:
    """Whether every step of the replay ratio is an improvement at equal frames, with trust region."""
    keys = [key for key in atari.WITH_TRUST if recorded.by_env(key)]
    games = recorded.shared(keys)
    if len(keys) < 2 or not games:
        return Finding(())
    score = atari.training_score_at_end
    gains = [recorded.improvement(more, less, score, games) for less, more in itertools.pairwise(keys)]
    found = [atari.medians({env: recorded.runs(key, env) for env in games}, "steps") for key in keys]
    steps = min(float(median.points[-1]) for median in found)
    ours = [float(np.interp(steps, median.points, cumulative_maximum(median.values))) for median in found]
    theirs = [atari.published_median(key, atari.FRAMES_PER_STEP * steps) for key in keys]
    where = f"{found[0].games}, {atari.FRAMES_PER_STEP * steps / 1e6:.0f}M frames, ratios {atari.ratios_of(keys)}"
    return Finding(gains, f"{output.numbers(ours)} ({where})", output.numbers(theirs))


FIGURE = Figure(
    __name__,
    order=10,
    source="ACER, Figure 1",
    title="Figure 1 of ACER: replay ratios on Atari",
    text=(
        "Figure 1 of Wang et al. 2017: ACER with replay ratios 0, 1, 4 and 8, with and without trust region, "
        "DQN, and prioritized Double DQN, on 57 Atari games. A game's score is the mean return of "
        "training over the last 1M frames; the curve is the cumulative maximum of its median over games. Four "
        "frames are one agent step.",
        atari.DEVIATIONS,
        "Which of the prioritized agents the paper shows is not said: ours is the proportional one.",
    ),
    envs=atari.ATARI57,
    methods={
        **atari.replay_ratio_methods({"preset": "paper"}, _STEPS),
        "dqn": Method("DQN", {"agent": "dqn", "preset": "dqn"}, atari.DQN_STEPS),
        "prioritized": Method(_PRIORITIZED, {"agent": "dqn", "preset": "ddqn_proportional"}, atari.DQN_STEPS),
    },
    report=report,
    claims=(
        Claim("more replay learns more per frame", more_replay, own_design),
        Claim(
            "the trust region gains more with more replay",
            functools.partial(atari.trust_region_gains, score=atari.training_score_at_end),
            own_design,
            "ACER, Section 4",
        ),
    ),
)
