"""Figures 5 and 6 of the ACER paper: how much learning rate and δ matter to continuous ACER.

python -m acer_tf figure5_sensitivity --tasks=cheetah --agents=draw0,draw1,draw2,draw3 --total_steps=1_000_000
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.stats import norm, rankdata, spearmanr

from acer_tf.figures import figure3_continuous, figure3_draws
from acer_tf.reproduction.control import CAVEAT, DEVIATIONS, OURS, REPLAY_STEPS, TASKS
from acer_tf.reproduction.curves import RecordedRuns, final_return, reached
from acer_tf.reproduction.figure import Claim, Figure, Finding, Judged, Method
from acer_tf.reproduction.published import SearchPoint, published_search
from acer_tf.reproduction.report.output import Drawing, Report, Table, mean_with_error, number, panels
from acer_tf.reproduction.statistics import Test, compare
from acer_tf.reproduction.verdicts import own_design

_AGENT = "acer_continuous"
_SHUFFLES = 9_999


def drawn_methods() -> dict[str, Method]:
    """Continuous ACER at the learning rates and δ that the paper drew, each in the tasks shown."""
    whole = figure3_continuous.METHODS[_AGENT]
    tasks: dict[tuple[float, float], dict[str, int]] = {}
    for env in TASKS:
        for point in published_search(env):
            tasks.setdefault((point.learning_rate, point.delta), {})[env] = REPLAY_STEPS[env]
    found = {}
    for count, ((rate, delta), steps) in enumerate(tasks.items()):
        settings = {**whole.settings, "learning_rate": rate, "trust_region_delta": delta}
        found[f"draw{count}"] = Method(f"learning rate {rate:.3e}, δ {delta:.4f}", settings, steps)
    return found


def searched(recorded: RecordedRuns, env: str) -> list[tuple[SearchPoint, str]]:
    """The paper's settings in `env` that ours have too, and the key of our method."""
    keys = {(m.settings["learning_rate"], m.settings["trust_region_delta"]): k for k, m in recorded.methods.items()}
    points = [(point, keys.get((point.learning_rate, point.delta))) for point in published_search(env)]
    return [(point, key) for point, key in points if key is not None]


def report(recorded: RecordedRuns) -> Report:
    """Returns at the learning rates and δ that the paper drew."""
    rows, notes = [], []
    figure, axes = panels(len(recorded.envs))
    colours = matplotlib.colors.Normalize(0.0, 2.0)
    for ax, env in zip(axes, recorded.envs, strict=True):
        pairs = []
        for point, key in searched(recorded, env):
            steps, mean, error = recorded.result(key, env)
            row = [env, f"{point.learning_rate:.3e}", number(point.delta), number(steps, 0)]
            rows.append([*row, mean_with_error(mean, error), number(point.score)])
            pairs.append((point.learning_rate, point.delta, mean, point.score))
        known = np.array([pair for pair in pairs if np.isfinite(pair[2])]).reshape(-1, 4)
        rate, delta, ours, theirs = known.T
        if len(known):  # Matplotlib has no logarithmic axis for two empty scatters
            ax.scatter(rate, ours, c=delta, norm=colours, cmap="viridis", label="ours")
            their_axes = ax.twinx()
            their_axes.scatter(rate, theirs, s=22, facecolors="none", edgecolors=matplotlib.cm.viridis(colours(delta)))
            their_axes.tick_params(axis="y", labelsize="small", colors="0.5")
        if len(set(ours)) > 2:
            notes.append(f"{env} {spearmanr(ours, theirs).statistic:+.2f} over {len(known)} settings")
        ax.set(xscale="log", title=env, xlabel="learning rate")
        ax.grid(alpha=0.25)
    scale = matplotlib.cm.ScalarMappable(colours, "viridis")
    figure.colorbar(scale, ax=axes, label="δ of the trust region", shrink=0.6)
    rank = f" Rank correlation of ours with the paper's: {'; '.join(notes)}." if notes else ""
    caption = f"Ours: {OURS}. Paper: reward per episode at the end of training. {CAVEAT}{rank}"
    dots = f"Filled, left axis: ours; hollow, right axis: the paper's at the same settings. {CAVEAT}"
    head = ["task", "learning rate", "δ", "steps", "ours", "paper"]
    return Report({"table": Table(caption, head, rows)}, {"figure": Drawing(dots, figure)})


def settings_matter(recorded: RecordedRuns) -> Finding:
    """Whether our returns rank the settings as the paper's do at the settings next to them, within the tasks."""
    ranks = []
    for env in recorded.envs:
        keys = [key for key in recorded.by_method(env) if recorded.methods[key].settings["agent"] == _AGENT]
        runs = [((key, draw), run) for key in keys for draw, run in recorded.drawn(key, env)]
        if not runs:
            continue
        end = reached([run for _, run in runs])
        of: dict[tuple[str, int | None], list[float]] = {}  # one score per setting: more seeds are no more settings
        for place, run in runs:
            of.setdefault(place, []).append(final_return(run.until(end)))
        scores = [(recorded.methods[key].variants()[draw], np.mean(returns)) for (key, draw), returns in of.items()]
        known = [(nearest(env, settings).score, score) for settings, score in scores if np.isfinite(score)]
        # Within the task: the scales of tasks differ.
        of_task = rankdata(np.array(known).reshape(-1, 2), axis=0)
        ranks.append(of_task - of_task.mean(axis=0))
    theirs, ours = np.concatenate(ranks).T if ranks else np.zeros((2, 0))
    if not (ours.any() and theirs.any()):
        return Finding(())
    sizes = [len(of_task) for of_task in ranks]
    test = Test(functools.partial(_shuffled_p, sizes), _needed)
    rank = compare(_correlation, ours[None], theirs[None], test=test, even=0.0, unit="draws", what="rank correlation")
    return Finding([rank], "with the paper's returns at the settings next to ours")


def _shuffled_p(sizes: Sequence[int], ours: np.ndarray, theirs: np.ndarray) -> float:
    """The share of orders in which chance correlates our returns as much, if it shuffles them within each task."""
    rng, found = np.random.default_rng(0), abs(_correlation(ours, theirs)) - 1e-9
    tasks = np.split(ours[0], np.cumsum(sizes)[:-1])
    shuffled = (np.concatenate([rng.permutation(of_task) for of_task in tasks])[None] for _ in range(_SHUFFLES))
    return (1 + sum(abs(_correlation(order, theirs)) >= found for order in shuffled)) / (1 + _SHUFFLES)


def _needed(ours: np.ndarray, theirs: np.ndarray) -> float:
    """By the variance of a correlation where there is none, 1 / (n − 1)."""
    return 1 + (norm.isf(0.025) / _correlation(ours, theirs)) ** 2


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    varied = np.ptp(x) and np.ptp(y)
    return float(np.corrcoef(x[0], y[0])[0, 1]) if varied else 0.0


def nearest(env: str, settings: Mapping[str, Any]) -> SearchPoint:
    """The setting of the paper's search next to ours, in shares of the ranges that both are drawn from."""

    def distance(point: SearchPoint) -> float:
        rate = np.log10(point.learning_rate / settings["learning_rate"]) / 0.7
        return float(np.hypot(rate, (point.delta - settings["trust_region_delta"]) / 1.9))

    return min(published_search(env), key=distance)


def read_draws(figure: Figure, folder: Path) -> Judged | None:
    """The draws of Figure 3's protocol: the same search, at other settings than those that the paper shows."""
    design = dataclasses.replace(figure, methods={_AGENT: figure3_draws.METHODS[_AGENT]}, seeds=1)
    return own_design(figure3_draws.FIGURE, folder, design)


_SOURCE, _GOOD = "ACER, Figures 5 and 6", "which learning rates and δ are good"
FIGURE = Figure(
    __name__,
    order=33,
    source=_SOURCE,
    title="Figures 5 and 6 of ACER: learning rate and δ",
    text=(
        "Reproduces Figures 5 and 6 of Wang et al. 2017: a random search over learning rate (log-uniform in 1e-4 "
        "to 10^-3.3) and δ (uniform in 0.1 to 2). The settings are those that the paper drew, as far as its "
        "figures show them, so that each of our points has its counterpart.",
        DEVIATIONS,
    ),
    envs=TASKS,
    methods=drawn_methods(),
    report=report,
    claims=(
        Claim(_GOOD, settings_matter, own_design),
        Claim(_GOOD, settings_matter, read_draws, f"{_SOURCE}, own draws", figure3_draws.FIGURE.name),
    ),
)
