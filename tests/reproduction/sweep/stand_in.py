"""Replaces acer_tf train in tests of the sweep: a run of a second that misbehaves on demand.

It has the files of a run: the lock, run.json, progress.csv, policy/, and a checkpoint to resume from.
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--crash", type=int, help="the seed whose run fails")
parser.add_argument("--hang", type=int, help="the seed whose run stops getting on, deaf to SIGTERM")
parser.add_argument("--die", type=int, help="the seed whose run is killed -9 when it has begun")
parser.add_argument("--row_seconds", type=float, default=0.01)
parser.add_argument("--seed", type=int)
parser.add_argument("--run_dir", type=Path)
options, _ = parser.parse_known_args()
run_dir, seed = options.run_dir, options.seed

run_dir.mkdir(parents=True, exist_ok=True)
lock = (run_dir / "lock").open("a+")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
lock.truncate(0)
print(f"host here, pid {os.getpid()}", file=lock, flush=True)
if seed == options.crash:
    print("Traceback and so on", file=sys.stderr)
    sys.exit("error: the simulator is upside down")

saved = run_dir / "steps"
begun = int(saved.read_text()) if saved.exists() else 0
sweep = json.loads((run_dir.parents[2] / "sweep.json").read_text())
settings = sweep["cells"][run_dir.parent.name]["settings"] | {"network": "mlp", "precision": "float32"}
(run_dir / "run.json").write_text(json.dumps({"format": 1, "settings": settings}))
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
with (run_dir / "progress.csv").open("a") as progress:
    if not begun:
        print("steps,mean_return", file=progress)
    for steps in range(begun + 10, settings["total_steps"] + 1, 10):
        print(f"{steps},{steps / 10}", file=progress, flush=True)
        saved.write_text(str(steps))
        while seed == options.hang:
            time.sleep(1)
        if seed == options.die and not begun and steps == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        if stopped:
            print(f"stopped at {steps}", file=sys.stderr)
            sys.exit(143)
        end = time.monotonic() + options.row_seconds
        while not stopped and time.monotonic() < end:
            time.sleep(0.01)
for part in ("metadata.json", "saved_model.pb", "variables.index", "variables.data-00000-of-00001"):
    path = run_dir / "policy" / ("variables" if part.startswith("variables") else "") / part
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
(run_dir / "run.json").write_text(json.dumps({"format": 1, "settings": settings, "finished": True}))
