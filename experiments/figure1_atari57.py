"""Figure 1 of the ACER paper: median human-normalised score over Atari games, against frames and hours.

`python -m experiments.figure1_atari57 --help` says how; it is `python -m acer_tf figure1_atari57`.
"""

import sys

from acer_tf.commands.figure1_atari57 import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
