"""How fast this machine runs a kind of cell: the real loop with a small replay, timed in processes of its own."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from acer_tf.reproduction.plan._timing import Workload, interleaved
from acer_tf.reproduction.sweep.cells import SweepError
from acer_tf.settings import Settings, settings_document

REPETITIONS = 5
# Of timing, behind warm-up. Iterations of the large network take a second, those of the others milliseconds.
_SECONDS = {"nature": 8.0, "nature_lstm": 8.0}
_SECONDS_OTHERWISE = 3.0
_MOST_REPLAYS = 4


class Speed(NamedTuple):
    """Seconds of one process."""

    step: float  # per step collected, with the on-policy update where there is one
    replay: float  # per replayed update


def measured(settings: Settings, threads: int, copies: int) -> Speed:
    """Times `settings` now, in `copies` processes at once, as a sweep would run them; the median of these.

    Nothing is written. Left out, because each is a few percent at most: checkpoints, what a full replay costs beyond a
    small one, and masked rows, which take time but are no steps.

    Args:
        settings: resolved.
        threads: of each process.
        copies: at least 1.

    Raises:
        SweepError: a process failed; says with what.
    """
    command = [sys.executable, "-m", "acer_tf.reproduction.plan"]
    request = json.dumps({"settings": settings_document(settings), "threads": threads}) + "\n"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryFile("w+") as errors:
        try:
            for _ in range(copies):
                processes.append(subprocess.Popen(command, stderr=errors, **pipes))
            # All warm up first, so that each is timed beside the others, and not beside their compilation.
            for line in (request, "go\n"):
                for process in processes:
                    assert process.stdin is not None
                    process.stdin.write(line)
                    process.stdin.flush()
                answers = [process.stdout.readline() for process in processes if process.stdout is not None]
                if not all(answers):
                    raise BrokenPipeError
        except BrokenPipeError as error:
            errors.seek(0)
            said = [text.strip() for text in errors.read().splitlines() if text.strip()]
            raise SweepError(
                f"the speed of {settings.agent} on {settings.env} cannot be measured: {said[-1] if said else 'killed'}"
            ) from error
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    speeds = [Speed(*json.loads(answer)) for answer in answers]
    return Speed(*(statistics.median(values) for values in zip(*speeds, strict=True)))


def time_loop(settings: Settings, threads: int, begin: Callable[[], None] = lambda: None) -> Speed:
    """Times `settings` in this process, which must not have computed anything with TensorFlow yet.

    Args:
        settings: resolved.
        threads: of this process.
        begin: called between warm-up and timing.
    """
    from acer_tf import envs
    from acer_tf.training.actor import Actor
    from acer_tf.training.build import make_agent, make_loop, make_replay
    from acer_tf.training.threads import use_threads

    in_use = use_threads(threads, settings.network)
    spec = envs.spec(settings.env, atari_preset=settings.atari_preset)
    small = dataclasses.replace(
        settings,
        replay_capacity=10 * settings.unroll_length + settings.burn_in,
        replay_start=0,
        learning_rate=1e-9,  # nothing is to be learned here, and nothing may diverge
    )
    agent, replay = make_agent(small, spec), make_replay(small, spec)
    env = envs.make(
        settings.env, settings.num_envs, settings.seed, atari_preset=settings.atari_preset, threads=in_use["emulators"]
    )
    actor = Actor(env, agent.act, replay, seed=0)
    groups = settings.num_envs // (settings.trajectories_per_update or settings.num_envs)
    rows = settings.num_envs * settings.unroll_length
    replays = min(math.ceil(settings.replay_ratio), max(1, _MOST_REPLAYS // groups))
    budget = _SECONDS.get(settings.network, _SECONDS_OTHERWISE)
    workloads = {}
    for count in sorted({0, replays}):
        loop = make_loop(small, actor, agent, replay, replay_ratio=count, poisson=False)
        loop.iterate()
        once = _seconds_per_iteration(loop, 1)
        iterations = max(1, round(budget / 2 / (REPETITIONS + 1) / once))
        workloads[str(count)] = Workload("s", functools.partial(_seconds_per_iteration, loop, iterations))
    begin()
    found = interleaved(workloads, REPETITIONS)
    env.close()
    without = found["0"].median
    # On a busy machine the difference may come out below 0 where updates cost next to nothing.
    extra = max(0.0, found[str(replays)].median - without)
    return Speed(without / rows, extra / (groups * replays) if replays else 0.0)


def _seconds_per_iteration(loop: Any, iterations: int) -> float:
    began = time.perf_counter()
    for _ in range(iterations):
        loop.iterate()
    return (time.perf_counter() - began) / iterations
