"""Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.

`python -m experiments.figure3_continuous --help` says how; it is `python -m acer_tf figure3_continuous`.
"""

import sys

from acer_tf.commands.figure3_continuous import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
