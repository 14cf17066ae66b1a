"""Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one machine finishes.

python -m acer_tf figure1_minatar --processes=2
python -m acer_tf figure1_minatar --games=breakout --agents=replay0_trust,replay4_trust --seeds=1
python -m acer_tf figure1_minatar --preset=paper --processes=2
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure1_minatar", *sys.argv[1:]]))
