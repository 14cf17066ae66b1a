"""This package, by default on Pong: its training command as a child, whose progress.csv says how fast it is.

All it needs of --checkout is `python -m experiments.train`, so older ones run too. Other flags are that command's.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    *("--env=atari/Pong", "--preset=baselines", "--replay_start=40", "--replay_capacity=2000"),
    *("--total_steps=1_000_000_000", "--log_interval=960"),
)
# Rows after the first with replayed updates: their graph is compiled in it.
WARM_UP = 2


def rows_of(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    columns = ("steps", "seconds", "on_policy_updates", "replay_updates")
    return [{name: float(row[name]) for name in columns} for row in csv.DictReader(whole)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    args, further = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        flags = [*FLAGS, *further, f"--seed={args.seed}", f"--run_dir={run_dir}"]
        command = [sys.executable, "-m", "experiments.train", *flags]
        process = subprocess.Popen(command, cwd=args.checkout, stdout=subprocess.DEVNULL)
        try:
            rows: list[dict[str, float]] = []
            while len(rows) <= WARM_UP + 1 or rows[-1]["seconds"] - rows[WARM_UP]["seconds"] < args.seconds:
                time.sleep(0.5)
                if process.poll() is not None:
                    sys.exit(1)  # it has said why
                if rows := rows_of(run_dir / "progress.csv"):
                    settings = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))["settings"]
                    rows = [row for row in rows if row["replay_updates"] or not settings["replay_ratio"]]
        finally:
            process.kill()
            process.wait()
    first, last = rows[WARM_UP], rows[-1]
    done = {name: last[name] - first[name] for name in last}
    on_policy = done["on_policy_updates"]
    print(
        json.dumps(
            {
                "steps": round(done["steps"]),
                "seconds": done["seconds"],
                "steps_per_second": done["steps"] / done["seconds"],
                "replays_per_update": done["replay_updates"] / on_policy if on_policy else None,
                "versions": {n: importlib.metadata.version(n) for n in ("acer_tf", "tensorflow", "keras", "ale-py")},
                "settings": f"num_envs {settings['num_envs']}, unroll_length {settings['unroll_length']}, replay_ratio "
                f"{settings['replay_ratio']:g}, precision {settings['precision']}",
            }
        )
    )


if __name__ == "__main__":
    main()
