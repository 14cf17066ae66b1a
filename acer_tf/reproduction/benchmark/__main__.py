"""Measures one group and prints it as JSON.

python -m acer_tf.reproduction.benchmark GROUP REPETITIONS SCRATCH_FOLDER
"""

import json
import sys
from pathlib import Path

from acer_tf.reproduction.benchmark.groups import GROUPS

if __name__ == "__main__":
    name, repetitions, scratch = sys.argv[1:]
    measurements, facts = GROUPS[name](int(repetitions), Path(scratch))
    print(json.dumps({"measurements": {n: m.document() for n, m in measurements.items()}, "facts": facts}))
