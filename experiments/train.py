"""python -m acer_tf train [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "train", *sys.argv[1:]]))
