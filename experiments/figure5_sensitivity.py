"""Figures 5 and 6 of the ACER paper: what learning rate and δ matter to continuous ACER.

`python -m experiments.figure5_sensitivity --help` says how; it is `python -m acer_tf figure5_sensitivity`.
"""

import sys

from acer_tf.commands.figure5_sensitivity import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
