"""Trains one agent in one environment, or continues the run in --run_dir.

python -m acer_tf train --env=atari/Pong --total_steps=2_000_000 --run_dir=runs/pong

A run that is continued keeps its env, agent, preset, total_steps and log_interval where they are not given.
"""

import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

from acer_tf.commands import cli, setting_flags
from acer_tf.errors import AcerError, EnvironmentFailure, Interrupted, NonFiniteError
from acer_tf.references import is_reference
from acer_tf.runs.folder import REPAIRS, record_in
from acer_tf.runs.signals import STOPPED, signal_of
from acer_tf.settings import Settings, make_settings, setting_types
from acer_tf.training.device import ACTING_DEVICES
from acer_tf.training.train import train

FLAGS = cli.new_flags()
_run = cli.definers(FLAGS, "Run")
_run.path("run_dir", None, "folder of this run; the same command continues it")
setting_flags.define(FLAGS)
_run.float("checkpoint_minutes", 10.0, "minutes between checkpoints", lower_bound=0.0)
_run.multi_enum(
    "repair",
    [],
    list(REPAIRS),
    "how a damaged run may continue: with the part of the replay that can be read; with a new progress.csv; or, if "
    "no checkpoint has weights that can be read, from step 0. A replaced progress.csv or run is kept beside it",
)
_MACHINE = "Machine"
flag = cli.definers(FLAGS, _MACHINE)
cli.define_device(FLAGS, _MACHINE)
_threads = "threads of TensorFlow, ALE and control/; 0 for the number that fits the machine"
flag.integer("threads", 0, _threads, 0, cli.MOST_THREADS)
_workers = "processes that step gymnasium's, MinAtar's and dm_control's environments; must divide --num_envs"
flag.integer("env_workers", 1, _workers, 1, cli.MOST_THREADS)
flag.float("gpu_memory_gb", 0.0, "most GPU memory to take, for runs that share a GPU; 0 for as much as it needs", 0.0)
flag.enum(
    "acting_device",
    "same",
    list(ACTING_DEVICES),
    "where actors beside the updates (--actors) choose actions: as --device; on a second logical "
    "device of the same processor, with streams of its own on a GPU; or on the CPU",
)
flag.path("replay_file", None, "new file that holds a replay larger than memory; it is deleted at the end")
flag.string(
    "ray_address",
    None,
    "where the actors of --actors run: local for a Ray cluster of this machine alone, auto for the cluster that it "
    "belongs to, or host:port; if not given, in threads of this process",
)
flag.float(
    "actor_timeout",
    None,
    "seconds without an unroll after which an actor on Ray is replaced by another; if not given, 300",
    1.0,
)


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("run_dir",))
    run_dir = Path(FLAGS.run_dir)
    given = setting_flags.given(FLAGS)
    if record := record_in(run_dir):
        # Kept without their flags; "auto" may mean another preset in this version. Another run is refused later.
        recorded = record.settings
        if all(given.get(name, recorded[name]) == recorded[name] for name in ("env", "agent")):
            given = {name: recorded[name] for name in ("env", "agent", "preset", "total_steps", "log_interval")} | given
    others = [name for name in FLAGS if name not in (*setting_types(), "help", "run_dir")]
    return run(make_settings(given), run_dir, **{name: FLAGS[name].value for name in others})


@cli.command
def run(settings: Settings, run_dir: Path, **options: Any) -> int:
    """Calls `train`; returns the exit status: 0, 2 for bad input, 1 for a failure, 128 + the signal's number."""
    try:
        policy = train(settings, run_dir, **options)
    except NonFiniteError as error:
        return cli.fail(1, f"stopped in {settings.env}: {error}; checkpoints in {run_dir} {error.left}")
    except (EnvironmentFailure, OSError) as error:
        if not _begun(run_dir):
            raise
        line = f"stopped: {error}; the same command continues from the last checkpoint"
        return cli.fail(1, line, error.__cause__ if isinstance(error, EnvironmentFailure) else None)
    except Interrupted as interrupted:
        return _stopped(interrupted.signal_number, "here")
    except AcerError:
        raise
    except STOPPED as stop:  # before the first step, or the second Ctrl-C
        if not _begun(run_dir):
            raise
        return _stopped(signal_of(stop), "the last checkpoint")
    except Exception as error:
        theirs = [
            f"--{name}={value}"
            for name in ("agent", "network", "optimizer")
            if is_reference(value := getattr(settings, name))
        ]
        if not theirs:  # a mistake of ours, whose traceback says more than a line
            raise
        last = str(error).strip().rpartition("\n")[2]  # TensorFlow begins with where it was
        return cli.fail(1, f"stopped: {' or '.join(theirs)} failed: {type(error).__name__}: {last}", error)
    print(f"finished: policy in {policy}")
    return 0


def _begun(run_dir: Path) -> bool:
    """Whether there is a checkpoint, from which the same command continues."""
    return (run_dir / "checkpoints").exists()


def _stopped(number: int, where: str) -> int:
    """Says from where the run continues; returns the exit status after a signal."""
    with contextlib.suppress(OSError):  # Ctrl-C also ends the reader of a pipe
        print(f"stopped by {signal.Signals(number).name}; the same command continues from {where}", file=sys.stderr)
    return 128 + number
