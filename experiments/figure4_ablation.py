"""Figure 4 of the ACER paper: continuous ACER without one of its parts, on fish, walker2d and humanoid.

python -m acer_tf figure4_ablation --tasks=walker2d --total_steps=3_000_000 --seeds=1
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure4_ablation", *sys.argv[1:]]))
