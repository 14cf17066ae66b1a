"""Evaluates an exported policy: whole games, raw score, and on Atari the human-normalised score.

`python -m experiments.evaluate --help` says how; it is `python -m acer_tf evaluate`.
"""

import sys

from acer_tf.commands.evaluate import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
