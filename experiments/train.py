"""Trains one agent in one environment, or continues the run in --run_dir.

python -m acer_tf train --env=atari/Pong --total_steps=2_000_000 --run_dir=runs/pong
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "train", *sys.argv[1:]]))
