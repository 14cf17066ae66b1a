"""OpenAI baselines' ACER on Pong: its graph, runner, memory and wrappers, on a TensorFlow of today.

With the settings of its own script, but for a smaller memory and as many threads as there are cores. Its environments
are processes: ACER cannot read the observations of its vector environment without them.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import sys
import time
from typing import Any

import numpy as np
import old_gym
import tensorflow as tf

tf.compat.v1.disable_v2_behavior()
sys.modules["tensorflow"] = tf.compat.v1  # for which it was written

from baselines.acer.acer_simple import Acer, Model, Runner  # noqa: E402
from baselines.acer.buffer import Buffer  # noqa: E402
from baselines.acer.policies import AcerCnnPolicy  # noqa: E402
from baselines.common import set_global_seeds  # noqa: E402
from baselines.common.atari_wrappers import make_atari, wrap_deepmind  # noqa: E402
from baselines.common.vec_env.subproc_vec_env import SubprocVecEnv  # noqa: E402

ENVS, UNROLL, RATIO, CAPACITY, WARM_UP = 16, 20, 4, 2_000, 4
SETTINGS: dict[str, Any] = {
    **{"nenvs": ENVS, "nsteps": UNROLL, "nstack": 4, "ent_coef": 0.01, "q_coef": 0.5, "gamma": 0.99},
    **{"max_grad_norm": 10, "lr": 7e-4, "rprop_alpha": 0.99, "rprop_epsilon": 1e-5, "total_timesteps": 10**9},
    **{"lrschedule": "constant", "c": 10.0, "trust_region": True, "alpha": 0.99, "delta": 1},
}


def make_env(seed: int) -> Any:
    env = make_atari(old_gym.NAME)
    env.seed(seed)
    return wrap_deepmind(env)


def measure(seconds: float, seed: int) -> tuple[int, float]:
    """Steps and seconds of whole iterations: a collection and its updates."""
    set_global_seeds(seed)
    env = SubprocVecEnv([functools.partial(make_env, seed + number) for number in range(ENVS)])
    draws = np.random.default_rng(seed)
    cores = len(os.sched_getaffinity(0))
    model = Model(AcerCnnPolicy, env.observation_space, env.action_space, num_procs=cores, **SETTINGS)
    runner = Runner(env, model, UNROLL, SETTINGS["nstack"])
    acer = Acer(runner, model, Buffer(env, UNROLL, SETTINGS["nstack"], CAPACITY), log_interval=10**9)
    acer.steps, acer.tstart, iterations, start = ENVS * UNROLL, time.time(), 0, 0.0
    while iterations <= WARM_UP or time.monotonic() - start < seconds:
        if iterations == WARM_UP:
            start = time.monotonic()
        acer.call(on_policy=True)
        for _ in range(draws.poisson(RATIO)):
            acer.call(on_policy=False)
        iterations += 1
    result = (iterations - WARM_UP) * ENVS * UNROLL, time.monotonic() - start
    env.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    old_gym.register()
    steps, seconds = measure(args.seconds, args.seed)
    names = ("baselines", "tensorflow", "gym", "ale-py")
    print(
        json.dumps(
            {
                "steps": steps,
                "seconds": seconds,
                "steps_per_second": steps / seconds,
                "versions": {name: importlib.metadata.version(name) for name in names},
                "settings": f"{ENVS} environments, a process each, unroll {UNROLL}, replay ratio {RATIO}",
            }
        )
    )


if __name__ == "__main__":
    main()
