"""Figure 1 of the ACER paper: median human-normalised score over Atari games, against frames and hours.

python -m acer_tf figure1_atari57 --plan
python -m acer_tf figure1_atari57 --games=atari5 --agents=replay4_trust,replay0 --total_steps=2_000_000
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure1_atari57", *sys.argv[1:]]))
