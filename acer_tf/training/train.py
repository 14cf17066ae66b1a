"""A run: trains a policy by given settings in a folder, or resumes where an earlier process stopped.

<run_dir>/run.json        settings and provenance
<run_dir>/packages.txt    installed packages
<run_dir>/progress.csv    one row per log interval
<run_dir>/tensorboard/    the same as events
<run_dir>/checkpoints/    see training.checkpoint
<run_dir>/policy/         the SavedModel
<run_dir>/lock            held by the process that uses the folder
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import keras
import numpy as np

from acer_tf import envs
from acer_tf.agents.agent import Agent
from acer_tf.errors import ClusterLost, Interrupted, NonFiniteError, RunFolderError, SettingsError
from acer_tf.files import missing_parts
from acer_tf.policies.export import exporting
from acer_tf.runs.checkpoint import Checkpoints, Snapshot
from acer_tf.runs.folder import REPAIRS, Lock, record_in, require_same_run, resume
from acer_tf.runs.progress import Progress, progress_line, require_diagnostics
from acer_tf.runs.provenance import provenance, user_modules
from acer_tf.runs.records import (
    RunRecord,
    amend_record,
    begin_record,
    differences_of_makers,
    history_entry,
    maker_of,
    read_record,
    write_json,
)
from acer_tf.runs.signals import StopRequest
from acer_tf.settings import Settings
from acer_tf.settings.record import settings_document
from acer_tf.training.actor import Actors
from acer_tf.training.build import make_agent, make_local_actors, make_loop, make_network, make_replay, require_effect
from acer_tf.training.collector import Collector
from acer_tf.training.device import CPU, Device, find_device, use_device, use_threads
from acer_tf.training.export_run import policy_metadata
from acer_tf.training.ray_actors import RayActors, Stopped
from acer_tf.training.ray_connection import connect
from acer_tf.training.resolve import resolve

Row = dict[str, float | int | None]  # of progress.csv, by column; None for an empty cell


def train(
    settings: Settings,
    run_dir: str | Path,
    *,
    checkpoint_minutes: float = 10.0,
    threads: int = 0,
    device: str = "auto",
    gpu_memory_gb: float = 0.0,
    replay_file: str | Path | None = None,
    ray_address: str | None = None,
    actor_timeout: float | None = None,
    repair: Collection[str] = (),
    quiet: bool = False,
    env: envs.EnvFactory | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> Path:
    """Trains for `settings.total_steps`; resumes the run in `run_dir` if it was interrupted, or was shorter.

    >>> settings = acer_tf.make_settings(env="CartPole-v1", total_steps=30_000, replay_start=100)
    >>> policy_dir = acer_tf.train(settings, "runs/cartpole", on_row=lambda row: print(row["mean_return"]))

    Args:
        settings: of the run. A run continues with those that it began with, but for more `total_steps` or another
            `log_interval`.
        run_dir: a folder of its own; created if it does not exist.
        checkpoint_minutes: minutes between checkpoints.
        threads: of TensorFlow, and of environments (atari/, control/), see `use_threads`; 0 for what suits the
            machine.
        device: "auto" (the first GPU, or else the CPU), "cpu" or "gpu:N".
        gpu_memory_gb: the most memory of the GPU to take; 0 for what it needs.
        replay_file: a new file to hold a replay that is larger than memory while the process runs.
        ray_address: of the Ray cluster whose nodes run `settings.actors`: "local" (one that only this machine can
            reach), "auto" or host:port; None for actors in this process, in turn, which gives the same rows.
        actor_timeout: seconds without an unroll after which an actor on Ray is replaced; None for 300.
        repair: what may be given up of a damaged run that could not continue otherwise: names of `run_folder.REPAIRS`.
        quiet: print no progress lines.
        env: makes one gymnasium environment of the caller's; `settings.env` is then only its name, whose family decides
            the usual preset and reward clip.
        on_row: called with each row of progress.csv once it is written: Python numbers or None, by column. If it
            raises, the run stops after a checkpoint that includes the row. A resumed run repeats the rows after its
            checkpoint.

    Returns:
        The folder of the exported policy.

    Raises:
        InvalidEnvironment, SettingsError: bad input; nothing was started or written.
        RunFolderError: the folder cannot be used, is in use, holds another run, or rows of progress that are not those
            of its checkpoint.
        Interrupted: by a signal; a checkpoint was written.
        EnvironmentFailure: the environment raised, or returned what its spaces do not promise.
        NonFiniteError: learning diverged; the last checkpoint is from before.
        CheckpointError: a checkpoint could not be written, or none could be read.
        Mismatch: another version wrote the checkpoint.
        RecordError: run.json was damaged or removed meanwhile.
        ClusterLost: the Ray cluster is gone, or an actor could not be replaced; a checkpoint was written.
        OSError: another file could not be written (disk full); the last checkpoint is intact.
        Exception: what `on_row` raised.
    """
    if not str(run_dir):
        raise RunFolderError("--run_dir= must name a folder")
    if unknown := set(repair) - set(REPAIRS):
        raise SettingsError(f"--repair={', '.join(sorted(unknown))}: must be of {', '.join(REPAIRS)}")
    threads = operator.index(threads)
    for name, value, least in (
        ("checkpoint_minutes", checkpoint_minutes, 0),
        ("threads", threads, 0),
        ("gpu_memory_gb", gpu_memory_gb, 0),
        ("actor_timeout", actor_timeout, 1),
    ):
        if value is not None and not value >= least:  # NaN neither
            raise SettingsError(f"--{name}={value}: must be at least {least}")
    if (used := keras.backend.backend()) != "tensorflow":
        raise SettingsError(f"Keras computes with {used}: import acer_tf before keras, or set KERAS_BACKEND=tensorflow")
    run_dir = Path(run_dir)
    spec = envs.spec(settings.env, atari_preset=settings.atari_preset, factory=env)
    known = record_in(run_dir)
    where = find_device(device)
    settings = resolve(settings, spec, known.settings if known else None, where)
    if settings.precision == "tf32" and where == CPU and not known:
        raise SettingsError("--precision=tf32: only GPUs have it, and this run would compute on the CPU")
    # A run that an older version accepted may continue.
    if not require_same_run(settings, spec, run_dir)[0]:
        require_effect(settings, spec)
    use_device(where, tf32=settings.precision == "tf32", memory_gb=gpu_memory_gb)
    in_use = use_threads(threads, settings.network)
    make_network(settings, spec)
    if ray_address is not None and not settings.actors:
        raise SettingsError(f"--ray_address={ray_address}: has no effect with --actors=0; give the number of actors")
    if actor_timeout is not None and ray_address is None:
        raise SettingsError(f"--actor_timeout={actor_timeout}: has no effect without --ray_address")
    if policy := _finished(run_dir, settings, known, quiet):
        return policy
    replay = make_replay(settings, spec, Path(replay_file) if replay_file else None)
    with contextlib.ExitStack() as opened:
        ray = connect(ray_address, settings.actors) if ray_address is not None else None
        if ray is not None:
            opened.callback(ray.shutdown)
        lock = Lock(run_dir)
        opened.callback(lock.release)
        # Again under the lock: another process may have begun a run here in the meantime.
        known, changes = require_same_run(settings, spec, run_dir)
        if policy := _finished(run_dir, settings, known, quiet):
            return policy
        agent = make_agent(settings, spec)
        stop = StopRequest("writing a checkpoint, then stopping")

        def make_actors(steps: int) -> Actors:
            if ray is None:
                return make_local_actors(settings, agent.act, steps, threads=in_use["environments"], factory=env)
            return RayActors(ray, settings, agent, steps, timeout=actor_timeout or 300.0, stop=stop, factory=env)

        run = _Run(opened, settings, run_dir, agent, replay, changes, repair, in_use, where, make_actors)
        with stop:
            run.advance(stop, checkpoint_minutes * 60.0, quiet, on_row)
        return run.finish()


def _finished(run_dir: Path, settings: Settings, record: RunRecord | None, quiet: bool) -> Path | None:
    """The policy of a folder that holds the whole run already."""
    policy = run_dir / "policy"
    if record is None or not record.finished or record.settings["total_steps"] < settings.total_steps:
        return None
    if missing_parts(policy):
        return None
    _say(quiet, f"{run_dir} holds this run, already finished")
    return policy


class _Run:
    """A run in one process: its environments, agent, loop and files, which `opened` closes."""

    def __init__(
        self,
        opened: contextlib.ExitStack,
        settings: Settings,
        folder: Path,
        agent: Agent,
        replay: Any,
        changes: Collection[str],
        repair: Collection[str],
        threads: dict[str, int],
        device: Device,
        make_actors: Callable[[int], Actors],
    ) -> None:
        self._settings, self._folder, self._agent, self._replay = settings, folder, agent, replay
        self._checkpoints = Checkpoints(folder / "checkpoints")
        snapshot, notes = resume(folder, self._checkpoints, replay, repair)
        if snapshot is not None:
            agent.restore(snapshot.arrays)
        state: dict[str, Any] = snapshot.state if snapshot else {"actor": {"steps": 0}, "seconds": 0.0, "position": 0}
        steps = state["actor"]["steps"]
        computes = {"threads": threads, "device": dataclasses.asdict(device)}
        self._maker = maker_of(provenance() | computes)
        notes = [*changes, *notes]
        if snapshot is not None:
            notes += differences_of_makers(read_record(folder).maker, self._maker)
        if snapshot is not None and not replay.started and 0 < steps < settings.total_steps:
            notes.append("continued from the weights, with an empty replay")
        self._report(steps, notes)
        self._actors = opened.enter_context(contextlib.closing(make_actors(steps)))
        collector = Collector(self._actors, replay, lagging=settings.lagging)
        self._loop = make_loop(settings, collector, agent, replay)
        if state["position"] and steps < settings.total_steps:
            require_diagnostics(folder, self._loop.diagnostics)
        if snapshot is None:
            preset = envs.ATARI_PRESETS[settings.atari_preset] if settings.family.atari else None
            details: dict[str, Any] = {
                "environment": dataclasses.asdict(agent.network.spec),
                "atari_preset": dataclasses.asdict(preset) if preset else None,
                "modules": user_modules((settings.agent, settings.network, settings.env)),
                **computes,
                "history": [history_entry(0, notes, self._maker)] if notes else [],
                "finished": False,
            }
            begin_record(folder, settings_document(settings), details)
        else:
            collector.restore(snapshot.state["actor"])
            self._loop.restore(snapshot.state["loop"])
            if notes:
                amend_record(folder, settings_document(settings), steps, notes, self._maker)
        self._progress = opened.enter_context(contextlib.closing(Progress(folder, steps, state["position"])))
        self._resumed, self._unsaved = snapshot is not None, snapshot is None or bool(notes)
        self._seconds_before = state["seconds"]
        self._began = time.monotonic()
        self._logged = (steps, self._seconds())

    @property
    def steps(self) -> int:
        return self._loop.collector.steps

    def advance(
        self, stop: StopRequest, checkpoint_seconds: float, quiet: bool, on_row: Callable[[Row], None] | None
    ) -> None:
        settings = self._settings
        if self._resumed:
            _say(quiet, f"continuing {self._folder} at step {self.steps:,}")
        # Also of a finished run that is extended, whose replay is empty.
        missing = max(0, settings.replay_start - self._replay.stored) * settings.num_envs
        if settings.replay_ratio and missing > settings.total_steps - self.steps > 0:
            per_environment = f"--replay_start={settings.replay_start} is per environment"
            _say(quiet, f"no replay before the end: {per_environment}, and needs {missing:,} more steps")
        # The first interval with replay throughout tells the rate that will last.
        slower_at = self.steps + missing + settings.log_interval if settings.replay_ratio and missing else 0
        if self._unsaved:
            self._save()
        saved = time.monotonic()
        while self.steps < settings.total_steps:
            interval = self.steps // settings.log_interval
            try:
                self._loop.iterate()
            except ClusterLost:
                self._actors.close()  # a minute after the loss, Ray would end this process, also within a checkpoint
                self._save()
                raise
            except Stopped:
                pass  # see below
            finally:
                if notes := self._actors.notes:
                    self._report(self.steps, notes)
                    amend_record(self._folder, settings_document(settings), self.steps, notes, self._maker)
                    notes.clear()
            if self.steps // settings.log_interval > interval or self.steps >= settings.total_steps:
                row = self._row()
                self._progress.write(row)
                try:
                    if on_row is not None:
                        on_row(row)
                    _say(quiet, progress_line(row, settings.total_steps, slower_at))
                except Exception as error:
                    self._save()
                    # Ctrl-C also ends the reader of a pipe.
                    if isinstance(error, OSError) and stop.signal_number is not None:
                        raise Interrupted(stop.signal_number) from error
                    raise
            if stop.signal_number is not None:
                self._save()
                raise Interrupted(stop.signal_number)
            if time.monotonic() - saved >= checkpoint_seconds:
                self._save()
                saved = time.monotonic()

    def finish(self) -> Path:
        self._save(with_replay=False)
        policy = self._folder / "policy"
        with exporting(policy) as export:
            export(self._agent.network, policy_metadata(self._settings, self.steps, self._maker["commit"]))
        done = {"finished": True, "steps": self.steps, "seconds": round(self._seconds(), 1)}
        write_json(self._folder / "run.json", read_record(self._folder).document | done)
        return policy

    def _report(self, steps: int, notes: Collection[str]) -> None:
        for note in notes:
            print(f"{self._folder}, step {steps:,}: {note}", file=sys.stderr)

    def _save(self, *, with_replay: bool = True) -> None:
        state = {"actor": self._loop.collector.state(), "loop": self._loop.state(), "seconds": self._seconds()}
        state |= self._progress.state()
        arrays = self._agent.arrays()
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise NonFiniteError(f"{name} is not finite, at step {self.steps:,}")
        self._checkpoints.save(Snapshot(arrays, state), self._replay if with_replay else None, self.steps)

    def _row(self) -> Row:
        collector, (steps, seconds) = self._loop.collector, self._logged
        self._logged = (self.steps, self._seconds())
        diagnostics, new_returns = self._loop.take_diagnostics(), collector.take_returns()
        row = {
            "steps": self.steps,
            "frames": self.steps * self._agent.network.spec.frames_per_step,
            "seconds": self._logged[1],
            "steps_per_second": (self.steps - steps) / max(self._logged[1] - seconds, 1e-9),
            "episodes": collector.episodes,
            "mean_return": float(np.mean(collector.recent_returns)) if collector.recent_returns else None,
            "interval_return": float(np.mean(new_returns)) if new_returns else None,
            "mean_length": float(np.mean(collector.recent_lengths)) if collector.recent_lengths else None,
            "on_policy_updates": self._loop.updates["on_policy"],
            "replay_updates": self._loop.updates["replay"],
            "stored_rows": self._replay.stored,
            **{name: diagnostics.get(name) for name in self._loop.diagnostics},
        }
        # As many digits as float32 has: with Python's 17 the records would be 1.6 times as large.
        return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in row.items()}

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._began


def _say(quiet: bool, line: str) -> None:
    if not quiet:
        print(line, flush=True)
