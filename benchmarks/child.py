"""Measures one group and prints it as JSON.

python -m benchmarks.child DEVICE GROUP REPETITIONS SCRATCH_FOLDER
"""

import json
import sys
from pathlib import Path

from acer_tf.training.device import find_device, use_device
from benchmarks.groups import GROUPS

if __name__ == "__main__":
    wanted, name, repetitions, scratch = sys.argv[1:]
    device = find_device(wanted)
    use_device(device)
    measurements, facts = GROUPS[name](int(repetitions), Path(scratch))
    documents = {n: m.document() for n, m in measurements.items()}
    print(json.dumps({"device": str(device), "measurements": documents, "facts": facts}))
