r"""Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.

By the paper's protocol (the last two examples) it shows the best five of thirty draws of learning rate and δ:
first all draws are run, then those five for longer.

python -m acer_tf figure3_continuous --plan
python -m acer_tf figure3_continuous --processes=2 --output=runs/figure3
python -m acer_tf figure3_continuous --tasks=walker2d --seeds=1 --total_steps=3_000_000 --skip_recorded \
    --setting=log_interval=30_000
python -m acer_tf figure3_continuous --tasks=reacher3 --draws=30 --best=5 --total_steps=1_000_000
python -m acer_tf figure3_continuous --tasks=reacher3 --draws=30 --best=5 --best_of=my_results/figure3_draws \
    --total_steps=3_000_000 --output=my_results/figure3_best
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "figure3_continuous", *sys.argv[1:]]))
