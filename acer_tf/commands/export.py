"""Exports the policy of a run's newest checkpoint, also while the run goes on, or converts an exported policy.

python -m acer_tf export --run_dir=runs/pong --output=pong_policy
python -m acer_tf export --policy=results/policies/pong --format=onnx --output=pong.onnx

A SavedModel is a folder, which a newer export replaces. ONNX and TFLite are single files, which are not replaced.
"""

import tempfile
from pathlib import Path

from acer_tf.commands import cli
from acer_tf.errors import AcerError, PolicyFolderError, SettingsError

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.path("run_dir", None, "folder of the run")
flag.path("policy", None, "folder of an exported policy, instead of --run_dir")
flag.enum("format", "savedmodel", ["savedmodel", "onnx", "tflite"], "what to write")
flag.path("output", None, "folder or file for the policy; by default the folder RUN_DIR/policy")


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    if not FLAGS.run_dir and not FLAGS.policy:
        raise SettingsError("--run_dir or --policy is required; --help says what they take")
    if FLAGS.run_dir and FLAGS.policy:
        raise SettingsError(f"--policy={FLAGS.policy}: has no effect with --run_dir={FLAGS.run_dir}; give one of them")
    if FLAGS.policy and FLAGS.format == "savedmodel":
        raise SettingsError(f"--format=savedmodel: --policy={FLAGS.policy} is one already; must be onnx or tflite")
    if FLAGS.format != "savedmodel" and not FLAGS.output:
        raise SettingsError(f"--output is required with --format={FLAGS.format}: the file to write")
    cli.require_existing(FLAGS, "run_dir", "policy")
    # Imported here, because it takes seconds: bad flags and --help are answered at once.
    from acer_tf.policies.formats import convert, require_convertible
    from acer_tf.policies.policy import load_policy
    from acer_tf.training.device import CPU, use_device
    from acer_tf.training.export_run import export_run

    output = Path(FLAGS.output or Path(FLAGS.run_dir, "policy"))
    use_device(CPU)  # a GPU may be in use by the run itself
    try:
        if FLAGS.format == "savedmodel":
            steps = export_run(Path(FLAGS.run_dir), output)
        else:
            require_convertible(output, FLAGS.format)
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(FLAGS.policy or f"{scratch}/policy")
                if FLAGS.run_dir:
                    export_run(Path(FLAGS.run_dir), folder)
                policy = load_policy(folder)
                convert(policy, output, FLAGS.format)
            steps = policy.metadata["steps"]
    except PolicyFolderError as error:
        raise PolicyFolderError(f"--output={output}: {error}") from error
    except OSError as error:
        raise AcerError(f"--output={output} not written: {error}") from error
    print(f"policy of step {steps:,} in {output}")
    return 0
