"""Prioritized replay on MinAtar: Double DQN and ACER, each with uniform, proportional and rank-based replay.

python -m acer_tf table_minatar_priorities --processes=2
python -m acer_tf table_minatar_priorities --report_only
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table_minatar_priorities", *sys.argv[1:]]))
