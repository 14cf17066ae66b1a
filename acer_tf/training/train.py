"""A run: trains a policy by given settings in a folder, or resumes where an earlier process stopped.

<run_dir>/run.json        settings and provenance
<run_dir>/packages.txt    installed packages
<run_dir>/progress.csv    one row per log interval
<run_dir>/tensorboard/    the same as events
<run_dir>/checkpoints/    see runs.checkpoint
<run_dir>/policy/         the SavedModel
<run_dir>/best_policy/    the one with the highest mean return in evaluation, if the run evaluates
<run_dir>/lock            held by the process that uses the folder

This module imports no TensorFlow: bad input is refused, and what runs is said, before that takes its seconds.
"""

from __future__ import annotations

import inspect
import numbers
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acer_tf import envs
from acer_tf.errors import RunFolderError, SettingsError
from acer_tf.files import missing_parts
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import REPAIRS, known_run, require_same_factory, require_same_run
from acer_tf.runs.records import ProgressRow
from acer_tf.settings import Settings, whole_number
from acer_tf.settings.declaration import at_least
from acer_tf.settings.effect import require_effect
from acer_tf.settings.record import settings_from
from acer_tf.training.device import ACTING_DEVICES, ACTING_GB, CPU, find_device
from acer_tf.training.initialize import require_source
from acer_tf.training.logged import Behaviour, Episode, Log
from acer_tf.training.resolve import resolve

if TYPE_CHECKING:
    from acer_tf.policies.policy import Policy


def train(
    settings: Settings,
    run_dir: str | Path,
    *,
    checkpoint_minutes: float = 10.0,
    threads: int = 0,
    env_workers: int = 1,
    device: str = "auto",
    gpu_memory_gb: float = 0.0,
    acting_device: str = "same",
    replay_file: str | Path | None = None,
    ray_address: str | None = None,
    actor_timeout: float | None = None,
    repair: Collection[str] = (),
    quiet: bool = False,
    env: envs.EnvFactory | None = None,
    on_row: Callable[[ProgressRow, Policy], None] | None = None,
    replay_from: Iterable[Episode] | None = None,
    behaviour: Behaviour | None = None,
) -> Path:
    """Trains for `settings.total_steps`; resumes the run in `run_dir` if it was interrupted, or was shorter.

    >>> settings = acer_tf.make_settings(env="CartPole-v1", total_steps=30_000, replay_start=100)
    >>> policy_dir = acer_tf.train(settings, "runs/cartpole", on_row=lambda row, policy: print(row["mean_return"]))

    Args:
        settings: the run's. A run continues with those that it began with, but for more `total_steps`, another
            `log_interval`, and, if it evaluates, other `evaluate_...` and `stop_at_return`.
        run_dir: a folder of its own; created if it does not exist.
        checkpoint_minutes: minutes between checkpoints.
        threads: the number for TensorFlow, and for environments (atari/, control/), see `use_threads`; 0 for the
            number that suits the machine.
        env_workers: processes that step the environments, a divisor of `settings.num_envs`; 1 for this process alone,
            which gives the same rows. They pay off where a step of an environment takes a millisecond or more.
        device: "auto" (the first GPU, or else the CPU), "cpu" or "gpu:N".
        gpu_memory_gb: the most memory of the GPU to take; 0 for what it needs.
        acting_device: where actors that collect during the updates choose actions. "same": on `device`. "second": on a
            second logical device of the same processor; on a GPU, acting then need not wait for the updates. "cpu".
        replay_file: a new file to hold a replay that is larger than memory while the process runs.
        ray_address: the Ray cluster whose nodes run `settings.actors`: "local" (one that only this machine can
            reach), "auto" or host:port; None for actors in this process, which gives the same rows.
        actor_timeout: seconds without an unroll after which an actor on Ray is replaced; None for 300.
        repair: what may be given up of a damaged run that could not continue otherwise: names of `runs.folder.REPAIRS`.
        quiet: print no progress lines.
        env: makes one gymnasium environment of the caller's, or a vector environment: see `envs.make`. `settings.env`
            is then only its name, whose family decides the usual preset and reward clip.
        on_row: called with each row of progress.csv once it is written, Python numbers or None by column; and with
            the run's policy, which acts as that of `load_policy` does, but always with the weights of now, and has a
            method `export(directory)`. Nothing is made for it until it is used. If `on_row` raises, the run stops after
            a checkpoint that includes the row, and leaves its policy. A resumed run repeats the rows after its
            checkpoint.
        replay_from: logged episodes, with which a new run fills its replay before its first step: see `logged.Episode`
            and `logged.Log`. Moments of observations and rewards that the run keeps take them in too; steps and returns
            that it reports do not. A recurrent network's states are those that it has as the run begins. A run that
            continues has them in its checkpoints, and reads nothing again.
        behaviour: of episodes that do not have theirs, an estimate of the policy that acted: "uniform", for one that
            was over the valid actions; or a function from observations [T, ...], and in environments with action masks
            also the valid actions [T, A] bool, to what `Episode.behaviour` is. It is called once for each episode.

    Returns:
        The folder of the exported policy.

    Raises:
        InvalidEnvironment, SettingsError: bad input; nothing was started or written.
        InvalidEnvironment, SettingsError, PolicyError: an evaluation could not begin; a checkpoint was written.
        RunFolderError: the folder cannot be used, is in use, holds another run, or rows of progress that are not those
            of its checkpoint, or has ended and has no checkpoint.
        Interrupted: by a signal; a checkpoint was written. It is a KeyboardInterrupt, not an Exception.
        EnvironmentFailure: the environment raised, or returned what it must not.
        NonFiniteError: learning diverged; the last checkpoint is from before.
        CheckpointError: a checkpoint could not be written, none could be read, or another version wrote it.
        RecordError: run.json was damaged or removed meanwhile.
        ClusterLost: the Ray cluster is gone, or an actor could not be replaced; a checkpoint was written.
        OSError: another file could not be written (disk full); the last checkpoint is intact.
        BaseException: what `on_row` raised.
    """
    if not isinstance(settings, Settings):
        raise SettingsError(
            f"train takes the settings that make_settings returns, got a {type(settings).__name__}: "
            f"train(make_settings({settings!r:.60}), run_dir)"
        )
    threads = whole_number("threads", threads, at_least(0))
    env_workers = whole_number("env_workers", env_workers, at_least(1))
    for name, value, least in (
        ("checkpoint_minutes", checkpoint_minutes, 0),
        ("gpu_memory_gb", gpu_memory_gb, 0),
        ("actor_timeout", 1 if actor_timeout is None else actor_timeout, 1),
    ):
        if not (isinstance(value, numbers.Real) and value >= least):  # NaN neither
            raise SettingsError(f"--{name}={value}: must be at least {least}")
    if acting_device not in ACTING_DEVICES:
        raise SettingsError(f"--acting_device={acting_device}: must be of {', '.join(ACTING_DEVICES)}")
    if acting_device != "same" and (ray_address is not None or not settings.actors):
        raise SettingsError(f"--acting_device={acting_device}: has an effect only with --actors, in this process")
    repair = {repair} if isinstance(repair, str) else set(repair or ())
    if unknown := repair - set(REPAIRS):
        raise SettingsError(f"--repair={', '.join(sorted(unknown))}: must be of {', '.join(REPAIRS)}")
    if ray_address is not None and not settings.actors:
        raise SettingsError(f"--ray_address={ray_address}: has no effect with --actors=0; give the number of actors")
    if env_workers > 1 and ray_address is not None:
        raise SettingsError(f"--env_workers={env_workers}: has no effect with --ray_address, whose actors step alone")
    if env_workers > 1 and settings.actors > 1:
        raise SettingsError(f"--env_workers={env_workers}: must be 1 with --actors={settings.actors}; give 0 or 1")
    if env_workers > 1:
        envs.require_workers(settings.env, settings.num_envs, env_workers, env)
    if actor_timeout is not None and ray_address is None:
        raise SettingsError(f"--actor_timeout={actor_timeout}: has no effect without --ray_address")
    if not isinstance(run_dir, str | os.PathLike):
        raise RunFolderError(f"run_dir must be a path, got {run_dir!r}")
    if not str(run_dir):
        raise RunFolderError("--run_dir= must name a folder")
    folder = Path(run_dir)
    options: dict[str, Any] = {"atari_preset": settings.atari_preset, "action_masks": settings.action_masks}
    if settings.evaluate_every and settings.evaluate_max_episode_steps:  # vector environments take no limit
        options["max_episode_steps"] = settings.evaluate_max_episode_steps
    record = known_run(folder)
    if record:
        require_same_factory(record, env is not None, folder)
    begun = Path.cwd()
    spec = envs.spec(settings.env, factory=env, **options)
    if Path.cwd() != begun and not folder.is_absolute():
        raise RunFolderError(f"--run_dir={folder}: must be absolute, as {settings.env} changes the working directory")
    where = find_device(device)
    if gpu_memory_gb and where == CPU:
        raise SettingsError(f"--gpu_memory_gb={gpu_memory_gb:g}: has no effect on a run that computes on the CPU")
    settings = resolve(settings, spec, record.settings if record else None, where)
    if acting_device == "second" and where != CPU and gpu_memory_gb <= ACTING_GB:
        raise SettingsError(
            f"--acting_device=second: give --gpu_memory_gb, of which {ACTING_GB:g} are for acting: TensorFlow must "
            "bound the memory of two logical devices"
        )
    if settings.precision == "tf32" and where == CPU and not record:
        raise SettingsError("--precision=tf32: only GPUs have it, and this run would compute on the CPU")
    if record:
        require_same_run(record, settings, spec, folder)
    else:  # a run that began before a check was made may continue
        require_effect(settings, spec)
        if settings.initialize_from is not None:
            require_source(settings, spec)
    if on_row is not None:
        _require_call("on_row", on_row, "row", "policy")
    if replay_from is not None and not isinstance(replay_from, Iterable | Episode):
        raise SettingsError(f"replay_from: must be episodes, got {replay_from!r:.60}")
    if behaviour is not None and replay_from is None:
        raise SettingsError("behaviour: has no effect without replay_from")
    if replay_from is not None and record and "replay_from" not in record.document:
        raise RunFolderError(f"--run_dir={folder} holds a run that began without replay_from: choose another folder")
    may_begin = record is None or "restart" in repair or not Checkpoints(folder / "checkpoints").saved()
    if replay_from is None and may_begin and record and "replay_from" in record.document:
        raise RunFolderError(f"--run_dir={folder} was begun with replay_from, and may begin anew: give it again")
    if not quiet:
        how = f"preset {settings.preset}, network {settings.architecture}, precision {settings.precision}, on {where}"
        print(f"{settings.agent} on {settings.env}, {how}, in {folder}", flush=True)
    policy = folder / "policy"
    done = record and record.finished and record.settings["total_steps"] == settings.total_steps
    if record and (score := record.document.get("stopped_at_return")) is not None:
        done = done and settings.ended_by(score, settings_from(record.settings).evaluation_protocol)
    if done and not missing_parts(policy):
        if not quiet:
            print(f"{folder} holds this run, already finished", flush=True)
        return policy
    log = Log(replay_from, behaviour, settings, spec) if replay_from is not None and may_begin else None
    from acer_tf.training.job import Job
    from acer_tf.training.run import run

    return run(
        Job(
            settings=settings,
            spec=spec,
            folder=folder,
            record=record,
            device=where,
            checkpoint_minutes=checkpoint_minutes,
            threads=threads,
            env_workers=env_workers,
            gpu_memory_gb=gpu_memory_gb,
            acting_device=acting_device,
            replay_file=Path(replay_file) if replay_file else None,
            ray_address=ray_address,
            actor_timeout=actor_timeout or 300.0,
            repair=repair,
            quiet=quiet,
            env=env,
            on_row=on_row,
            episodes=log,
        )
    )


def _require_call(name: str, function: Any, *arguments: str) -> None:
    """Raises SettingsError unless a function takes so many arguments, as far as that is known."""
    try:
        inspect.signature(function).bind(*arguments)
    except ValueError:
        return  # of Python's own functions
    except TypeError as error:
        raise SettingsError(f"{name}: must be a function of ({', '.join(arguments)}): {error}") from None
