"""python -m acer_tf openai_baselines [flags]; --help says what it makes."""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "openai_baselines", *sys.argv[1:]]))
