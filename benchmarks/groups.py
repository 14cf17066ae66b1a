"""What is measured, in groups; each group runs in a process of its own, since a process has one setting of threads."""

from __future__ import annotations

import dataclasses
import functools
import math
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from acer_tf.replay import TrajectoryReplay
from acer_tf.types import Batch, EnvironmentSpec, TimeStep, Unroll
from benchmarks.priorities import priorities
from benchmarks.recurrent import PAIRS, recurrent
from benchmarks.timing import (
    Group,
    Measurement,
    Workload,
    interleaved,
    milliseconds,
    rate,
    steps_per_second,
)

ENVIRONMENTS = (4, 16, 64)
RATIOS = (0, 1, 4, 8)
PRECISIONS = ("float32", "bfloat16")
TRAJECTORIES = (4, 1)  # per update, where not all environments share one
REPLAY_ROWS = (1_000, 10_000, 50_000)
MEMORY_POINTS = 10
CHECKPOINT_MINUTES = 10.0

_NUM_ENVS, _UNROLL_LENGTH = 16, 20
# As many updates from replay in every iteration as a run has on average.
_FIXED_REPLAYS = {"replay_poisson": False, "replay_start": 0}
_ATARI = EnvironmentSpec((4, 84, 84), "uint8", stack=4, num_actions=6, frames_per_step=4, observation_scale=255.0)
_SPARE_BYTES = 3_000_000_000  # beside the replay that is measured, for the process and for the machine
_MADV_PAGEOUT = 21  # Python's mmap does not name it


def machine(repetitions: int, scratch: Path) -> Group:
    """The machine's own ceilings, on all cores."""
    measurements = interleaved({**_matrix_products(), "memory copy": _memory_copy()}, repetitions)
    return Group(measurements, {})


def environments(repetitions: int, scratch: Path) -> Group:
    """Environments alone, with random actions."""
    workloads = {
        f"{env_id} × {count}": _environment(env_id, count)
        for env_id in ("atari/Pong", "minatar/breakout")
        for count in ENVIRONMENTS
    }
    return Group(interleaved(workloads, repetitions), {})


def atari(repetitions: int, scratch: Path) -> Group:
    """Pong with a full replay: the parts, the whole loop, memory and checkpoints."""
    return _learning("atari/Pong", repetitions, scratch, updates=4, iterations={0: 4, 1: 3, 4: 2, 8: 1})


def minatar(repetitions: int, scratch: Path) -> Group:
    """MinAtar Breakout: the parts and the whole loop."""
    return _learning("minatar/breakout", repetitions, None, updates=40, iterations={0: 60, 1: 40, 4: 20, 8: 10})


def control(repetitions: int, scratch: Path) -> Group:
    """Continuous ACER on the paper's cheetah, as preset `paper_continuous` has it."""
    from acer_tf import envs
    from acer_tf.settings import make_settings
    from acer_tf.training.actor import Actor, LocalActors
    from acer_tf.training.build import make_agent, make_replay
    from acer_tf.training.collector import Collector
    from acer_tf.training.device import use_threads
    from acer_tf.training.loop import Loop
    from acer_tf.training.resolve import resolve

    given = {"env": "control/cheetah", "agent": "acer_continuous", "preset": "paper_continuous"}
    settings = make_settings({**given, **_FIXED_REPLAYS})
    spec = envs.spec(settings.env)
    settings = resolve(settings, spec)
    threads = use_threads(0, settings)
    agent, ring = make_agent(settings, spec), make_replay(settings, spec)
    env = envs.make(settings.env, settings.num_envs, 0, threads=threads["environments"])
    collector = Collector(LocalActors([Actor(env, agent.act, 0, ring.state_size)]), ring)
    loop = Loop(collector, agent, ring, settings)
    loop.iterate()
    seed = np.zeros(2, np.int32)
    turns = np.arange(settings.num_envs).reshape(-1, settings.trajectories_per_update)
    envs_of = np.repeat(turns, int(settings.replay_ratio), axis=0)
    drawn = ring.batch(np.zeros(len(envs_of), bool), envs_of)
    state = np.zeros((settings.num_envs, 0), np.float32)
    observation = np.zeros((settings.num_envs, *spec.observation_shape), np.float32)
    name = f"loop, ratio {settings.replay_ratio:g}"
    workloads = {
        "environments": _environment(settings.env, settings.num_envs, threads["environments"]),
        "act": milliseconds(functools.partial(agent.act, observation, seed, state), 200),
        "updates of an iteration": milliseconds(functools.partial(agent.learn, drawn, len(envs_of)), 2),
        name: Workload("steps/s", lambda: steps_per_second(loop, 20)),
    }
    measurements = interleaved(workloads, repetitions)
    env.close()
    speed = measurements[name].median
    rows = settings.num_envs * settings.unroll_length
    shares = {
        "physics": speed / measurements["environments"].median,
        "act": speed * 1e-3 * measurements["act"].median / settings.num_envs,
        "updates": speed * 1e-3 * measurements["updates of an iteration"].median / rows,
    }
    return Group(measurements, {"threads": threads, "shares": shares})


def replay(repetitions: int, scratch: Path) -> Group:
    """Atari replays of several sizes, in memory and in a file: adding and sampling, and memory as they fill."""
    measurements: dict[str, Measurement] = {}
    memory: list[dict[str, float]] = []
    sizes = [rows for rows in REPLAY_ROWS if rows <= _affordable_rows()]
    for rows in sizes:
        for place in ("memory", "file"):
            file = scratch / "replay" if place == "file" else None
            ring = TrajectoryReplay(_ATARI, _NUM_ENVS, rows, _UNROLL_LENGTH, 0, file=file)
            steps = _noise(_ATARI, _NUM_ENVS)
            before = psutil.Process().memory_info().rss
            for filled in _fill(ring, rows, steps, points=MEMORY_POINTS):
                if place == "memory" and rows == sizes[-1]:
                    grown = psutil.Process().memory_info().rss - before
                    memory.append({"steps": filled * _NUM_ENVS, "bytes": grown})
            workloads = {
                f"add 16 steps, {rows:,} rows, {place}": milliseconds(_adder(ring, steps), 200),
                f"sample 16 × 21, {rows:,} rows, {place}": milliseconds(_sampler(ring), 20),
            }
            measurements |= interleaved(workloads, repetitions)
            if place == "file":
                # By itself, because it leaves nothing in memory for the others.
                name = f"sample 16 × 21, {rows:,} rows, file, out of memory"
                measurements |= interleaved({name: _cold_sample(ring)}, repetitions)
            del ring, workloads  # before the next is made
    return Group(measurements, {"memory": memory})


GROUPS: dict[str, Callable[[int, Path], Group]] = {
    "machine": machine,
    "environments": environments,
    "atari": atari,
    "minatar": minatar,
    "control": control,
    "replay": replay,
    "priorities": priorities,
    **{name: functools.partial(recurrent, name) for name in PAIRS},
}


def _learning(
    env_id: str, repetitions: int, scratch: Path | None, *, updates: int, iterations: dict[int, int]
) -> Group:
    """One game's figures; `updates` and, by ratio, `iterations` are how many are timed together."""
    from acer_tf import envs
    from acer_tf.settings import make_settings
    from acer_tf.training.actor import Actor, LocalActors
    from acer_tf.training.build import make_agent
    from acer_tf.training.collector import Collector
    from acer_tf.training.device import use_threads
    from acer_tf.training.loop import Loop
    from acer_tf.training.resolve import resolve
    from benchmarks.operations import step_operations

    spec = envs.spec(env_id)
    sizes = {"num_envs": _NUM_ENVS, "unroll_length": _UNROLL_LENGTH}
    base = {"env": env_id, "preset": "baselines", **sizes, **_FIXED_REPLAYS}
    settings = {p: resolve(make_settings({**base, "precision": p}), spec) for p in PRECISIONS}
    threads = use_threads(0, settings["float32"])
    agents = {p: make_agent(settings[p], spec) for p in PRECISIONS}
    rows = min(settings["float32"].replay_capacity, _affordable_rows(spec))
    ring = TrajectoryReplay(spec, _NUM_ENVS, rows, _UNROLL_LENGTH, 0)
    filling = envs.make(env_id, _NUM_ENVS, 1)
    recorded = _recorded(filling)
    for _ in _fill(ring, rows, recorded):
        pass
    filling.close()

    env = envs.make(env_id, _NUM_ENVS, 0, threads=threads["environments"])
    acting = agents["float32"]  # of the loop that runs
    collector = Collector(
        LocalActors([Actor(env, lambda *arguments: acting.act(*arguments), 0, ring.state_size)]), ring
    )

    def loop(precision: str, ratio: int, trajectories: int = 0) -> Workload:
        sizes: dict[str, Any] = {"replay_ratio": ratio, "trajectories_per_update": trajectories}
        this = Loop(collector, agents[precision], ring, dataclasses.replace(settings[precision], **sizes))

        def run() -> float:
            nonlocal acting
            acting = agents[precision]
            return steps_per_second(this, iterations[ratio])

        return Workload("steps/s", run)

    batch, observation = _sampler(ring)(), env.reset().observation
    workloads = {**_matrix_products(), "environments": _environment(env_id, _NUM_ENVS, threads["environments"])}
    seed, state = np.zeros(2, np.int32), np.zeros((_NUM_ENVS, 0), np.float32)
    for precision, agent in agents.items():
        workloads[f"act, {precision}"] = milliseconds(functools.partial(agent.act, observation, seed, state), 50)
        workloads[f"update, {precision}"] = milliseconds(functools.partial(agent.learn, batch), updates)
    workloads["sample"] = milliseconds(_sampler(ring), 20)
    for ratio in RATIOS:
        for precision in PRECISIONS:
            workloads[f"loop, ratio {ratio}, {precision}"] = loop(precision, ratio)
    for precision in PRECISIONS:
        for trajectories in TRAJECTORIES:
            name = f"loop, ratio 4, {precision}, {trajectories} trajectories per update"
            workloads[name] = loop(precision, 4, trajectories)
    measurements = interleaved(workloads, repetitions)
    model = agents["float32"].network
    facts: dict[str, Any] = {
        "threads": threads,
        "operations_per_step": {str(r): step_operations(model, _UNROLL_LENGTH, r) for r in RATIOS},
        "stored_steps": _NUM_ENVS * rows,
        "replay_bytes": TrajectoryReplay.required_bytes(spec, _NUM_ENVS, rows),
        "resident_bytes": psutil.Process().memory_info().rss,
        "traces": {p: len(agent._learn.traces) for p, agent in agents.items()},
    }
    if scratch is not None:
        best = measurements["loop, ratio 4, bfloat16"].median
        checkpoint, facts["checkpoint"] = _checkpoints(agents["bfloat16"], ring, recorded, best, repetitions, scratch)
        measurements["checkpoint"] = checkpoint
    env.close()
    return Group(measurements, facts)


def _checkpoints(
    agent: Any, ring: TrajectoryReplay, steps: list[TimeStep], steps_per_second: float, repetitions: int, scratch: Path
) -> tuple[Measurement, dict[str, float]]:
    """Times checkpoints that each add a tenth of the rows of an interval, of real `steps`, as frames are compressed.

    The first one, of all rows, is a fact.
    """
    from acer_tf.runs.checkpoint import Checkpoints, Snapshot

    arrays = agent.arrays()
    checkpoints = Checkpoints(scratch / "checkpoints")
    interval = CHECKPOINT_MINUTES * 60.0 * steps_per_second / _NUM_ENVS  # rows, of which the ring keeps the newest
    share = min(interval, ring.stored) / 10
    seconds = []
    for repetition in range(repetitions + 1):
        if repetition > 0:
            for _ in _fill(ring, math.ceil(share), steps, started=True):
                pass
        began = time.perf_counter()
        checkpoints.save(Snapshot(arrays, {}), ring, ring.rows)
        seconds.append(time.perf_counter() - began)
    size = sum(path.stat().st_size for path in (scratch / "checkpoints").rglob("*") if path.is_file())
    shutil.rmtree(scratch / "checkpoints")
    facts = {
        "minutes": CHECKPOINT_MINUTES,
        "first_seconds": seconds[0],
        "bytes_on_disk": float(size),
        "bytes_per_interval": 10 * share * TrajectoryReplay.required_bytes(_ATARI, _NUM_ENVS, 0),  # not compressed
    }
    return Measurement("s", tuple(10 * s for s in seconds[1:])), facts


def _matrix_products(size: int = 2048) -> dict[str, Workload]:
    import tensorflow as tf

    def product(dtype: str) -> Workload:
        left, right = (tf.cast(tf.random.stateless_uniform([size, size], [seed, 0]), dtype) for seed in (1, 2))
        multiply = tf.function(lambda: tf.matmul(left, right)[0, 0])
        return rate(lambda: multiply().numpy(), 4, 2e-9 * size**3, "GFLOP/s")

    return {f"matrix product, {dtype}": product(dtype) for dtype in PRECISIONS}


def _memory_copy(size: int = 256 * 2**20) -> Workload:
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    return rate(lambda: np.copyto(target, source), 4, 1e-9 * size, "GB/s")


def _environment(env_id: str, count: int, threads: int = 0) -> Workload:
    from acer_tf import envs

    env = envs.make(env_id, count, 0, threads=threads)
    env.reset()
    stream = iter(_cycle(_random_actions(env.spec, 128, count)))
    calls = max(1, (1_600 if env_id.startswith("atari/") else 16_000) // count)
    return rate(lambda: env.step(next(stream)), calls, count, "steps/s")


def _affordable_rows(spec: EnvironmentSpec = _ATARI) -> int:
    row = TrajectoryReplay.required_bytes(spec, _NUM_ENVS, 0)
    return max(REPLAY_ROWS[0], (psutil.virtual_memory().available - _SPARE_BYTES) // row)


def _recorded(env: Any, rows: int = 64) -> list[TimeStep]:
    """What `env` shows in its first steps, with random actions."""
    return [env.reset(), *(env.step(action) for action in _random_actions(env.spec, rows, env.num_envs))]


def _random_actions(spec: EnvironmentSpec, rows: int, count: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    if spec.continuous:
        return generator.uniform(-1, 1, size=(rows, count, spec.action_size)).astype(np.float32)
    return generator.integers(spec.num_actions, size=(rows, count))


def _noise(spec: EnvironmentSpec, count: int, rows: int = 64) -> list[TimeStep]:
    generator = np.random.default_rng(0)
    ones = np.ones(count, np.float32)
    return [
        TimeStep(
            generator.integers(0, 256, (count, *spec.observation_shape), np.uint8),
            np.full(count, min(row, spec.stack - 1), np.uint8),
            ones,
            ones,
            ones.astype(bool),
            np.zeros(count, bool),
        )
        for row in range(rows)
    ]


def _fill(
    ring: TrajectoryReplay, rows: int, steps: list[TimeStep], points: int = 1, *, started: bool = False
) -> Iterator[int]:
    """Adds `rows` rows; yields how many there are, `points` times on the way."""
    if not started:
        ring.reset(ring.spec.newest_frame(steps[0].observation), steps[0].age)
    add = _adder(ring, steps)
    for point in range(points):
        for _ in range(rows // points):
            add()
        yield (point + 1) * (rows // points)


def _adder(ring: TrajectoryReplay, steps: list[TimeStep]) -> Callable[[], None]:
    count, actions = len(steps[0].age), ring.spec.num_actions
    action, behaviour = np.zeros(count, np.int32), np.full((count, actions), 1 / actions, np.float32)
    state = np.zeros((count, 0), np.float32)
    unrolls = [Unroll.of_rows(ring.spec, step, [(action, behaviour, step)], state, state) for step in steps[1:]]
    stream = iter(_cycle(unrolls))
    return lambda: ring.append(next(stream))


def _sampler(ring: TrajectoryReplay) -> Callable[[], Batch]:
    """Draws a window of each environment."""
    return functools.partial(ring.batch, np.array([False]), np.arange(ring.num_envs)[None])


def _cold_sample(ring: TrajectoryReplay) -> Workload:
    """Sampling where none of the file's pages is in memory, as of a replay far larger than memory."""

    pages: Any = ring._ring["observation"].base
    pages.flush()
    sample = _sampler(ring)

    def run() -> float:
        pages.madvise(_MADV_PAGEOUT)
        began = time.perf_counter()
        sample()
        return 1e3 * (time.perf_counter() - began)

    return Workload("ms", run)


def _cycle(items: Any) -> Iterator[Any]:
    while True:
        yield from items
