"""The cells of Figure 3 as numbers: returns by task and method beside the paper's.

python -m acer_tf table_control --tasks=reacher3 --total_steps=2_000_000
python -m acer_tf table_control --report_only
"""

import itertools
from collections.abc import Mapping

import numpy as np

from acer_tf.figures.figure3_continuous import FIGURE as FIGURE3
from acer_tf.reproduction.control import CAVEAT, DEVIATIONS, ONE_SETTING, OURS, by_method
from acer_tf.reproduction.curves import RecordedRuns, reached
from acer_tf.reproduction.figure import Figure
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, mean_with_error, number, panels


def report(recorded: RecordedRuns) -> Report:
    """A row per task, and the order of the methods, ours and the paper's at equal steps."""
    labels = [method.label for method in recorded.methods.values()]
    columns = ([label, f"{label}, paper at equal steps", f"{label}, paper at its end"] for label in labels)
    head = ["task", "steps, all runs", *itertools.chain(*columns), "order, best first", "order in the paper"]
    rows = []
    figure, axes = panels(len(recorded.envs))
    for ax, env in zip(axes, recorded.envs, strict=True):
        steps = min(map(reached, recorded.by_method(env).values()), default=np.nan)
        row, scores = [env, number(steps, 0)], {}
        published = by_method(published_curves(env))
        for place, (key, method) in enumerate(recorded.methods.items()):
            _, mean, error = recorded.result(key, env, until=steps)
            curve = published[method.published]
            their = curve.at(steps)
            if np.isfinite(mean) and np.isfinite(their):
                scores[method.label] = mean, their
            ax.errorbar(place, mean, 0.0 if np.isnan(error) else error, fmt="o", color=f"C{place}", capsize=3)
            ax.plot(place, their, "_", color=f"C{place}", markersize=16, markeredgewidth=2)
            row += [f"{mean_with_error(mean, error)} ({recorded.finished(key, env)} finished)", number(their)]
            row.append(number(float(curve.mean[-1])))
        rows.append([*row, _order(scores, 0), _order(scores, 1)])
        ax.set_xticks(range(len(labels)), labels, fontsize="small", rotation=20)
        ax.set_title(env)
        ax.grid(alpha=0.25)
    caption = (
        f"Ours: {OURS}; mean over seeds ± standard error. Paper: Figure 3. Returns and orders are those at the steps "
        f"that all methods and seeds have done. {CAVEAT}"
    )
    dots = f"Points: ours, mean ± standard error over seeds; bars: the paper at equal steps. {CAVEAT}"
    return Report({"table": Table(caption, head, rows)}, {"figure": Drawing(dots, figure)})


def _order(scores: Mapping[str, tuple[float, float]], whose: int) -> str:
    return " > ".join(sorted(scores, key=lambda label: -scores[label][whose]))


FIGURE = Figure(
    __name__,
    order=71,
    source="ACER, Figure 3, as numbers",
    title="Continuous control, as numbers",
    text=(
        "Final returns of the same runs as Figure 3's beside the published curves at equal steps and at their "
        "end, and the order of the methods in both.",
        DEVIATIONS,
        ONE_SETTING,
    ),
    envs=FIGURE3.envs,
    methods=FIGURE3.methods,
    seeds=3,
    report=report,
)
