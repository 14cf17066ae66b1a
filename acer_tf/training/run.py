"""A run in one process: restores what there is, then collects and learns, and exports the policy."""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from acer_tf import envs
from acer_tf.agents.agent import Agent
from acer_tf.envs.vector import closing
from acer_tf.errors import (
    AcerError,
    ClusterLost,
    EnvironmentFailure,
    Interrupted,
    Mismatch,
    NonFiniteError,
    RunFolderError,
    SettingsError,
)
from acer_tf.files import write_json
from acer_tf.importing import without_collections
from acer_tf.policies.current import CurrentPolicy
from acer_tf.policies.export import exporting
from acer_tf.policies.policy import Policy
from acer_tf.replay import TrajectoryReplay
from acer_tf.runs import records
from acer_tf.runs.checkpoint import Checkpoints, Snapshot
from acer_tf.runs.folder import Lock, changes_in, known_run, resume
from acer_tf.runs.progress import Progress, progress_line, require_diagnostics
from acer_tf.runs.provenance import provenance, user_modules
from acer_tf.runs.records import Row, RunRecord
from acer_tf.runs.signals import StopRequest
from acer_tf.settings import Settings
from acer_tf.settings.record import settings_document
from acer_tf.training.acting_threads import ActingThreads
from acer_tf.training.actor import Act, Actor, Actors, LocalActors, Stopped
from acer_tf.training.build import (
    derive_seed,
    make_actors,
    make_agent,
    make_network,
    make_optimizer,
    make_replay,
)
from acer_tf.training.collector import Collector
from acer_tf.training.device import Device, use_device, use_threads
from acer_tf.training.evaluations import Evaluations
from acer_tf.training.export_run import policy_metadata
from acer_tf.training.initialize import initial_weights
from acer_tf.training.logged import Log
from acer_tf.training.loop import Loop
from acer_tf.training.ray_actors import RayActors, connect
from acer_tf.training.reach import Reach
from acer_tf.types import EnvironmentSpec


class Job(NamedTuple):
    """A run that may begin: the arguments of `train`, checked, and what they stand for."""

    settings: Settings  # resolved
    spec: EnvironmentSpec
    folder: Path
    record: RunRecord | None  # the record of the run that is continued
    device: Device
    checkpoint_minutes: float
    threads: int
    env_workers: int
    gpu_memory_gb: float
    acting_device: str
    replay_file: Path | None
    ray_address: str | None
    actor_timeout: float
    repair: Collection[str]
    quiet: bool
    env: envs.EnvFactory | None
    on_row: Callable[[Row, Policy], None] | None
    episodes: Log | None  # logged ones, which replay begins with

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)

    def note(self, step: int, notes: Sequence[str]) -> None:
        for note in notes:
            print(f"{self.folder}, step {step:,}: {note}", file=sys.stderr)


def run(job: Job) -> Path:
    """Prepares, restores, loops and finishes the run; returns the folder of its policy. Raises as `train`."""
    settings, spec = job.settings, job.spec
    if (used := keras.backend.backend()) != "tensorflow":
        raise SettingsError(f"Keras computes with {used}: import acer_tf before keras, or set KERAS_BACKEND=tensorflow")
    local_actors = settings.actors if job.ray_address is None else 0
    threads = use_threads(job.threads, settings, acting=local_actors)
    acting = job.acting_device if threads["acting"] else "same"
    place = use_device(job.device, tf32=settings.precision == "tf32", memory_gb=job.gpu_memory_gb, acting=acting)
    network = make_network(settings, spec)  # these raise for bad input, before anything is written
    make_optimizer(settings, spec)
    if settings.initialize_from is not None and job.record is None:
        initial_weights(settings, network)
    with contextlib.ExitStack() as opened:
        opened.callback(Lock(job.folder).release)
        if known_run(job.folder) != job.record:
            raise RunFolderError(f"--run_dir={job.folder} has just been changed by another process: try again")
        # After the lock has made the folder: the file may lie there.
        replay = make_replay(settings, spec, job.replay_file, on_ray=job.ray_address is not None)
        driver = connect(job.ray_address, settings, spec) if job.ray_address is not None else None
        if driver is not None:
            opened.callback(driver.close)
        agent = opened.enter_context(contextlib.closing(make_agent(settings, spec)))
        stop = StopRequest("writing a checkpoint, then stopping")

        def actors_from(steps: int) -> Actors:
            if driver is not None:
                return RayActors(driver, settings, agent, steps, timeout=job.actor_timeout, stop=stop, factory=job.env)
            options = {"threads": threads["environments"], "workers": job.env_workers, "factory": job.env}

            def make(act: Act) -> list[Actor]:
                return make_actors(settings, act, steps, **options)

            if not threads["acting"]:
                return LocalActors(make(agent.act))
            with tf.device(place):
                acting = make_agent(settings, spec)
            return ActingThreads(make, agent, acting, threads["acting"], place=place, stop=stop, note=job.note)

        with without_collections():  # tracing makes many objects that stay
            device = dataclasses.asdict(job.device) | {"acting": place}
            begun = _restore(job, agent, replay, {"threads": threads, "device": device}, actors_from, opened)
        try:
            with stop:
                begun.advance(stop)
                begun.save(with_replay=False)
                if stop.signal_number is not None:
                    raise Interrupted(stop.signal_number)
            return begun.finish()
        except AcerError as error:
            error.status = 1  # bad input, as of an evaluation, is a failure of a run that has begun
            raise


_STATE = ("actor", "loop", "seconds", "evaluations", "row_due", "reach", "last_row")  # that `_Run.save` writes


def _restore(
    job: Job,
    agent: Agent,
    replay: TrajectoryReplay,
    computes: dict[str, Any],
    actors_from: Callable[[int], Actors],
    opened: contextlib.ExitStack,
) -> "_Run":
    """The run from its checkpoint, or from step 0, with its record and progress.csv begun or continued."""
    settings, folder = job.settings, job.folder
    checkpoints = Checkpoints(folder / "checkpoints")
    finished = job.record is not None and job.record.finished
    snapshot, repaired = resume(folder, checkpoints, replay, job.repair, finished=finished)
    state: dict[str, Any] = snapshot.state if snapshot else {"actor": {"steps": 0}, "seconds": 0.0, "position": 0}
    steps = state["actor"]["steps"]
    maker = records.maker_of(provenance() | computes)
    notes = [*(changes_in(job.record, settings, envs.name_of(job.env)) if job.record else ()), *repaired]
    if snapshot is not None:
        if lacking := [name for name in _STATE if name not in state]:
            raise Mismatch(f"the checkpoint in {folder} has no {lacking[0]!r}: another version wrote it")
        agent.restore(snapshot.arrays)
        notes += records.differences_of_makers(records.read_record(folder).maker, maker)
        if not replay.started and 0 < steps < settings.total_steps:
            notes.append("continued from the weights, with an empty replay")
            replay.reseed(derive_seed(settings, f"replay {steps}"))  # its generator is not in such a checkpoint
    job.note(steps, notes)
    begins: dict[str, Any] = {}  # what a run that begins at step 0 begins with
    if snapshot is None and settings.initialize_from is not None:
        weights, origin = initial_weights(settings, agent.network)
        agent.begin_with(weights)
        begins["initialized_from"] = origin
        job.say(f"begins with the weights of {origin['path']}, {origin['steps']:,} steps of {origin['env']}")
    actors = opened.enter_context(closing(actors_from(steps)))
    lagging_until = settings.total_steps if settings.actors else 0
    loop = Loop(Collector(actors, replay, lagging_until=lagging_until), agent, replay, settings)
    if state["position"] and steps < settings.total_steps:
        require_diagnostics(folder, loop.diagnostics)
    if snapshot is None:
        if job.episodes is not None:
            loop.fill(job.episodes)
            logged = job.episodes.steps
            begins["replay_from"] = {"steps": logged, "rows_per_environment": job.episodes.rows}
            job.say(f"replay begins with {replay.stored:,} rows per environment, of {logged:,} logged steps")
        preset = envs.ATARI_PRESETS[settings.atari_preset] if settings.family.atari else None
        details: dict[str, Any] = {
            "environment": dataclasses.asdict(agent.network.spec),
            "env_function": envs.name_of(job.env),
            "atari_preset": dataclasses.asdict(preset) if preset else None,
            "modules": user_modules(settings.references),
            **computes,
            **begins,
            "history": [],
            "finished": False,
        }
        records.begin_record(folder, settings_document(settings), details)
    else:
        loop.collector.restore(state["actor"])
        loop.restore(state["loop"])
        job.say(f"continuing {folder} at step {steps:,}")
    if notes:
        records.amend_record(folder, settings_document(settings), steps, notes, maker)
    progress = Progress(folder, steps, state["position"], settings_document(settings))
    opened.enter_context(contextlib.closing(progress))
    unsaved = snapshot is None or bool(notes)
    begun = _Run(job, agent, loop, actors, checkpoints, progress, maker, state["seconds"], unsaved)
    if snapshot is not None:
        begun.evaluations.restore(state["evaluations"])
        begun.row_due, begun.reach.rows = state["row_due"], state["reach"]
        begun.last_row = (state["last_row"][0], state["last_row"][1])
    return begun


@dataclasses.dataclass
class _Run:
    """A run that has been restored."""

    job: Job
    agent: Agent
    loop: Loop
    actors: Actors
    checkpoints: Checkpoints
    progress: Progress
    maker: dict[str, Any]  # what makes its rows from here on, see `maker_of`
    seconds_before: float  # the work of its earlier processes
    unsaved: bool  # whether it differs from its newest checkpoint
    row_due: bool = False  # whether the row of progress at the last step is still to be written

    def __post_init__(self) -> None:
        job = self.job
        self.policy = CurrentPolicy(self.agent.network, lambda: self.steps, self._metadata)
        options = {"env": job.env or job.settings.env, "env_workers": job.env_workers, "threads": job.threads}
        self.evaluations = Evaluations(job.settings, self.policy, job.folder, options)
        self.reach = Reach(job.settings)
        self._began = time.monotonic() - self.seconds_before
        self.last_row = (self.steps, self.seconds_before)  # steps and seconds at the last row of progress

    @property
    def steps(self) -> int:
        return self.loop.collector.steps

    def advance(self, stop: StopRequest) -> None:
        """Collects and learns until the last step. Raises Interrupted after a checkpoint, if asked to stop."""
        settings, job = self.job.settings, self.job
        # A finished run that is extended has an empty replay too.
        missing = max(0, settings.replay_start - self.loop.replay.stored) * settings.num_envs
        if settings.replay_ratio and missing > settings.total_steps - self.steps > 0:
            per_environment = f"--replay_start={settings.replay_start} is per environment"
            job.say(f"no replay before the end: {per_environment}, and needs {missing:,} more steps")
        # The first interval with replay throughout tells the rate that will last.
        slower_at = self.steps + missing + settings.log_interval if settings.replay_ratio and missing else 0
        if self.row_due:  # the run was stopped during its evaluation
            self._write_row(stop, slower_at)
        if self.unsaved:
            self.save()
        saved = time.monotonic()
        while self.steps < settings.total_steps and not self.evaluations.reached:
            interval = self.steps // settings.log_interval
            try:
                self.loop.iterate()
            except (ClusterLost, EnvironmentFailure, Stopped) as error:
                # A signal to all processes of a terminal or job may have ended one that an environment talks to.
                if isinstance(error, ClusterLost) or stop.signal_number is None:
                    self.save()
                    raise
            finally:
                if notes := self.actors.notes:
                    self._note(notes)
                    notes.clear()
            if self.steps // settings.log_interval > interval or self.steps >= settings.total_steps:
                self._write_row(stop, slower_at)
            if stop.signal_number is not None:
                self.save()
                raise Interrupted(stop.signal_number)
            if time.monotonic() - saved >= job.checkpoint_minutes * 60:
                self.save()
                saved = time.monotonic()

    def _write_row(self, stop: StopRequest, slower_at: int) -> None:
        """Evaluates if it is time, writes a row of progress, and shows it; see `progress_line`."""
        self.row_due = True
        if self.evaluations.due(self.steps):
            self._evaluate(stop)
        row = self._row()
        self.progress.write(row)
        self.row_due = False
        if (notice := self.reach.notice(row)) is not None:
            self._note([notice])
        if self.job.on_row is not None:
            self._call(self.job.on_row, row, stop)
        try:
            self.job.say(progress_line(row, self.job.settings.total_steps, slower_at))
        except Exception as error:
            self.save()
            # Ctrl-C also ends the reader of a pipe.
            if isinstance(error, OSError) and stop.signal_number is not None:
                raise Interrupted(stop.signal_number) from error
            raise

    def _note(self, notes: Sequence[str]) -> None:
        """Says what is not as expected, and records it."""
        self.job.note(self.steps, notes)
        records.amend_record(self.job.folder, settings_document(self.job.settings), self.steps, notes, self.maker)

    def _evaluate(self, stop: StopRequest) -> None:
        """Raises Interrupted after a checkpoint, before the row of progress, if asked to stop."""

        def check() -> None:
            if stop.signal_number is not None:
                raise Stopped

        try:
            self.evaluations.evaluate(self.steps, check, lambda line: self.job.say(f"evaluation: {line}"))
        except NonFiniteError:
            raise
        except Exception as error:
            self.save()
            if isinstance(error, Stopped | EnvironmentFailure) and stop.signal_number is not None:
                raise Interrupted(stop.signal_number) from None
            raise

    def _call(self, on_row: Callable[[Row, Policy], None], row: Row, stop: StopRequest) -> None:
        """Calls `on_row`. If it raises, a checkpoint and the policy are left, but at once after a second Ctrl-C."""
        try:
            on_row(row, self.policy)
        except BaseException as error:
            if stop.signal_number is None or isinstance(error, Exception):
                self.save()
                self._export()
            if isinstance(error, OSError) and stop.signal_number is not None:  # as in `_write_row`
                raise Interrupted(stop.signal_number) from error
            raise

    def _export(self) -> Path:
        policy = self.job.folder / "policy"
        with exporting(policy) as export:
            export(self.agent.network, self._metadata())
        return policy

    def _metadata(self) -> dict[str, Any]:
        return policy_metadata(self.job.settings, self.steps, self.maker["commit"], envs.name_of(self.job.env))

    def finish(self) -> Path:
        """Writes the policy and the end of the record, after the last checkpoint; returns the policy's folder."""
        policy = self._export()
        done: dict[str, Any] = {"finished": True, "steps": self.steps, "seconds": round(self._seconds(), 1)}
        if self.evaluations.reached and self.steps < self.job.settings.total_steps:
            done["stopped_at_return"] = self.evaluations.mean
        document = records.read_record(self.job.folder).document | done
        write_json(self.job.folder / "run.json", document)
        return policy

    def save(self, *, with_replay: bool = True) -> None:
        """Writes a checkpoint; raises NonFiniteError instead if a weight is not finite."""
        state = {"actor": self.loop.collector.state(), "loop": self.loop.state(), "seconds": self._seconds()}
        state |= {"evaluations": self.evaluations.state(), "row_due": self.row_due, "reach": self.reach.rows}
        state |= {"last_row": self.last_row}
        arrays, state = self.agent.arrays(), state | self.progress.state()
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise NonFiniteError(f"{name} is not finite, at step {self.steps:,}")
        self.checkpoints.save(Snapshot(arrays, state), self.loop.replay if with_replay else None, self.steps)

    def _row(self) -> Row:
        loop, collector, (steps, seconds) = self.loop, self.loop.collector, self.last_row
        self.last_row = (self.steps, self._seconds())
        diagnostics, new_returns = loop.take_diagnostics(), collector.take_returns()
        row = {
            "steps": self.steps,
            "frames": self.steps * self.agent.network.spec.frames_per_step,
            "seconds": self.last_row[1],
            "steps_per_second": (self.steps - steps) / max(self.last_row[1] - seconds, 1e-9),
            "episodes": collector.episodes,
            "mean_return": float(np.mean(collector.recent_returns)) if collector.recent_returns else None,
            "interval_return": float(np.mean(new_returns)) if new_returns else None,
            "mean_length": float(np.mean(collector.recent_lengths)) if collector.recent_lengths else None,
            "on_policy_updates": loop.updates["on_policy"],
            "replay_updates": loop.updates["replay"],
            "stored_rows": loop.replay.stored,
            **self.evaluations.columns(self.steps),
            **{name: diagnostics.get(name) for name in loop.diagnostics},
        }
        # As many digits as float32 has: with Python's 17 the records would be 1.6 times as large.
        return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in row.items()}

    def _seconds(self) -> float:
        return time.monotonic() - self._began - self.evaluations.seconds
