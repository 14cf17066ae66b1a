"""Trains one agent in one environment, or continues the run in --run_dir.

`python -m experiments.train --help` says how; it is `python -m acer_tf train`.
"""

import sys

from acer_tf.commands.train import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
