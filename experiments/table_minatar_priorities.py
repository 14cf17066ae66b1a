"""Prioritized replay on MinAtar: Double DQN and ACER, each with uniform, proportional and rank-based replay.

`python -m experiments.table_minatar_priorities --help` says how; it is `python -m acer_tf table_minatar_priorities`.
"""

import sys

from acer_tf.commands.table_minatar_priorities import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
