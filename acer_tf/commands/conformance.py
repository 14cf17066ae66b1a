"""Checks the functions of any framework against the conformance kit: ACER's, DQN's and those of prioritized replay.

python -m acer_tf conformance
python -m acer_tf conformance --check=my_package.functions

docs/conformance.md says what each function takes and returns. What is not there is "not offered". The status is 1 if a
case fails, or none passes. acer_tf/conformance/check.py does the same without this package: copy it with the
vectors.json beside it.
"""

from acer_tf.commands import cli
from acer_tf.conformance.check import check, conforms, load, report
from acer_tf.errors import SettingsError

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.string("check", None, "module, or module:object, with functions of the kit's names; by default this package's")
flag.enum("precision", "float64", ["float64", "float32"], "of the functions: what they may differ by")


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    name = f"acer_tf.conformance.functions:{FLAGS.precision}" if FLAGS.check is None else FLAGS.check
    try:
        functions = load(name)
    except ImportError as error:
        raise SettingsError(f"--check={name}: {error}") from error
    outcomes = check(functions, FLAGS.precision)
    print(report(outcomes))
    return int(not conforms(outcomes))
