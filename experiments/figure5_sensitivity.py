"""python -m acer_tf figure5_sensitivity [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure5_sensitivity", *sys.argv[1:]]))
