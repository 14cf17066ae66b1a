"""python -m acer_tf figure_cliffwalk [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure_cliffwalk", *sys.argv[1:]]))
