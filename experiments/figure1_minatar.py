"""Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one machine finishes.

`python -m experiments.figure1_minatar --help` says how; it is `python -m acer_tf figure1_minatar`.
"""

import sys

from acer_tf.commands.figure1_minatar import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
