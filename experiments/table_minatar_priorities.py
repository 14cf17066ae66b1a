"""python -m acer_tf table_minatar_priorities [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table_minatar_priorities", *sys.argv[1:]]))
