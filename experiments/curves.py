"""python -m acer_tf curves [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "curves", *sys.argv[1:]]))
