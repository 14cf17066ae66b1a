"""Begins a run, or continues it from its checkpoint."""

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from acer_tf import envs
from acer_tf.agents.agent import Agent
from acer_tf.envs.families import ATARI_PRESETS
from acer_tf.envs.vector import closing
from acer_tf.errors import AcerError, Interrupted, Mismatch, RunFolderError, SettingsError
from acer_tf.importing import without_collections
from acer_tf.replay import TrajectoryReplay
from acer_tf.runs import records
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import Lock, changes_in, known_run, resume
from acer_tf.runs.progress import Progress, require_diagnostics
from acer_tf.runs.provenance import provenance, user_modules
from acer_tf.runs.signals import StopRequest
from acer_tf.settings.record import settings_document
from acer_tf.training.acting_threads import ActingThreads
from acer_tf.training.active_run import STATE, ActiveRun
from acer_tf.training.actor import Act, Actor, Actors, LocalActors
from acer_tf.training.build import derive_seed, make_actors, make_agent, make_network, make_optimizer, make_replay
from acer_tf.training.collector import Collector
from acer_tf.training.device import use_device, use_threads
from acer_tf.training.initialize import initial_weights
from acer_tf.training.job import Job
from acer_tf.training.loop import Loop
from acer_tf.training.ray_actors import RayActors, start_driver


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
        opened.callback(replay.close)  # whoever keeps the policy would keep it
        driver = start_driver(job.ray_address, settings, spec) if job.ray_address is not None else None
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


def _restore(
    job: Job,
    agent: Agent,
    replay: TrajectoryReplay,
    computes: dict[str, Any],
    actors_from: Callable[[int], Actors],
    opened: contextlib.ExitStack,
) -> ActiveRun:
    """The run from its checkpoint, or from step 0, with its record and progress.csv begun or continued."""
    settings, folder = job.settings, job.folder
    checkpoints = Checkpoints(folder / "checkpoints")
    finished = job.record is not None and job.record.finished
    snapshot, repair = resume(folder, checkpoints, replay, job.repair, finished=finished)
    state: dict[str, Any] = snapshot.state if snapshot else {"actor": {"steps": 0}, "seconds": 0.0, "position": 0}
    steps = state["actor"]["steps"]
    maker = records.maker_of(provenance() | computes)
    changes = changes_in(job.record, settings, envs.name_of(job.env)) if job.record else []
    others: list[str] = []
    if snapshot is not None:
        if lacking := [name for name in STATE if name not in state]:
            raise Mismatch(f"the checkpoint in {folder} has no {lacking[0]!r}: another version wrote it")
        agent.restore(snapshot.arrays)
        others = records.differences_of_makers(records.read_record(folder).maker, maker)
        if not replay.started and 0 < steps < settings.total_steps:
            others.append("continued from the weights, with an empty replay")
            replay.reseed(derive_seed(settings, f"replay {steps}"))  # its generator is not in such a checkpoint
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
    notes = [*changes, *repair(), *others]  # what raises for bad input is above
    job.note(steps, notes)
    if snapshot is None:
        if job.episodes is not None:
            loop.fill(job.episodes)
            logged = job.episodes.steps
            begins["replay_from"] = {"steps": logged, "rows_per_environment": job.episodes.rows}
            job.say(f"replay begins with {replay.stored:,} rows per environment, of {logged:,} logged steps")
        preset = ATARI_PRESETS[settings.atari_preset] if settings.family.atari else None
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
    begun = ActiveRun(job, agent, loop, actors, checkpoints, progress, maker, state["seconds"], unsaved)
    if snapshot is not None:
        begun.evaluations.restore(state["evaluations"])
        begun.row_due, begun.reach.rows = state["row_due"], state["reach"]
        begun.last_row = (state["last_row"][0], state["last_row"][1])
    return begun
