"""Table 1 of the prioritized-replay paper: median and mean human-normalised scores of DQN's family.

python -m acer_tf table1_prioritized --games=atari5 --agents=ddqn_tuned,ddqn_proportional --total_steps=5_000_000
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table1_prioritized", *sys.argv[1:]]))
