"""Reproduces the Blind Cliffwalk of "Prioritized Experience Replay" (Schaul et al., 2016): Figures 1 and 2, whole.

`python -m experiments.figure_cliffwalk --help` says how; it is `python -m acer_tf figure_cliffwalk`.
"""

import sys

from acer_tf.commands.figure_cliffwalk import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
