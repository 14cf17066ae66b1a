"""python -m acer_tf table1_prioritized [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table1_prioritized", *sys.argv[1:]]))
