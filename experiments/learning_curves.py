r"""Compares the learning curves of runs with each other, and with published ones.

python -m acer_tf curves --output=my_results/minatar_breakout \
    --runs="ratio 4=runs/b4_0,runs/b4_1" --runs="ratio 0=runs/b0_0,runs/b0_1" --at_steps=1_000_000
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "curves", *sys.argv[1:]]))
