"""Adds the folders of sb3_learn.py to the tables of Stable-Baselines3's runs that `table_gymnasium` reads.

A run replaces the one of the same task, algorithm and seed.

python sb3_tables.py RUNS acer_tf/reproduction/data
"""

import json
import sys
from pathlib import Path

import pandas as pd

SOURCE = (
    "# Source: results/table_gymnasium/sb3_learn.py, Stable-Baselines3 2.9.2 with the settings of\n"
    "# DLR-RM/rl-baselines3-zoo@master (hyperparams/ppo.yml, dqn.yml), or its defaults for tasks that are not there.\n"
    "# One row per {row}; returns are raw.\n"
)
ENDS, CURVES = "sb3_gymnasium.csv", "sb3_gymnasium_curves.csv"
RUN = ["env", "algorithm", "seed"]  # what identifies one


def main(runs: Path, data: Path) -> None:
    ends, curves = [], []
    for record in sorted(runs.glob("*/run.json")):
        run = json.loads(record.read_text(encoding="utf-8"))
        settings, progress = run["settings"], pd.read_csv(record.with_name("progress.csv"))
        place = {"env": settings["env"], "algorithm": settings["agent"], "seed": settings["seed"]}
        end = {"steps": run["steps"], "training": progress.mean_return.iloc[-1]}
        ends.append({**place, **end, "evaluation": run["evaluation"]["mean"]})
        points = pd.DataFrame({**place, "steps": progress.steps, "return": progress.mean_return})
        curves.append(points.dropna())
    for name, new, row in ((ENDS, pd.DataFrame(ends), "run"), (CURVES, pd.concat(curves), "point of a curve")):
        old = pd.read_csv(data / name, comment="#")
        kept = old[~pd.MultiIndex.from_frame(old[RUN]).isin(pd.MultiIndex.from_frame(new[RUN]))]
        table = pd.concat([kept, new]).sort_values([*RUN, "steps"])
        text = table.to_csv(index=False, lineterminator="\n", float_format="%.6g")
        (data / name).write_text(SOURCE.format(row=row) + text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
