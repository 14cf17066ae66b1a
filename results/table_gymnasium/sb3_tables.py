"""Writes the tables of Stable-Baselines3's runs that `table_gymnasium` reads, from the folders of sb3_learn.py.

python sb3_tables.py RUNS acer_tf/reproduction/data
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

SOURCE = (
    "# Source: results/table_gymnasium/sb3_learn.py, Stable-Baselines3 2.9.2 with the settings of\n"
    "# DLR-RM/rl-baselines3-zoo@master (hyperparams/ppo.yml, dqn.yml), or its defaults for tasks that are not there.\n"
    "# One row per {row}; returns are raw.\n"
)
ENDS, CURVES = "sb3_gymnasium.csv", "sb3_gymnasium_curves.csv"


def main(runs: Path, data: Path) -> None:
    ends, curves = [], {}
    for record in sorted(runs.glob("*/run.json")):
        run = json.loads(record.read_text(encoding="utf-8"))
        settings, progress = run["settings"], pd.read_csv(record.with_name("progress.csv"))
        place = settings["env"], settings["agent"]
        end = {"seed": settings["seed"], "steps": run["steps"], "training": progress.mean_return.iloc[-1]}
        ends.append({"env": place[0], "algorithm": place[1], **end, "evaluation": run["evaluation"]["mean"]})
        curves.setdefault(place, []).append(progress)
    means = []
    for (env, algorithm), found in curves.items():
        steps = min(found, key=len).steps  # of equal intervals
        returns = np.array([run.mean_return[: len(steps)] for run in found])
        known = np.isfinite(returns).all(axis=0)
        returns, steps = returns[:, known], steps[known]
        columns = {"steps": steps, "mean": returns.mean(0), "low": returns.min(0), "high": returns.max(0)}
        means.append(pd.DataFrame({"env": env, "algorithm": algorithm, **columns}))
    for name, table, row in ((ENDS, pd.DataFrame(ends), "run"), (CURVES, pd.concat(means), "point of a curve")):
        text = table.to_csv(index=False, lineterminator="\n", float_format="%.6g")
        (data / name).write_text(SOURCE.format(row=row) + text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
