"""python -m acer_tf figure4_ablation [flags]; --help says what it makes."""

from acer_tf.__main__ import script

if __name__ == "__main__":
    script(__file__)
