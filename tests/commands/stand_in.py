"""Stands in for acer_tf train where a test is about what comes after it: a run without any learning."""

import argparse
import csv
import json
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--run_dir", type=Path)
options, _ = parser.parse_known_args()
run_dir = options.run_dir
run_dir.mkdir(parents=True, exist_ok=True)
sweep = json.loads((run_dir.parents[2] / "sweep.json").read_text())
settings = sweep["cells"][run_dir.parent.name]["settings"] | {"network": "mlp", "precision": "float32"}
with (run_dir / "progress.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["steps", "seconds", "episodes", "mean_return", "interval_return"])
    for n in range(1, 11):
        score = 0.1 * n + options.seed
        writer.writerow([n * settings["total_steps"] // 10, n, 5 * n, score, score])
for part in ("metadata.json", "saved_model.pb", "variables.index", "variables.data-00000-of-00001"):
    path = run_dir / "policy" / ("variables" if part.startswith("variables") else "") / part
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
(run_dir / "run.json").write_text(json.dumps({"format": 1, "settings": settings, "commit": None, "finished": True}))
