"""A script that runs cells with the sweep's flags, as those of figures and tables do.

python -m tests.reproduction.sweep.tiny_sweep --sweep_dir=... --seeds=2 --total_steps=2000
"""

import sys

from acer_tf.commands import cli, sweep_flags
from acer_tf.reproduction.cells import Cell
from tests.training.scripted import small_settings

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
sweep_flags.define(FLAGS, "tiny")
flag.integer("seeds", 2, "runs")
flag.integer("total_steps", 2000, "steps of each")


@cli.command
def main(argv):
    cli.parse(FLAGS, argv, __doc__)
    steps = FLAGS.total_steps
    cells = [Cell.asked("ACER", small_settings(seed=seed, total_steps=steps)) for seed in range(FLAGS.seeds)]
    return sweep_flags.run(FLAGS, "tiny", cells)[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv))
