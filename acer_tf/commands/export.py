"""Exports the policy of a run's newest checkpoint as a SavedModel, also while the run goes on.

python -m acer_tf export --run_dir=runs/pong --output=pong_policy
"""

from __future__ import annotations

from pathlib import Path

from absl import flags

from acer_tf.commands import cli

FLAGS = cli.new_flags()
flags.DEFINE_string("run_dir", None, "folder of the run", flag_values=FLAGS)
flags.DEFINE_string("output", None, "folder for the policy; by default RUN_DIR/policy", flag_values=FLAGS)


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("run_dir",), paths=("run_dir", "output"))
    # Imported here, because it takes seconds: bad flags and --help are answered at once.
    from acer_tf.envs import InvalidEnvironment
    from acer_tf.settings import SettingsError
    from acer_tf.training.checkpoint import CheckpointError
    from acer_tf.training.export import PolicyFolderError
    from acer_tf.training.lock import RunFolderError
    from acer_tf.training.run import export_run

    run_dir = Path(FLAGS.run_dir)
    output = Path(FLAGS.output) if FLAGS.output else run_dir / "policy"
    try:
        steps = export_run(run_dir, output)
    except (RunFolderError, SettingsError, InvalidEnvironment) as error:
        return cli.fail(2, error)
    except PolicyFolderError as error:
        return cli.fail(2, f"--output={output}: {error}")
    except (CheckpointError, OSError) as error:
        return cli.fail(1, error)
    print(f"policy of step {steps:,} in {output}")
    return 0
