"""Measures one kind of cell for `measured`: reads JSON, writes "ready" when warm, reads a line, writes JSON."""

import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from acer_tf import envs
from acer_tf.reproduction.plan.measure import Measured, bytes_in
from acer_tf.settings_record import settings_from
from acer_tf.torsos import torso_of
from acer_tf.training.build import make_agent, make_loop, make_replay
from acer_tf.training.checkpoint import Checkpoints, Snapshot
from acer_tf.training.collector import collector_of
from acer_tf.training.device import find_device, use_device, use_threads
from acer_tf.training.export import export_policy
from acer_tf.training.loop import Loop
from acer_tf.training.run import policy_metadata

_ROUNDS = 4


def main() -> None:
    # What simulators print must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request = json.loads(sys.stdin.readline())
    settings = settings_from(request["settings"])
    use_device(find_device())
    emulators = use_threads(request["threads"], settings.network)["emulators"]
    small = dataclasses.replace(
        settings,
        replay_capacity=10 * settings.unroll_length + settings.burn_in,
        replay_start=0,
        replay_poisson=settings.replay_ratio % 1 > 0,  # a whole ratio needs no draws to average over
        learning_rate=1e-9,  # nothing may diverge
    )
    spec = envs.spec(settings.env, atari_preset=settings.atari_preset)
    agent, replay = make_agent(small, spec), make_replay(small, spec)
    env = envs.make(
        settings.env, settings.num_envs, settings.seed, atari_preset=settings.atari_preset, threads=emulators
    )
    collector = collector_of(env, agent.act, replay, seed=0)
    before, after = (make_loop(small, collector, agent, replay, replay_start=start) for start in (sys.maxsize, 0))
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
        arrays = {name: np.asarray(variable.value) for name, variable in agent.variables().items()}
        Checkpoints(checkpoint).save(Snapshot(arrays, {"actor": collector.state(), "loop": after.state()}), None, 0)
        export_policy(agent.network, policy, policy_metadata(settings, 0))
        pace = [statistics.median(found) for found in zip(*rounds, strict=True)]
        found = Measured(pace[0], pace[1], bytes_in(checkpoint), bytes_in(policy))
    print(json.dumps(found._asdict()), file=answers, flush=True)


def _seconds_per_step(loop: Loop, at_least: float) -> float:
    steps, began = loop.collector.steps, time.perf_counter()
    while (seconds := time.perf_counter() - began) < at_least:
        loop.iterate()
    return seconds / (loop.collector.steps - steps)


if __name__ == "__main__":
    main()
