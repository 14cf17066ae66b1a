"""Measures one group and prints it as JSON.

python -m benchmarks.child GROUP REPETITIONS SCRATCH_FOLDER
"""

import json
import sys
from pathlib import Path

from benchmarks.groups import GROUPS

if __name__ == "__main__":
    name, repetitions, scratch = sys.argv[1:]
    measurements, facts = GROUPS[name](int(repetitions), Path(scratch))
    print(json.dumps({"measurements": {n: m.document() for n, m in measurements.items()}, "facts": facts}))
