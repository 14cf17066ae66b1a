"""The cells of Figure 3 as numbers: returns by task and method beside the paper's.

python -m acer_tf table_control --tasks=reacher3 --total_steps=2_000_000
python -m acer_tf table_control --report_only
"""

import sys

from acer_tf.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["", "table_control", *sys.argv[1:]]))
