"""ACER and A3C after 40M frames beside ACER, A2C and PPO of the PPO paper: the only ACER table by game.

`python -m experiments.table_atari49 --help` says how; it is `python -m acer_tf table_atari49`.
"""

import sys

from acer_tf.commands.table_atari49 import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
