"""The whole way in minutes: trains on MinAtar Breakout and, briefly, on Atari Pong, exports, evaluates and plots.

`python -m experiments.demo --help` says how; it is `python -m acer_tf demo`.
"""

import sys

from acer_tf.commands.demo import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
