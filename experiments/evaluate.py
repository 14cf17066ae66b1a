"""Evaluates an exported policy: whole episodes, raw score, and on Atari the human-normalised score.

python -m acer_tf evaluate --policy=runs/pong/policy --episodes=30 --video=pong.mp4
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "evaluate", *sys.argv[1:]]))
