"""Figure 4 of the ACER paper: continuous ACER without one of its parts, on fish, walker2d and humanoid.

`python -m experiments.figure4_ablation --help` says how; it is `python -m acer_tf figure4_ablation`.
"""

import sys

from acer_tf.commands.figure4_ablation import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
