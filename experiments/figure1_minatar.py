"""python -m acer_tf figure1_minatar [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure1_minatar", *sys.argv[1:]]))
