"""Trains one agent in one environment, or continues the run in --run_dir.

python -m experiments.train --env=atari/Pong --preset=baselines --total_steps=10_000_000 --run_dir=runs/pong
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf
from absl import app, flags, logging

from acer_tf.envs import InvalidEnvironment
from acer_tf.training.checkpoint import CheckpointError
from acer_tf.training.loop import NonFiniteError
from acer_tf.training.records import RunFolderError
from acer_tf.training.run import Interrupted, train
from acer_tf.training.settings import PRESETS, Settings, SettingsError, make_settings, setting_types

_HELP = {
    "env": "environment: atari/<Game>, minatar/<game>, or a gymnasium id such as CartPole-v1",
    "agent": "acer, or a3c / trust_a3c (the same update at replay ratio 0, without / with trust region)",
    "preset": "named set of values, each of which its own flag overrides: " + ", ".join(PRESETS),
    "seed": "seed of everything random in the run",
    "total_steps": "agent decisions over all environments (an Atari step is 4 frames)",
    "log_interval": "steps between rows of progress.csv",
    "atari_preset": "acer2016 or machado2018",
    "num_envs": "environments that step together",
    "unroll_length": "k: steps per environment between on-policy updates",
    "replay_ratio": "mean number of replayed updates per on-policy update (Poisson)",
    "replay_start": "steps per environment before replay begins",
    "replay_capacity": "steps per environment that replay keeps",
    "replay_segments_only": "replay windows start only where collected segments did, as in OpenAI baselines",
    "network": "nature, small, mlp, or auto by the observations",
    "precision": "of the torso: float32, bfloat16, or auto by the processor",
    "initialization": "orthogonal or fan_in",
    "learning_rate": "RMSProp's step size, not annealed",
    "rmsprop_decay": "decay of RMSProp's mean square",
    "rmsprop_epsilon": "ε inside RMSProp's root",
    "rmsprop_initial_accumulator": "start of RMSProp's mean square",
    "max_gradient_norm": "clip of the gradient's global norm; inf for none",
    "gamma": "discount factor",
    "retrace_lambda": "λ of Retrace",
    "importance_truncation": "c; inf for none",
    "trust_region_delta": "δ per state; inf for no trust region",
    "average_decay": "α of the average policy network",
    "entropy_weight": "β of the entropy bonus",
    "entropy_in_trust_region": "whether the entropy's gradient is projected with the rest",
    "critic_weight": "factor of ½ (Q_ret − Q)²",
    "reduction": "mean over rows, or sum over rows and mean over trajectories",
    "reward_clip": "learning clips rewards to ± this; by default 1 on Atari and inf elsewhere",
}
_DEFINE = {int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool, str: flags.DEFINE_string}
_DEFAULTS = {name: field.default for name, field in Settings.__dataclass_fields__.items()}

for _name, _type in setting_types().items():
    _default = _DEFAULTS[_name] if _name != "env" else None
    _shown = "" if _default is None else f" (preset baselines: {_default})"
    _DEFINE[_type](_name, None, _HELP[_name] + _shown)

_RUN_DIR = flags.DEFINE_string("run_dir", None, "folder of this run; the same command continues it")
_CHECKPOINT_MINUTES = flags.DEFINE_float("checkpoint_minutes", 10.0, "minutes between checkpoints", lower_bound=0.0)
_THREADS = flags.DEFINE_integer("threads", 0, "threads of TensorFlow and of ALE; 0 for one per core", lower_bound=0)


def main(_: list[str]) -> int:
    logging.set_verbosity(logging.WARNING)
    try:
        if _RUN_DIR.value is None:
            raise SettingsError("--run_dir is required, such as --run_dir=runs/pong")
        given = {name: flags.FLAGS[name].value for name in setting_types() if flags.FLAGS[name].value is not None}
        settings = make_settings(given)
    except SettingsError as error:
        return _fail(2, error)
    return run(settings, Path(_RUN_DIR.value), _CHECKPOINT_MINUTES.value, _THREADS.value)


def run(settings: Settings, run_dir: Path, checkpoint_minutes: float, threads: int) -> int:
    """Trains and turns what went wrong into a line on standard error and an exit code: 2 bad input, 1 failure."""
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    try:
        policy = train(settings, run_dir, checkpoint_minutes=checkpoint_minutes, threads=threads)
    except (InvalidEnvironment, SettingsError, RunFolderError) as error:
        return _fail(2, error)
    except NonFiniteError as error:
        return _fail(1, f"stopped: {error}; the last checkpoint in {run_dir} is from before")
    except CheckpointError as error:
        return _fail(1, error)
    except Interrupted as interrupted:
        print(f"stopped by {interrupted}; the same command continues from here", file=sys.stderr)
        return 128 + interrupted.signal_number
    print(f"finished: policy in {policy}")
    return 0


def _fail(code: int, error: object) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    app.run(main)
