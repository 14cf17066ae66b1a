"""ACER and A3C after 40M frames beside ACER, A2C and PPO of the PPO paper: the only table of 49 games.

python -m acer_tf table_atari49 --games=Pong,Breakout --total_steps=20_000 --seeds=2 --setting=replay_start=200
python -m acer_tf table_atari49 --games=openai7 --agents=acer
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table_atari49", *sys.argv[1:]]))
