"""Lays the learning curves of runs in one environment beside each other, and beside what was published of it.

`python -m experiments.learning_curves --help` says how; it is `python -m acer_tf curves`.
"""

import sys

from acer_tf.commands.learning_curves import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
