"""The cells of Figure 1 by game: final scores beside those published of DQN, prioritized replay, A3C and Rainbow.

python -m acer_tf table_atari57 --games=atari5 --agents=replay4_trust --total_steps=10_000_000
python -m acer_tf table_atari57 --report_only
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table_atari57", *sys.argv[1:]]))
