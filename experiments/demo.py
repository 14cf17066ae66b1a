"""A tour in minutes: trains on MinAtar Breakout and, briefly, on Atari Pong, exports, evaluates and plots.

python -m acer_tf demo
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "demo", *sys.argv[1:]]))
