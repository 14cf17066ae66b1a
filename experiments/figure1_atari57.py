"""python -m acer_tf figure1_atari57 [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure1_atari57", *sys.argv[1:]]))
