"""Networks with an LSTM beside those of the same torso without one: acting, updating and the whole loop."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.settings import Settings
from benchmarks.timing import Group, Workload, interleaved, milliseconds, steps_per_second

RATIO, LSTM_UNITS = 4, 256
# By group, since a process has one setting of threads: environment, torso, iterations and updates timed together.
PAIRS = {"recurrent": ("atari/Pong", "nature", 2, 4), "recurrent_small": ("CartPole-v1", "mlp", 10, 20)}


def recurrent(name: str, repetitions: int, scratch: Path) -> Group:
    """One of `PAIRS`, with preset `baselines` and a replay of a few unrolls."""
    from acer_tf.training.device import use_threads

    env_id, torso, iterations, updates = PAIRS[name]
    workloads, closing = dict[str, Workload](), list[Any]()
    threads = use_threads(0, _settings(env_id, torso, LSTM_UNITS))
    for network, lstm_units in ((torso, 0), (f"{torso}_lstm", LSTM_UNITS)):
        env, agent, loop, batch = _loop(env_id, torso, lstm_units, threads["environments"])
        closing.append(env)
        spec, state = env.spec, np.zeros((env.num_envs, agent.network.state_size), np.float32)
        observation = np.zeros((env.num_envs, *spec.observation_shape), spec.observation_dtype)
        act = functools.partial(agent.act, observation, np.zeros(2, np.int32), state)
        workloads[f"act, {network}"] = milliseconds(act, 50)
        workloads[f"replayed update, {network}"] = milliseconds(functools.partial(agent.learn, batch), updates)
        run = functools.partial(steps_per_second, loop, iterations)
        workloads[f"loop, ratio {RATIO}, {network}"] = Workload("steps/s", run)
    measurements = interleaved(workloads, repetitions)
    for env in closing:
        env.close()
    plain, other = (measurements[f"loop, ratio {RATIO}, {network}"].median for network in (torso, f"{torso}_lstm"))
    return Group(measurements, {"threads": threads, "share": other / plain})


def _loop(env_id: str, network: str, lstm_units: int, threads: int) -> tuple[Any, Any, Any, Any]:
    """(environments, agent, loop, a replayed batch) of a loop that has begun to replay."""
    from acer_tf import envs
    from acer_tf.training.actor import Actor, LocalActors
    from acer_tf.training.build import make_agent, make_replay
    from acer_tf.training.collector import Collector
    from acer_tf.training.loop import Loop

    settings = _settings(env_id, network, lstm_units)
    spec = envs.spec(env_id)
    agent, replay = make_agent(settings, spec), make_replay(settings, spec)
    env = envs.make(env_id, settings.num_envs, 0, threads=threads)
    collector = Collector(LocalActors([Actor(env, agent.act, 0, replay.state_size)]), replay)
    loop = Loop(collector, agent, replay, settings)
    while not replay.can_sample:
        loop.iterate()
    return env, agent, loop, replay.batch(np.array([False]), np.arange(replay.num_envs)[None])


def _settings(env_id: str, network: str, lstm_units: int) -> Settings:
    from acer_tf import envs
    from acer_tf.settings import make_settings
    from acer_tf.training.resolve import resolve

    # Nothing is to be learned here, and nothing may diverge.
    small = {"replay_capacity": 200, "replay_start": 0, "learning_rate": 1e-9}
    fixed = {"replay_ratio": RATIO, "replay_poisson": False}
    given = {"env": env_id, "preset": "baselines", "network": network, "lstm_units": lstm_units}
    settings = make_settings({**given, **small, **fixed})
    return resolve(settings, envs.spec(env_id))
