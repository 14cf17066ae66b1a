"""The cells of Figure 3 as numbers: returns by task and method beside the paper's.

`python -m experiments.table_control --help` says how; it is `python -m acer_tf table_control`.
"""

import sys

from acer_tf.commands.table_control import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
