"""Figures 5 and 6 of the ACER paper: how much learning rate and δ matter to continuous ACER.

python -m acer_tf figure5_sensitivity --tasks=cheetah --agents=draw0,draw1,draw2,draw3 --total_steps=1_000_000
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure5_sensitivity", *sys.argv[1:]]))
