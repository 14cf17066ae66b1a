"""What figures on MinAtar share: games and settings, normalised scores, comparisons of methods, and the report."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import LogLocator

from acer_tf.envs.families import MINATAR_GAMES
from acer_tf.reproduction import curves, statistics
from acer_tf.reproduction.atari import RATIOS, SHOWN, replay_ratio_methods, style_of
from acer_tf.reproduction.curves import Axis, RecordedRuns, RunCurve
from acer_tf.reproduction.figure import Method
from acer_tf.reproduction.published import read_table
from acer_tf.reproduction.report import output
from acer_tf.reproduction.report.output import Axes, Drawing, Report, Table
from acer_tf.settings.presets import PRESETS

MINATAR = tuple(f"minatar/{game}" for game in MINATAR_GAMES)
STEPS = 1_000_000
WINDOW_STEPS = 100_000  # frames, too
_POINTS = 60
_DQN = {
    "agent": "dqn",
    "num_envs": 16,
    "replay_start": 320,
    "replay_capacity": 6_250,
    "exploration_steps": 100_000,
    "target_period": 4_000,
}


def acer_methods(base: Mapping[str, Any] | None = None) -> dict[str, Method]:
    """ACER with each replay ratio, over the settings `base`, by default those of preset minatar over baselines'."""
    # The first runs were recorded under the name of baselines.
    return replay_ratio_methods(base or {"preset": "baselines", **PRESETS["minatar"]}, dict.fromkeys(RATIOS, STEPS))


def dqn_methods() -> dict[str, Method]:
    """Double DQN with uniform, proportional and rank-based replay."""
    agents = {"ddqn": ("Double DQN", "ddqn_tuned")} | {
        f"ddqn_{kind}": (f"Prioritized Double DQN ({kind})", f"ddqn_{kind}") for kind in ("proportional", "rank")
    }
    # The records are of runs before presets had what an author of PER names, 0.01.
    settings = {**_DQN, "priority_epsilon": 1e-6}
    return {key: Method(label, {**settings, "preset": preset}, STEPS) for key, (label, preset) in agents.items()}


class MinatarReference(NamedTuple):
    random: float
    reference: float


@functools.cache
def minatar_references() -> Mapping[str, MinatarReference]:
    """By game ("breakout"): the returns of random play and of the policy that counts as 1 (see the data file)."""
    return {game: MinatarReference(*row) for game, *row in read_table("minatar_references.csv").to_numpy().tolist()}


def normalize(env: str, score: float) -> float:
    """0 is random play, 1 ACER (replay 4, trust region) after a million steps; `env` as in "minatar/breakout"."""
    random, reference = minatar_references()[env.removeprefix("minatar/")]
    return (score - random) / (reference - random)


def report(recorded: RecordedRuns, against: Mapping[str, str]) -> Report:
    """Tables and figures of any methods on MinAtar; `against` gives the method that each one is compared with."""
    figure, axes = output.panels(2, columns=2, width=6.0, height=4.5)
    _draw_means(axes[0], recorded, "steps")
    _draw_means(axes[1], recorded, "seconds")
    output.shared_legend(figure, axes)
    styles = {recorded.methods[key].label: style for key, style in _styles(recorded).items()}
    drawn = (
        "Interquartile mean over games and seeds of the normalised training score, with 95 % intervals, as far as all "
        "runs of a method have come: against steps, and hours of the machine that ran them, where a curve ends with "
        "the fastest run, before the last value against steps."
    )
    if any(line == ":" for _, line in styles.values()):
        drawn += " Dotted: without trust region."
    games = output.learning_curves(recorded.by_label(), lambda env: [], styles=styles)
    games_drawn = Drawing("Training curves by game, means over seeds with standard errors.", games)
    return Report(tables(recorded, against), {"figure": Drawing(drawn, figure), "games": games_drawn})


def tables(recorded: RecordedRuns, against: Mapping[str, str]) -> dict[str, Table]:
    """The table of normalised scores, and that of raw scores by game."""
    labels = {key: method.label for key, method in recorded.methods.items()}
    rows = []
    for key in recorded.methods:
        runs, row = recorded.by_env(key), [labels[key], recorded.finished(key)]
        if not (found := finals(recorded, [key])):
            rows.append([*row, str(len(runs)), *[""] * 7])
            continue
        (scores,) = found
        compared = against.get(key, "")
        gain = str(recorded.improvement(key, compared, score))
        steps = compared_steps(recorded, [key])
        row += [f"{scores.shape[1]} of {len(recorded.envs)}", str(len(scores)), f"{steps:,.0f}"]
        row += [str(statistics.interquartile_mean(scores)), str(statistics.median(scores)), labels.get(compared, "")]
        rows.append([*row, gain, output.number(curves.hours_per_run(runs))])
    head = (
        "method; cells finished; games; seeds; steps, all runs; interquartile mean [95 %]; median [95 %]; "
        "compared with; probability of improvement [95 %]; hours per run"
    )
    shown = "mean of the games that ended in the last 100,000 steps, by the policy that explores"
    caption = (
        f"Normalised training score ({shown}): 0 is random play, 1 is ACER with replay 4 and trust region at 1M steps. "
        "Interquartile mean over games and seeds, with rliable's stratified bootstrap; the probability that a run "
        "beats one of the method that it is compared with where the shorter of the two ends, mean over games, with the "
        "p of the exact permutation test of the runs within each game."
    )
    by_game = (
        f"Raw training score by game ({shown}): mean ± standard error over seeds, and interquartile mean with its "
        f"bootstrap's interval: {statistics.RANGES}."
    )
    game_rows = [_game_row(recorded, env) for env in recorded.envs]
    games_table = Table(by_game, ["game", "random", *labels.values()], game_rows)
    return {"table": Table(caption, head.split("; "), rows), "games": games_table}


def finals(recorded: RecordedRuns, methods: Sequence[str]) -> list[np.ndarray]:
    """Each method's normalised scores, [seeds, games], where the shortest run of all ends; [] without any."""
    end = compared_steps(recorded, methods)
    return recorded.scores(methods, lambda run: normalize(run.env, score(run.until(end))))


def score(run: RunCurve) -> float:
    """The training score at the end of a run, of the last 100,000 steps."""
    return curves.final_score(run, WINDOW_STEPS)


def compared_steps(recorded: RecordedRuns, methods: Sequence[str]) -> float:
    """Where the shortest run of those that `finals` compares ends; 0 without any."""
    rows = itertools.chain.from_iterable(curves.whole_matrix(recorded.by_env(method)) for method in methods)
    return min(map(curves.reached, rows), default=0.0)


def _game_row(recorded: RecordedRuns, env: str) -> list[str]:
    game = env.removeprefix("minatar/")
    row = [game, output.number(minatar_references()[game].random)]
    for key in recorded.methods:
        runs = curves.equally_long(recorded.runs(key, env))
        scores = [value for run in runs if np.isfinite(value := score(run))]
        cell = output.mean_with_error(*statistics.mean_and_error(scores))
        row.append(f"{cell}; {statistics.interquartile_mean(scores)}" if len(scores) > 1 else cell)
    return row


def _styles(recorded: RecordedRuns) -> dict[str, tuple[str, str]]:
    """Colour and line style by method: those of the paper's methods on Atari, and a colour for each other."""
    others = (f"C{number}" for number in itertools.count(len(RATIOS)))
    styles = (
        style_of(SHOWN[key]) if key in SHOWN else {"color": next(others), "linestyle": "-"} for key in recorded.methods
    )
    return {key: (style["color"], style["linestyle"]) for key, style in zip(recorded.methods, styles, strict=True)}


def _draw_means(axes: Axes, recorded: RecordedRuns, axis: Axis) -> None:
    ends = []
    for key, (colour, line) in _styles(recorded).items():
        method, runs = recorded.methods[key], recorded.by_env(key)
        if not (matrix := curves.whole_matrix(runs)):
            continue
        points = np.linspace(0.0, min(curves.reached(row, axis) for row in matrix), _POINTS)
        at = [[(run.env, curves.score_at(run, points, WINDOW_STEPS, axis)) for run in row] for row in matrix]
        scores = np.array([[[normalize(env, score) for score in found] for env, found in row] for row in at])
        known = np.isfinite(scores).all(axis=(0, 1))
        if not known.any():
            continue
        band = statistics.interquartile_mean_curve(scores[..., known])
        x = points[known] / (3600 if axis == "seconds" else 1)
        label = f"{method.label}, {len(runs)} games, {len(matrix)} seeds"
        axes.plot(x, band.value, label=label, color=colour, linestyle=line)
        output.draw_band(axes, x, band.low, band.high, colour)
        ends.append(x[-1])
    if axis == "seconds" and ends and max(ends) > output.FAR * min(ends):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes.xaxis.set_minor_formatter("{x:g}")
        axes.xaxis.set_major_formatter("{x:g}")
    output.dress(axes, axis)
    axes.set(xlabel="environment steps (agent decisions)" if axis == "steps" else "hours")
    axes.set_ylabel("normalised score, interquartile mean")
