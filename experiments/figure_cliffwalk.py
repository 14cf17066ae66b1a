"""Reproduces the Blind Cliffwalk of "Prioritized Experience Replay" (Schaul et al., 2016): Figures 1 and 2, whole.

python -m acer_tf figure_cliffwalk --output=my_results/cliffwalk
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure_cliffwalk", *sys.argv[1:]]))
