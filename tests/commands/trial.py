"""Stands in for acer_tf train where a test is about the search: a run whose return is known from its learning rate.

It is the closer to 100, the closer the rate is to 3e-3. FAIL names a rate above which runs fail with the line SAYS and
STATUS, SLOW the seconds of a row.
"""

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

from acer_tf.commands import setting_flags, train
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document

train.FLAGS(sys.argv)
settings, run_dir = make_settings(setting_flags.given(train.FLAGS)), Path(train.FLAGS.run_dir)
if settings.learning_rate > float(os.environ.get("FAIL", "inf")):
    print(f"error: {os.environ.get('SAYS', 'it broke')}", file=sys.stderr)
    sys.exit(int(os.environ.get("STATUS", "1")))
(run_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
document = {"format": 1, "settings": settings_document(settings) | {"network": "mlp", "precision": "float32"}}
(run_dir / "run.json").write_text(json.dumps(document))
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
score = 100 - 20 * abs(math.log10(settings.learning_rate / 3e-3)) + 0.01 * settings.seed
rows = run_dir / "progress.csv"
begun = max(0, rows.read_text().count("\n") - 1) if rows.exists() else 0
with rows.open("a") as progress:
    if not begun:
        print("steps,seconds,episodes,mean_return,interval_return", file=progress)
    for row in range(begun + 1, 51):
        print(f"{row * settings.total_steps // 50},{row},{row},{score},{score}", file=progress, flush=True)
        end = time.monotonic() + float(os.environ.get("SLOW", "0"))
        while not stopped and time.monotonic() < end:
            time.sleep(0.01)
        if stopped:
            sys.exit(143)
for part in ("metadata.json", "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
    path = run_dir / "policy" / part
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
(run_dir / "run.json").write_text(json.dumps(document | {"finished": True}))
