"""Table 1 of the prioritized-replay paper: median and mean human-normalised scores of DQN's family.

`python -m experiments.table1_prioritized --help` says how; it is `python -m acer_tf table1_prioritized`.
"""

import sys

from acer_tf.commands.table1_prioritized import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
