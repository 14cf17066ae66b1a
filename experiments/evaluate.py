"""python -m acer_tf evaluate [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "evaluate", *sys.argv[1:]]))
