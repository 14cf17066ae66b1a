"""The reports of Atari runs: Figure 1, and tables per game beside the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from acer_tf.reproduction import atari5
from acer_tf.reproduction.aggregation import (
    ATARI_WINDOW_STEPS,
    Axis,
    cumulative_maximum,
    equally_long,
    final_score,
    hours_per_run,
    reached,
    task_scores,
)
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.grids import ATARI57, FIGURE1, FRAMES_PER_STEP, table1_prioritized
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.published_medians import Figure1Method, dqn_zoo_medians, figure1_by_frames, figure1_by_hours
from acer_tf.reproduction.published_scores import published_agents, published_scores
from acer_tf.reproduction.report.figures import (
    Axes,
    dots,
    draw_band,
    learning_curves,
    panels,
    place_axis,
    shared_legend,
)
from acer_tf.reproduction.report.output import Drawing, Report
from acer_tf.reproduction.report.tables import Table, difference, mean_with_error, number
from acer_tf.reproduction.scores import Protocol, atari_references, human_normalized
from acer_tf.reproduction.statistics import Estimate, mean_and_error

_POINTS = 200
TABLE6_STEPS = 40_000_000 / FRAMES_PER_STEP
_TRAINING = "training score: mean of the games that ended in the last 1M frames, by the policy that explores"
_ATARI5 = (
    "Where the games are Atari-5's, the median over 57 games is estimated from them (Aitchison et al. 2022), with the "
    "95 % range of the truth when the method is left out of the fit; the fit is of medians from "
    f"{atari5.FITTED[0]:.2f} to {atari5.FITTED[1]:.0f}, and below that it is extrapolated."
)
# The published columns of the table by game.
_PRIORITIZED = ("Prioritized Double DQN (rank)", "Prioritized Double DQN (proportional)")
_COLUMNS: dict[Protocol, tuple[str, ...]] = {
    "no-op starts": ("DQN", "Double DQN", *_PRIORITIZED, "A3C", "Rainbow"),
    "human starts": ("A3C FF", "A3C LSTM", *_PRIORITIZED),
}
# The agent that each one of Table 1 is compared with.
_BASELINES = {"dqn_rank": "dqn", "ddqn_rank": "ddqn_tuned", "ddqn_proportional": "ddqn_tuned"}


def figure1(outcome: Outcome) -> Report:
    """The ACER paper's Figure 1: medians over games against frames and hours, beside the published curves."""
    rows = []
    for name, method in outcome.methods.items():
        runs, row = outcome.by_env(name), [method.label, outcome.finished(name)]
        if not runs:
            rows.append([*row, "0 games", *[""] * 6])
            continue
        median = medians(runs, "steps")
        frames, highest = FRAMES_PER_STEP * median.points[-1], float(cumulative_maximum(median.values)[-1])
        published = figure1_by_frames()[FIGURE1[name]].at(frames)
        row += [median.games, number(frames / 1e6, 1), number(float(median.values[-1]))]
        estimate = Estimate(highest, *(bound * highest for bound in median.interval))
        row += ["" if np.isnan(highest) else str(estimate), number(published)]
        row += [difference(highest, published) if median.of_57 else "", number(hours_per_run(runs), 1)]
        rows.append(row)
    head = "method, cells finished, median over, frames (M), median, cumulative maximum, published, difference, "
    head += "hours per run"
    table = Table(
        f"Median over games of the human-normalised {_TRAINING}, at the frames that all games have reached. Published: "
        "the cumulative maximum of the median over 57 games at the same frames, read off the figure; a difference is "
        f"given where ours is of 57 games too. {_ATARI5}",
        head.split(", "),
        rows,
    )
    figure, axes = panels(3)
    _draw_medians(axes[0], outcome, "steps", largest=True)
    _draw_medians(axes[1], outcome, "steps", largest=False)
    _draw_medians(axes[2], outcome, "seconds", largest=True)
    shared_legend(figure, axes)
    caption = (
        "Ours (lines) and the paper's (pale), over the games that have begun and as far as all of them have come. "
        "Left: cumulative maximum, as in the paper; middle: ours without it; right: hours of the machine that ran "
        f"them, the paper's on its own. Solid: with trust region; dotted: without. {_ATARI5}"
    )
    return Report({"table": table}, {"figure": Drawing(caption, figure)})


def table57(outcome: Outcome) -> Report:
    """Final scores per game beside the published columns."""
    published = [published_scores(agent, protocol) for protocol, agents in _COLUMNS.items() for agent in agents]
    theirs = [p.human_normalized(_games_in(outcome, p.scores)) for p in published]
    columns = {method.label: _final(outcome, name) for name, method in outcome.methods.items()}
    normalized = {label: _normalized(scores) for label, scores in columns.items()}
    blank = [""] * len(published)
    raw = _per_game(outcome, columns.values(), [p.scores for p in published])
    raw.append(["frames (M), least", *(_frames(outcome, name) for name in outcome.methods), *blank])
    raw.append(["cells finished", *(outcome.finished(name) for name in outcome.methods), *blank])
    human = _per_game(outcome, normalized.values(), theirs)
    human.append(["median over games", *map(_median_cell, (*map(_means, normalized.values()), *theirs))])
    head = ["game", *columns, *(f"{p.agent} ({p.protocol}, published)" for p in published)]
    raw_caption = (
        f"Raw scores per game. Ours: {_TRAINING}, mean ± standard error. Published: by the protocol that the column "
        "names."
    )
    human_caption = (
        "The same as fractions of human, each by the references of its own protocol; the last row is the median over "
        "the games in the column."
    )
    tables = {"table": Table(raw_caption, head, raw), "normalized": Table(human_caption, head, human)}
    ours = {label: _means(scores) for label, scores in normalized.items() if scores}
    pairs = zip(published, theirs, strict=True)
    no_op = {f"{p.agent} ({p.protocol})": scores for p, scores in pairs if p.protocol == "no-op starts"}
    caption = "Human-normalised scores: 0 plays like random, 1 like the human tester. Filled: ours; hollow: published."
    return Report(tables, {"figure": Drawing(caption, dots(_games(outcome), ours, no_op))})


def table49(outcome: Outcome) -> Report:
    """ACER and A3C at 40M frames beside the PPO paper's ACER, A2C and PPO."""
    published = {agent: published_scores(agent, "training") for agent in published_agents("training")}
    head, last, finished = ["game"], ["median over games, human-normalised"], ["cells finished"]
    rows = [[env.removeprefix("atari/")] for env in outcome.envs]
    for name, method in outcome.methods.items():
        label, theirs = method.label, published[method.published]
        with_curve = ["OpenAI baselines' ACER at equal frames"] if name == "acer" else []
        head += [label, f"{label}, frames (M)", f"{theirs.agent}, published at 40M", f"{label}, difference"]
        head += with_curve
        normalized = {}
        for env, row in zip(outcome.envs, rows, strict=True):
            # Longer runs count as they were at the published length.
            runs = equally_long([run.until(TABLE6_STEPS) for run in outcome.runs(name, env)])
            their = theirs.scores.get(row[0])
            ours, error = mean_and_error([run.mean_return[-1] for run in runs])
            if np.isfinite(ours):
                normalized[row[0]] = human_normalized(row[0], ours, protocol="training")
            steps = reached(runs) if runs else np.nan
            row += [mean_with_error(ours, error), number(FRAMES_PER_STEP * steps / 1e6, 1), number(their)]
            row.append(difference(ours, their) if steps >= 0.99 * TABLE6_STEPS else "")
            row += [number(next((c.at(steps) for c in published_curves(env)), None)) for _ in with_curve]
        same = theirs.human_normalized([game for game in normalized if game in theirs.scores])
        blank = [""] * len(with_curve)
        last += [_median_cell(normalized), "", _median_cell(same), "", *blank]
        finished += [outcome.finished(name), "", "", "", *blank]
    ppo = published["PPO"]
    head.append("PPO, published at 40M")
    rows = [[*row, number(ppo.scores.get(row[0]))] for row in rows]
    rows += [[*last, _median_cell(ppo.human_normalized(_games_in(outcome, ppo.scores)))], [*finished, ""]]
    table = Table(
        "Mean of the last 100 training games, mean over seeds ± standard error. Published: the PPO paper's Table 6, "
        "mean of the last 100 training games after 40M frames, 3 seeds; our A3C stands beside its A2C. A difference is "
        "given where ours has come as far; medians of ours and theirs are over the games that ours has, PPO's over all "
        "games of this table.",
        head,
        rows,
    )
    figure = learning_curves(
        outcome.by_label(), published_curves, labels={m.published: m.label for m in outcome.methods.values()}
    )
    for ax, env in zip(figure.axes, outcome.envs, strict=False):
        score = published["ACER"].scores.get(env.removeprefix("atari/"))
        far = max((run.steps[-1] for runs in outcome.by_method(env).values() for run in runs), default=0.0)
        # Early in training it would flatten the curves.
        if score is not None and far > TABLE6_STEPS / 8:
            ax.axhline(score, color="0.3", linestyle=":", linewidth=1)
    caption = (
        "Training curves; dashed: OpenAI baselines' ACER where they published a curve; horizontal dots: the PPO "
        "paper's ACER at 40M frames."
    )
    return Report({"table": table}, {"figure": Drawing(caption, figure)})


def table1(outcome: Outcome) -> Report:
    """The prioritized-replay paper's Table 1: medians, means, and games won, beside its own of the same games."""
    labels = {name: method.label for name, method in outcome.methods.items()}
    ours, same, whole = {}, {}, {}
    theirs = {
        name: published_scores(method.published, "human starts").human_normalized()
        for name, method in table1_prioritized().items()
    }
    for name, scores in theirs.items():
        # Table 1's games are those of the baseline: DQN was evaluated on 49.
        games = theirs[_BASELINES.get(name, name)]
        whole[name] = {game: score for game, score in scores.items() if game in games}
    for name in outcome.methods:
        ours[name] = _means(_normalized(_final(outcome, name)))
        same[name] = {game: score for game, score in whole[name].items() if game in ours[name]}
    rows = []
    for name, label in labels.items():
        rows.append([label, "ours", outcome.finished(name), _frames(outcome, name), *_summary(name, ours)])
        rows.append([label, "published, the same games", "", "200.0", *_summary(name, same)])
        rows.append([label, "published, all games", "", "200.0", *_summary(name, whole)])
    head = ["agent", "whose", "cells finished", "frames (M), least", "games", "median", "mean", "> baseline", "> human"]
    caption = (
        f"Human-normalised scores, 1 is human. Ours: {_TRAINING}, normalised by no-op references. Published: "
        "evaluations of the best agent from human starts, normalised by their own references."
    )
    columns = {f"{labels[name]}, ours": scores for name, scores in ours.items()}
    columns |= {f"{label}, published": whole[name] for name, label in labels.items()}
    by_game = Table("The same by game.", ["game", *columns], _per_game(outcome, (), columns.values()))
    tables = {"table": Table(caption, head, rows), "games": by_game}
    figure, (axes,) = panels(1)
    for place, (name, label) in enumerate(labels.items()):
        if runs := outcome.by_env(name):
            median = medians(runs, "steps")
            x = FRAMES_PER_STEP * median.points / 1e6
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


def _summary(name: str, normalized: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Games, median, mean, games above the baseline and above human."""
    mine = normalized[name]
    if not mine:
        return ["0", "", "", "", ""]
    values = list(mine.values())
    baseline = normalized.get(_BASELINES.get(name, ""), {})
    better = [mine[game] > baseline[game] for game in mine if game in baseline]
    won = f"{sum(better)} of {len(better)}" if better else ""
    middle, mean = number(float(np.median(values))), number(float(np.mean(values)))
    return [str(len(mine)), middle, mean, won, str(sum(value > 1 for value in values))]


def _frames(outcome: Outcome, name: str) -> str:
    """Where the shortest run of a method ends, in millions of frames."""
    runs = [run for seeds in outcome.by_env(name).values() for run in seeds]
    return number(FRAMES_PER_STEP * reached(runs) / 1e6, 1) if runs else ""


def normalize(env: str, score: float) -> float:
    """The human-normalised training score: 0 is random play, 1 is human; `env` as in "atari/Pong"."""
    return human_normalized(env, score, protocol="training")


class Medians(NamedTuple):
    """The median over 57 games, estimated if the games are Atari-5's; else over the games there are."""

    points: np.ndarray  # [G] steps or seconds, up to the end of the shortest run
    values: np.ndarray  # [G]
    games: str  # "3 games", or "57 games estimated from 5"
    of_57: bool  # whether it is the paper's quantity
    interval: tuple[float, float]  # that of an estimate, as multiples of it; else NaN


def medians(runs: Mapping[str, list[RunCurve]], axis: Axis) -> Medians:
    """The median over the games of `runs`, which are by environment, against steps or seconds."""
    points = np.linspace(0.0, min(reached(seeds, axis) for seeds in runs.values()), _POINTS)
    scores = task_scores(runs, points, ATARI_WINDOW_STEPS, normalize, axis)
    if atari5.applies(runs):
        estimate = atari5.estimate(list(runs), scores)
        return Medians(points, estimate, f"57 games estimated from {len(runs)}", True, atari5.INTERVAL)
    # NaN where a game has no score: the median of the others would be another quantity.
    values, whole = np.median(scores, axis=0), len(runs) == len(ATARI57)
    return Medians(points, values, games_of(len(runs)), whole, (np.nan, np.nan))


def games_of(count: int) -> str:
    return f"{count} game{'s' * (count != 1)}"


def _draw_medians(axes: Axes, outcome: Outcome, axis: Axis, *, largest: bool) -> None:
    limit = 0.0
    for name, method in outcome.methods.items():
        if runs := outcome.by_env(name):
            median = medians(runs, axis)
            x = median.points * FRAMES_PER_STEP / 1e6 if axis == "steps" else median.points / 3600
            limit = max(limit, float(x[-1]))
            values = cumulative_maximum(median.values) if largest else median.values
            style = _style(FIGURE1[name])
            axes.plot(x, values, **style, linewidth=1.8, label=f"{method.label}, {median.games}")
            low, high = median.interval
            draw_band(axes, x, low * values, high * values, style["color"])
    end = 0.0
    for shown in (FIGURE1[name] for name in outcome.methods):
        if axis == "steps":
            x, published = figure1_by_frames()[shown].frames / 1e6, figure1_by_frames()[shown].median
        elif shown in figure1_by_hours():
            x, published = figure1_by_hours()[shown]
        else:
            continue
        axes.plot(x, published, **_style(shown), linewidth=1, alpha=0.35)
        end = max(end, float(x[-1]))
    unit = "frames (M)" if axis == "steps" else "hours"
    title = "cumulative maximum" if largest else "plain median"
    axes.set(xlabel=unit, ylabel="median human-normalised score", title=title)
    place_axis(axes, limit, end)
    axes.grid(alpha=0.25)


def _style(method: Figure1Method) -> dict[str, Any]:
    """One colour per replay ratio; dotted without a trust region."""
    if method.replay_ratio is None:
        return {"color": "black" if method.agent == "DQN" else "0.5", "linestyle": "-"}
    colours = {0: "C3", 1: "C0", 4: "C2", 8: "C1"}
    return {"color": colours[method.replay_ratio], "linestyle": "-" if method.trust_region else ":"}


def _games(outcome: Outcome) -> list[str]:
    return sorted(env.removeprefix("atari/") for env in outcome.envs)


def _games_in(outcome: Outcome, scores: Mapping[str, float]) -> list[str]:
    return [game for game in _games(outcome) if game in scores]


def _final(outcome: Outcome, name: str) -> dict[str, tuple[float, float]]:
    """Mean over seeds and standard error of the final training score, by game; games without a score are absent."""
    found = {}
    for env, runs in outcome.by_env(name).items():
        mean, error = mean_and_error([final_score(run, ATARI_WINDOW_STEPS) for run in equally_long(runs)])
        if np.isfinite(mean):
            found[env.removeprefix("atari/")] = mean, error
    return found


def _normalized(scores: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Means and standard errors as fractions of human."""
    found = {}
    for game, (mean, error) in scores.items():
        random, human = atari_references("training")[game]
        found[game] = normalize(game, mean), error / abs(human - random)
    return found


def _means(scores: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    return {game: mean for game, (mean, _) in scores.items()}


def _median_cell(normalized: Mapping[str, float]) -> str:
    return f"{number(float(np.median(list(normalized.values()))))} ({games_of(len(normalized))})" if normalized else ""


def _per_game(
    outcome: Outcome, ours: Iterable[Mapping[str, tuple[float, float]]], published: Iterable[Mapping[str, float]]
) -> list[list[str]]:
    """A row per game: our means with standard errors, then the published scores."""
    rows = [[game] for game in _games(outcome)]
    for row in rows:
        row += [mean_with_error(*scores.get(row[0], (np.nan, np.nan))) for scores in ours]
        row += [number(scores.get(row[0])) for scores in published]
    return rows
