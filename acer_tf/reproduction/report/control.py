"""The reports of continuous control: Figures 3 to 6 and their numbers, beside the published ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import matplotlib
import numpy as np
from scipy.stats import spearmanr

from acer_tf.reproduction.aggregation import equally_long, final_return, reached
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.methods import Method, variants
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.published import (
    PublishedCurve,
    SearchPoint,
    published_ablations,
    published_curves,
    published_search,
)
from acer_tf.reproduction.report.figures import learning_curves, panels
from acer_tf.reproduction.report.output import Drawing, Report
from acer_tf.reproduction.report.tables import Table, mean_with_error, number
from acer_tf.reproduction.statistics import mean_and_error

_OURS = "mean raw return of the episodes that ended in the last 10 % of the steps done, by the policy that explores"
_CAVEAT = (
    "The paper's task models are not public, and rewards differ: orders can be compared, numbers only where a reward "
    "is a count, as in reacher3."
)


def figure3(outcome: Outcome) -> Report:
    """The paper's Figure 3: five methods by task."""
    return _curves(outcome, published_curves)


def ranked_draws(outcome: Outcome, names: Iterable[str], env: str) -> list[tuple[str, RunCurve, float]]:
    """Those of the draws `names` that have begun in `env`, best first, with the return at the steps that all have."""
    begun = [(name, runs[0]) for name in names if (runs := outcome.runs(name, env))]
    steps = reached([run for _, run in begun]) if begun else 0.0
    scored = [(name, run, final_return(run.until(steps))) for name, run in begun]
    return sorted(scored, key=lambda draw: -np.nan_to_num(draw[2], nan=-np.inf))


def draws(outcome: Outcome, methods: Mapping[str, Method], best: int) -> Report:
    """The paper's Figure 3 by its own protocol: the `best` draws of each of `methods`."""
    rows, all_rows = [], []
    chosen: dict[str, dict[str, list[RunCurve]]] = {env: {} for env in outcome.envs}
    for env in outcome.envs:
        curves = {curve.method: curve for curve in published_curves(env)}
        for name, method in methods.items():
            names = variants({name: method})
            found = ranked_draws(outcome, names, env)
            if not found:
                continue
            _, runs, scores = zip(*found, strict=True)
            steps = reached(runs)
            chosen[env][method.label] = list(runs[:best])
            spread = float(np.std(scores[:best], ddof=1)) if len(scores[:best]) > 1 else np.nan
            labels = {draw.label for draw in names.values()}
            cells = [cell for cell in outcome.cells if cell.env == env and cell.method in labels]
            finished = sum(cell.state == "finished" for cell in cells)
            row = [env, method.label, f"{finished} of {len(method.draws)}", number(steps, 0)]
            row += [mean_with_error(float(np.mean(scores[:best])), spread), number(float(np.mean(scores)))]
            rows.append([*row, number(curves[method.published].at(steps)), _at_end(curves[method.published])])
            for draw, _, score in found:
                settings = names[draw].settings
                delta, rate = settings.get("trust_region_delta"), f"{settings['learning_rate']:.3e}"
                all_rows.append([env, names[draw].label, rate, number(delta, 3), number(steps, 0), number(score)])
    head = f"task, method, draws finished, steps, best {best}, all, paper at equal steps, paper at its end"
    caption = (
        f"Return: {_OURS}, at the steps that all draws have done. Best {best}: mean ± standard deviation of the "
        f"{best} draws with the highest return, as in the paper; all: mean of those begun. {_CAVEAT}"
    )
    drawn = (
        f"Lines: ours, the {best} best draws (thin), their mean and its standard error; dashed: the paper's, mean and "
        f"standard deviation of its five best of thirty. {_CAVEAT}"
    )
    every = "Every draw, best first: its learning rate, δ, and return as above."
    all_draws = Table(every, ["task", "draw", "learning rate", "δ", "steps", "return"], all_rows)
    figure = learning_curves(chosen, published_curves, labels=_labels(methods), unit="draws")
    return Report(
        {"table": Table(caption, head.split(", "), rows), "draws": all_draws}, {"figure": Drawing(drawn, figure)}
    )


def figure4(outcome: Outcome) -> Report:
    """The paper's Figure 4: ACER without one of its parts."""
    return _curves(outcome, published_ablations)


def table(outcome: Outcome) -> Report:
    """Figure 3 as numbers: a row per task, and the order of the methods, ours and the paper's at equal steps."""
    labels = [method.label for method in outcome.methods.values()]
    columns = ([label, f"{label}, paper at equal steps", f"{label}, paper at its end"] for label in labels)
    head = ["task", "steps, all runs", *itertools.chain(*columns), "order, best first", "order in the paper"]
    rows = []
    figure, axes = panels(len(outcome.envs))
    for ax, env in zip(axes, outcome.envs, strict=True):
        by_method = outcome.by_method(env)
        steps = min((reached(runs) for runs in by_method.values()), default=np.nan)
        row, scores = [env, number(steps, 0)], {}
        published = {curve.method: curve for curve in published_curves(env)}
        for place, (name, method) in enumerate(outcome.methods.items()):
            mean, error = mean_and_error([final_return(run.until(steps)) for run in by_method.get(name, [])])
            their = published[method.published].at(steps)
            if np.isfinite(mean) and np.isfinite(their):
                scores[method.label] = mean, their
            ax.errorbar(place, mean, 0.0 if np.isnan(error) else error, fmt="o", color=f"C{place}", capsize=3)
            ax.plot(place, their, "_", color=f"C{place}", markersize=16, markeredgewidth=2)
            row += [f"{mean_with_error(mean, error)} ({outcome.finished(name, env)} finished)", number(their)]
            row.append(number(float(published[method.published].mean[-1])))
        rows.append([*row, _order(scores, 0), _order(scores, 1)])
        ax.set_xticks(range(len(labels)), labels, fontsize="small", rotation=20)
        ax.set_title(env)
        ax.grid(alpha=0.25)
    caption = (
        f"Ours: {_OURS}; mean over seeds ± standard error. Paper: Figure 3. Returns and orders are those at the steps "
        f"that all methods and seeds have done. {_CAVEAT}"
    )
    dots = f"Points: ours, mean ± standard error over seeds; bars: the paper at equal steps. {_CAVEAT}"
    return Report({"table": Table(caption, head, rows)}, {"figure": Drawing(dots, figure)})


def searched(outcome: Outcome, env: str) -> list[tuple[SearchPoint, str]]:
    """The paper's settings in `env` that ours have too, and our method's name."""
    names = {(m.settings["learning_rate"], m.settings["trust_region_delta"]): n for n, m in outcome.methods.items()}
    points = [(point, names.get((point.learning_rate, point.delta))) for point in published_search(env)]
    return [(point, name) for point, name in points if name is not None]


def figure5(outcome: Outcome) -> Report:
    """The paper's Figures 5 and 6: returns at the learning rates and δ that the paper drew."""
    rows, notes = [], []
    figure, axes = panels(len(outcome.envs))
    colours = matplotlib.colors.Normalize(0.0, 2.0)
    for ax, env in zip(axes, outcome.envs, strict=True):
        pairs = []
        for point, name in searched(outcome, env):
            runs = equally_long(outcome.runs(name, env))
            mean, error = mean_and_error([final_return(run) for run in runs])
            steps = number(reached(runs), 0) if runs else ""
            ours_and_theirs = mean_with_error(mean, error), number(point.score)
            rows.append([env, f"{point.learning_rate:.3e}", number(point.delta), steps, *ours_and_theirs])
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
    figure.colorbar(
        matplotlib.cm.ScalarMappable(colours, "viridis"), ax=axes, label="δ of the trust region", shrink=0.6
    )
    rank = f" Rank correlation of ours with the paper's: {'; '.join(notes)}." if notes else ""
    caption = f"Ours: {_OURS}. Paper: reward per episode at the end of training. {_CAVEAT}{rank}"
    dots = f"Filled, left axis: ours; hollow, right axis: the paper's at the same settings. {_CAVEAT}"
    head = ["task", "learning rate", "δ", "steps", "ours", "paper"]
    return Report({"table": Table(caption, head, rows)}, {"figure": Drawing(dots, figure)})


def _curves(outcome: Outcome, published: Callable[[str], Sequence[PublishedCurve]]) -> Report:
    rows = []
    for env in outcome.envs:
        curves = {curve.method: curve for curve in published(env)}
        for name, method in outcome.methods.items():
            row = [env, method.label, outcome.finished(name, env)]
            if not (runs := equally_long(outcome.runs(name, env))):
                rows.append([*row, *[""] * 4])
                continue
            steps = reached(runs)
            mean, error = mean_and_error([final_return(run) for run in runs])
            their = curves[method.published].at(steps)
            row += [number(steps, 0), mean_with_error(mean, error), number(their), _at_end(curves[method.published])]
            rows.append(row)
    head = "task, method, cells finished, steps, return, paper at equal steps, paper at its end"
    caption = f"Return: {_OURS}; mean over seeds ± standard error, at the steps that all seeds have done. {_CAVEAT}"
    figure = learning_curves(outcome.by_label(), published, labels=_labels(outcome.methods))
    drawn = f"Lines: ours, means over seeds with standard errors; dashed, with their bands: the paper's. {_CAVEAT}"
    return Report({"table": Table(caption, head.split(", "), rows)}, {"figure": Drawing(drawn, figure)})


def _labels(methods: Mapping[str, Method]) -> dict[str, str]:
    """The labels of our methods by the name of the published one."""
    return {method.published: method.label for method in methods.values()}


def _at_end(curve: PublishedCurve) -> str:
    return f"{curve.mean[-1]:,.2f} at {curve.steps[-1] / 1e6:,.0f}M"


def _order(scores: Mapping[str, tuple[float, float]], whose: int) -> str:
    return " > ".join(sorted(scores, key=lambda label: -scores[label][whose]))
