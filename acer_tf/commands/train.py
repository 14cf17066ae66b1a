"""Trains one agent in one environment, or continues the run in --run_dir.

python -m acer_tf train --env=atari/Pong --preset=baselines --total_steps=10_000_000 --run_dir=runs/pong
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from absl import flags

from acer_tf.commands import cli
from acer_tf.envs import InvalidEnvironment
from acer_tf.settings import PRESETS, Settings, SettingsError, make_settings, setting_types

_HELP = {
    "env": "environment: atari/<Game>, minatar/<game>, control/<task>, dm_control/<domain>-<task>-v0, or a gymnasium "
    "id such as CartPole-v1",
    "agent": "discrete actions: acer, or a3c / trust_a3c (the same update at replay ratio 0, without / with trust "
    "region), or dqn; continuous ones: acer_continuous, a3c, trust_a3c, tis, trust_tis",
    "preset": "named set of values, each of which its own flag overrides: " + ", ".join(PRESETS),
    "seed": "seed of everything random in the run",
    "total_steps": "agent decisions over all environments (an Atari step is 4 frames)",
    "log_interval": "steps between rows of progress.csv",
    "atari_preset": "acer2016 or machado2018",
    "num_envs": "environments that step together",
    "unroll_length": "k: steps per environment between on-policy updates",
    "trajectories_per_update": "trajectories of k steps that one update learns from; a divisor of num_envs, or 0 for "
    "one of every environment",
    "on_policy_updates": "whether the steps just collected make an update of their own, besides joining the replay",
    "replay_ratio": "mean number of replayed updates per on-policy update (Poisson)",
    "replay_start": "steps per environment before replay begins",
    "replay_capacity": "steps per environment that replay keeps",
    "replay_poisson": "whether the number of replayed updates is drawn (Poisson), or is always the replay ratio",
    "replay_priority": "draw what is replayed uniformly, by priority (proportional), or by the rank of its priority",
    "replay_batch": "trajectories (DQN: transitions) per draw by priority; 0 for trajectories_per_update",
    "priority_exponent": "α: draws are in proportion to priority^α, at the run's start",
    "priority_exponent_final": "α at the run's end, linearly from its start",
    "priority_epsilon": "ε: a priority is |error| + ε",
    "importance_exponent": "β: draws weigh (stored · probability)^-β, at the run's start",
    "importance_exponent_final": "β at the run's end, linearly from its start",
    "weights_by_batch": "divide the draws' weights by the largest in the batch, else by the largest in the replay",
    "replay_segments_only": "replay windows start only where collected segments did, as in OpenAI baselines",
    "network": "nature, small, mlp, or auto by the observations; discrete ACER and A3C also: nature_lstm, small_lstm, "
    "mlp_lstm, the same with an LSTM of 256 units behind the torso",
    "burn_in": "recurrent networks: rows before each replayed window that move the stored state and teach nothing",
    "precision": "of the torso: float32, bfloat16, or auto by the processor",
    "initialization": "orthogonal or fan_in",
    "learning_rate": "RMSProp's step size, not annealed",
    "rmsprop_decay": "decay of RMSProp's mean square",
    "rmsprop_epsilon": "ε inside RMSProp's root",
    "rmsprop_centered": "take the square of the gradient's running mean off under RMSProp's root",
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
    "reduction": "mean over rows; sum over rows and mean over trajectories; or threads: so, with the learning rate and "
    "the decays of as many updates as there are trajectories",
    "policy_std": "continuous actions: σ of the policy, fixed, in units in which actions lie in [-1, 1]",
    "advantage_samples": "acer_continuous: n of the stochastic dueling network",
    "normalize_observations": "continuous actions: normalise observations by their running mean and variance",
    "dueling": "acer_continuous: stochastic dueling network; without it V and Q are separate (ablation)",
    "retrace": "acer_continuous: Retrace and Q_opc; without them importance-sampled returns (ablation)",
    "double_q": "dqn: the online network chooses the next action that the target network values",
    "shared_bias": "dqn: one bias for all actions in the top layer",
    "error_clip": "dqn: errors beyond this have the gradient of this; inf for none",
    "target_period": "dqn: steps between copies of the online into the target network",
    "exploration_final": "dqn: ε of the ε-greedy policy at the end of its way from 1",
    "exploration_steps": "dqn: steps of that way, from where learning begins",
    "evaluation_epsilon": "dqn: ε of the exported policy",
    "reward_clip": "learning clips rewards to ± this; by default 1 on Atari and inf elsewhere",
}
_DEFINE: dict[type, Any] = {
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    str: flags.DEFINE_string,
}

FLAGS = cli.new_flags()


def _defaults(name: str) -> str:
    """What a flag is where it is not given, and with which presets it is something else."""
    default = getattr(Settings, name, None)
    presets: dict[Any, list[str]] = {}
    for preset, values in PRESETS.items():
        if name in values and values[name] != default:
            presets.setdefault(values[name], []).append(preset)
    others = "".join(f"; preset {' or '.join(which)}: {value}" for value, which in presets.items())
    return "" if default is None else f" (default: {default}{others})"


for _name, _type in setting_types().items():
    _DEFINE[_type](_name, None, _HELP[_name] + _defaults(_name), flag_values=FLAGS)
flags.DEFINE_string("run_dir", None, "folder of this run; the same command continues it", flag_values=FLAGS)
flags.DEFINE_float("checkpoint_minutes", 10.0, "minutes between checkpoints", lower_bound=0.0, flag_values=FLAGS)
flags.DEFINE_integer(
    "threads", 0, "threads of TensorFlow and of ALE; 0 for what fits the machine", lower_bound=0, flag_values=FLAGS
)

flags.DEFINE_string(
    "replay_file",
    None,
    "new file to hold the replay in, for one larger than memory; its disk space comes free at the end",
    flag_values=FLAGS,
)


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("run_dir",))
    try:
        settings = make_settings({name: FLAGS[name].value for name in setting_types() if FLAGS[name].value is not None})
    except SettingsError as error:
        return cli.fail(2, error)
    return run(
        settings,
        Path(FLAGS.run_dir),
        checkpoint_minutes=FLAGS.checkpoint_minutes,
        threads=FLAGS.threads,
        replay_file=Path(FLAGS.replay_file) if FLAGS.replay_file else None,
    )


def run(settings: Settings, run_dir: Path, **options: Any) -> int:
    """`acer_tf.training.run.train`, with what went wrong as a line on standard error and an exit code.

    Returns:
        0, or 2 for bad input, 1 for a failure, 128 + the signal's number.
    """
    # Loaded here, because it takes seconds: bad flags and --help are answered at once.
    from acer_tf.training.actor import NonFiniteError
    from acer_tf.training.checkpoint import CheckpointError
    from acer_tf.training.lock import RunFolderError
    from acer_tf.training.run import Interrupted, train

    try:
        policy = train(settings, run_dir, **options)
    except (InvalidEnvironment, SettingsError, RunFolderError) as error:
        return cli.fail(2, error)
    except NonFiniteError as error:
        return cli.fail(1, f"stopped: {error}; checkpoints in {run_dir} are from before")
    except CheckpointError as error:
        return cli.fail(1, error)
    except OSError as error:
        return cli.fail(1, f"stopped: {error}; the same command continues from the last checkpoint")
    except Interrupted as interrupted:
        print(f"stopped by {interrupted}; the same command continues from here", file=sys.stderr)
        return 128 + interrupted.signal_number
    print(f"finished: policy in {policy}")
    return 0
