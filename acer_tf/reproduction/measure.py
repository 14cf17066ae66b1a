"""Measures how fast a run steps on this machine, and how large its files are.

A measurement runs this module in new processes, with the real objects and a small replay.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from acer_tf import envs
from acer_tf.errors import SweepError
from acer_tf.networks.torsos import torso_of
from acer_tf.policies.export import export_policy
from acer_tf.runs.checkpoint import Checkpoints, Snapshot
from acer_tf.settings import Settings
from acer_tf.settings.record import settings_document, settings_from
from acer_tf.training import build
from acer_tf.training.collector import collector_of
from acer_tf.training.device import find_device, use_device, use_threads
from acer_tf.training.export_run import policy_metadata
from acer_tf.training.loop import Loop

_ROUNDS = 4
_EXIT_SECONDS = 30.0


class Measured(NamedTuple):
    """Measurements of one process."""

    before: float  # seconds per step before replay starts
    after: float  # seconds per step with replay; the same in a run without replay
    checkpoint: int  # bytes, without replay
    policy: int  # bytes


def measured(settings: Settings, threads: int, copies: int) -> Measured:
    """Measures resolved `settings` in `copies` processes at once, as in a sweep; returns the medians.

    Takes about half a minute, and writes only to the temporary folder. Ignores the time of checkpoints, and of a full
    replay compared with a small one, each a few percent at most.

    Raises:
        SweepError: a process failed; with its last line on standard error.
    """
    command = [sys.executable, "-m", "acer_tf.reproduction.measure"]
    request = json.dumps({"settings": settings_document(settings), "threads": threads}) + "\n"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes: list[Any] = []
    with tempfile.TemporaryFile("w+") as errors:
        try:
            for _ in range(copies):
                processes.append(subprocess.Popen(command, stderr=errors, **pipes))
            # All compile and warm up first, so that they are timed together.
            for line in (request, "go\n"):
                for process in processes:
                    process.stdin.write(line)
                    process.stdin.flush()
                answers = [process.stdout.readline() for process in processes]
                if not all(answers):
                    raise BrokenPipeError
            for process in processes:  # TensorFlow's temporary files are removed when it ends
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_EXIT_SECONDS)
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
    return Measured(*map(statistics.median_high, zip(*map(json.loads, answers), strict=True)))


def bytes_in(folder: Path) -> int:
    """The total size of the files under a folder; 0 if it does not exist."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # an active run deletes checkpoints
                total += Path(place, name).stat().st_size
    return total


def _measure_here() -> None:
    """A process of `measured`: reads JSON, writes "ready" when warm, reads a line, writes a `Measured` as JSON."""
    # What simulators print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())
    settings = settings_from(request["settings"])
    use_device(find_device(), tf32=settings.precision == "tf32")
    emulators = use_threads(request["threads"], settings.network)["emulators"]
    small = dataclasses.replace(
        settings,
        replay_capacity=10 * settings.unroll_length + settings.burn_in,
        replay_start=0,
        replay_poisson=settings.replay_ratio % 1 > 0,  # a whole ratio needs no draws to average over
        learning_rate=1e-9,  # nothing may diverge
    )
    preset = settings.atari_preset
    spec = envs.spec(settings.env, atari_preset=preset)
    agent, replay = build.make_agent(small, spec), build.make_replay(small, spec)
    env = envs.make(settings.env, settings.num_envs, settings.seed, atari_preset=preset, threads=emulators)
    collector = collector_of(env, agent.act, replay, seed=0)
    before, after = (build.make_loop(small, collector, agent, replay, replay_start=at) for at in (sys.maxsize, 0))
    before.iterate()
    while settings.replay_ratio and not after.updates["replay"]:
        after.iterate()
    print("ready", file=answers, flush=True)
    sys.stdin.readline()
    # An iteration of the large network takes a second, one of the others milliseconds.
    seconds = 8.0 if torso_of(settings.network).large else 4.0
    loops = (before, after) if settings.replay_ratio else (before, before)
    # In turn, because the speed of a shared machine drifts.
    rounds = [[_seconds_per_step(loop, seconds / _ROUNDS) for loop in loops] for _ in range(_ROUNDS)]
    env.close()
    with tempfile.TemporaryDirectory() as name:
        checkpoint, policy = Path(name, "checkpoint"), Path(name, "policy")
        state = {"actor": collector.state(), "loop": after.state()}
        Checkpoints(checkpoint).save(Snapshot(agent.arrays(), state), None, 0)
        export_policy(agent.network, policy, policy_metadata(settings, 0, None))
        sizes = bytes_in(checkpoint), bytes_in(policy)
    pace = [statistics.median(found) for found in zip(*rounds, strict=True)]
    print(json.dumps(Measured(pace[0], pace[1], *sizes)), file=answers, flush=True)


def _seconds_per_step(loop: Loop, at_least: float) -> float:
    steps, began = loop.collector.steps, time.perf_counter()
    while (seconds := time.perf_counter() - began) < at_least:
        loop.iterate()
    return seconds / (loop.collector.steps - steps)


if __name__ == "__main__":
    _measure_here()
