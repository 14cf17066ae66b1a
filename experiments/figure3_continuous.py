"""python -m acer_tf figure3_continuous [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure3_continuous", *sys.argv[1:]]))
