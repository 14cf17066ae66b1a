"""Exports the policy of a run's newest checkpoint as a SavedModel, also while the run goes on.

python -m acer_tf export --run_dir=runs/pong --output=pong_policy
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "export", *sys.argv[1:]]))
