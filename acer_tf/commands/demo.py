"""A tour in minutes: trains on MinAtar Breakout and, briefly, on Atari Pong, exports, evaluates and plots.

python -m acer_tf demo

An interrupted demo continues where it stopped; a finished one only evaluates and plots again.
"""

import shlex
import time
from pathlib import Path

from acer_tf.commands import cli, curves, train
from acer_tf.errors import RunFolderError
from acer_tf.reproduction.evidence import Evidence, own_evidence, require_folder
from acer_tf.reproduction.report.page import require_page, write_page
from acer_tf.runs.folder import record_in
from acer_tf.settings import make_settings

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.path("output", "demo_output", "folder for everything that the demo makes")
flag.integer("minatar_steps", 400_000, "steps on MinAtar Breakout", 1, 10**12)
flag.integer("pong_steps", 40_000, "steps on Atari Pong", 1, 10**12)
flag.integer("episodes", 30, "episodes per evaluation", 1, 1_000_000)

# Environments, and the flags of their steps, by folder.
_RUNS = {"minatar_breakout": ("minatar/breakout", "minatar_steps"), "pong": ("atari/Pong", "pong_steps")}


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    # Imported here, because it takes seconds: bad flags and --help are answered at once.
    from acer_tf.policies.evaluation import evaluate
    from acer_tf.policies.policy import load_policy

    began = time.monotonic()
    output = Path(FLAGS.output)
    require_page(output)
    require_folder(output)
    command = shlex.join(["python", "-m", "acer_tf", *argv])
    made, runs = [], {}
    for name, (env, steps) in _RUNS.items():
        own_evidence(output / name, "demo")
        total = getattr(FLAGS, steps)
        settings = make_settings(env=env, total_steps=total, log_interval=max(1, total // 40))
        run_dir = curves.run_folder(output / name, "ACER", settings.seed)
        if (record := record_in(run_dir)) and record.settings["total_steps"] > total:
            raise RunFolderError(
                f"--{steps}={total}: {run_dir} is a run of {record.settings['total_steps']:,} steps: give at least as "
                "many, or another --output"
            )
        runs[name] = settings, run_dir
    for name, (settings, run_dir) in runs.items():
        print(f"\n== {settings.env}, {settings.total_steps:,} steps", flush=True)
        if status := train.run(settings, run_dir, checkpoint_minutes=2.0):
            return status
        with cli.begun():
            result = evaluate(load_policy(run_dir / "policy"), episodes=FLAGS.episodes)
            spread = f" ± {result.standard_error:.2f}" if result.standard_error is not None else ""
            text = f"The exported policy scores {result.mean:.2f}{spread} over {result.episodes} episodes."
            print(text)
            about = Evidence("demo", f"ACER on {settings.env}, replay ratio 4", (text,), command)
            curves.show({"ACER": [run_dir]}, output / name, about)
        made += [
            f"{output / name}/figure.png  learning curve",
            f"{run_dir}/policy  SavedModel",
            f"{run_dir}/progress.csv  the log; TensorBoard reads {run_dir}/tensorboard",
        ]
    made.append(f"{write_page(output)}  all of it on one page, for a browser")
    print(f"\nmade in {(time.monotonic() - began) / 60:.1f} minutes:\n  " + "\n  ".join(made))
    again = ["python", "-m", "acer_tf", "evaluate", f"--policy={runs['minatar_breakout'][1]}/policy"]
    print(f"evaluate again: {shlex.join(again)}")
    return 0
