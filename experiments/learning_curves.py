r"""Lays the learning curves of runs in one environment beside each other, and beside what was published of it.

python -m experiments.learning_curves --output=results/minatar_breakout \
    --runs="ratio 4=runs/b4_0,runs/b4_1" --runs="ratio 0=runs/b0_0,runs/b0_1" --at_steps=1_000_000

Writes table.csv, table.md, figure.png and figure.svg, and keeps each run's progress.csv and run.json beside them.
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

import numpy as np
from absl import flags

from acer_tf.reproduction.curves import CurveError, RunCurve, draw, environment_of, final_return, read_run, return_at
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.statistics import interquartile_mean
from experiments import cli

FLAGS = cli.new_flags()
flags.DEFINE_multi_string("runs", [], "LABEL=RUN_DIR,RUN_DIR,...: the seeds of one setting", flag_values=FLAGS)
flags.DEFINE_string("output", None, "folder for the table, the figure and copies of the records", flag_values=FLAGS)
flags.DEFINE_multi_integer(
    "at_steps", [], "also tabulate the mean of the last 100 games at this step", flag_values=FLAGS
)
flags.DEFINE_string("title", "", "title of the figure; by default the environment", flag_values=FLAGS)


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("runs", "output"))
    try:
        folders = dict(_labelled(text) for text in FLAGS.runs)
        groups = {label: [read_run(folder) for folder in paths] for label, paths in folders.items()}
        output = Path(FLAGS.output)
        env = environment_of(groups)
        for suffix in ("png", "svg"):
            draw(groups, output / f"figure.{suffix}", title=FLAGS.title or env)
    except CurveError as error:
        return cli.fail(2, error)
    for label, paths in folders.items():
        for folder, run in zip(paths, groups[label], strict=True):
            kept = output / "runs" / f"{_slug(label)}-seed{run.seed}"
            kept.mkdir(parents=True, exist_ok=True)
            for name in ("progress.csv", "run.json"):
                shutil.copyfile(folder / name, kept / name)
    rows = table(groups, published_curves(env), FLAGS.at_steps)
    with (output / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    (output / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    print(f"table, figure and records in {output}")
    return 0


def table(groups: dict[str, list[RunCurve]], published: list[PublishedCurve], at_steps: list[int]) -> list[list[str]]:
    """A head and a row per run; per group of several, mean ± standard error and interquartile mean [95 %].

    Where a step is asked for, a row per published curve that reaches one.
    """
    head = ["setting", "seed", "steps", *(f"return at {step:,}" for step in at_steps), "return, last 10 % of training"]
    rows = [head]
    for label, runs in groups.items():
        values = np.array([[*(return_at(run, step) for step in at_steps), final_return(run)] for run in runs])
        for run, cells in zip(runs, values, strict=True):
            rows.append([label, str(run.seed), f"{run.steps[-1]:,.0f}", *map(_cell, cells)])
        if len(runs) > 1:
            errors = values.std(axis=0, ddof=1) / len(runs) ** 0.5
            means = (f"{mean:.2f} ± {error:.2f}" for mean, error in zip(values.mean(axis=0), errors, strict=True))
            steps = f"{min(run.steps[-1] for run in runs):,.0f}"
            rows.append([label, f"{len(runs)} seeds, mean", steps, *means])
            if np.isfinite(values).all():
                middles = [interquartile_mean(column) for column in values.T]
                cells = (f"{m.value:.2f} [{m.low:.2f}, {m.high:.2f}]" for m in middles)
                rows.append([label, f"{len(runs)} seeds, IQM", steps, *cells])
    for curve in published:
        values = np.array([curve.at(step) for step in at_steps])
        if np.isfinite(values).any():
            rows.append([curve.label, "published", f"{curve.steps[-1]:,.0f}", *map(_cell, values), ""])
    return rows


def _labelled(text: str) -> tuple[str, list[Path]]:
    label, separator, paths = text.partition("=")
    if not separator or not paths:
        raise CurveError(f"--runs={text}: must be LABEL=RUN_DIR,RUN_DIR,...")
    return label, [Path(path) for path in paths.split(",")]


def _cell(value: float) -> str:
    """Empty for what was not reached."""
    return "" if np.isnan(value) else f"{value:.2f}"


def _slug(label: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in label.lower())


if __name__ == "__main__":
    sys.exit(main(sys.argv))
