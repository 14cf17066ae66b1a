"""Exports the policy of a run's newest checkpoint as a SavedModel, also while the run goes on.

`python -m experiments.export --help` says how; it is `python -m acer_tf export`.
"""

import sys

from acer_tf.commands.export import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
