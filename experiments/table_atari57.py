"""The cells of Figure 1 by game: final scores beside those published of DQN, prioritized replay, A3C and Rainbow.

`python -m experiments.table_atari57 --help` says how; it is `python -m acer_tf table_atari57`.
"""

import sys

from acer_tf.commands.table_atari57 import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
