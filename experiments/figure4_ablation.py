"""python -m acer_tf figure4_ablation [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure4_ablation", *sys.argv[1:]]))
