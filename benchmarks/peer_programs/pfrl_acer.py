"""PFRL's ACER on Pong, as its examples/atari/train_acer_ale.py has it, but with our settings of the comparison.

That is the Nature network, t_max 20, a smaller memory that replays sooner, and a learning rate that is not annealed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
import tempfile
import time
import warnings
from typing import Any

# As in PFRL's example: one thread per process. Before NumPy and torch are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import old_gym
import pfrl
import torch
from pfrl.agents import acer
from pfrl.policies import SoftmaxCategoricalHead
from pfrl.q_functions import DiscreteActionValueHead
from pfrl.replay_buffers import EpisodicReplayBuffer
from pfrl.wrappers import atari_wrappers
from torch import nn

T_MAX, REPLAYS, REPLAY_START, REPLAY_CAPACITY = 20, 4, 300, 20_000


def make_env(seed: int) -> Any:
    old_gym.register()
    env = atari_wrappers.wrap_deepmind(atari_wrappers.make_atari(old_gym.NAME))
    env.seed(seed)
    return env


def make_agent(actions: int) -> acer.ACER:
    model = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        acer.ACERDiscreteActionHead(
            pi=nn.Sequential(nn.Linear(512, actions), SoftmaxCategoricalHead()),
            q=nn.Sequential(nn.Linear(512, actions), DiscreteActionValueHead()),
        ),
    )
    model.apply(pfrl.initializers.init_chainer_default)
    return acer.ACER(
        model,
        pfrl.optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=4e-3, alpha=0.99),
        t_max=T_MAX,
        gamma=0.99,
        replay_buffer=EpisodicReplayBuffer(REPLAY_CAPACITY),
        n_times_replay=REPLAYS,
        replay_start_size=REPLAY_START,
        beta=1e-2,
        phi=lambda x: np.asarray(x, dtype=np.float32) / 255,
        max_grad_norm=40,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()

    warnings.simplefilter("ignore")
    stop = torch.multiprocessing.Event()
    # PFRL's replay serves whole games only: a process has begun to replay when its buffer of finished games has enough.
    replaying = torch.multiprocessing.Array("b", args.processes)
    first, last = (torch.multiprocessing.Array("d", 2) for _ in range(2))

    def watch(env: Any, agent: acer.ACER, steps: int) -> None:
        replaying[agent.process_idx] = len(agent.replay_buffer) >= REPLAY_START
        # Time only whole rounds of t_max steps and the updates after them.
        if agent.process_idx or agent.t > agent.t_start or stop.is_set():
            return
        if not first[0]:
            if all(replaying):
                first[:] = time.monotonic(), steps
        elif time.monotonic() - first[0] >= args.seconds:
            last[:] = time.monotonic(), steps
            stop.set()

    with tempfile.TemporaryDirectory() as folder:
        pfrl.experiments.train_agent_async(
            outdir=folder,
            processes=args.processes,
            make_env=lambda index, test: make_env(args.seed * args.processes + index),
            steps=10**9,
            eval_interval=None,
            agent=make_agent(actions=6),
            global_step_hooks=[watch],
            # PFRL's default, NumPy integers, are no seeds for Python 3.11.
            random_seeds=[args.seed * args.processes + index for index in range(args.processes)],
            stop_event=stop,
        )
    if not last[0]:
        sys.exit(1)  # a process has failed, and has said why
    seconds, steps = last[0] - first[0], round(last[1] - first[1])
    print(
        json.dumps(
            {
                "steps": steps,
                "seconds": seconds,
                "steps_per_second": steps / seconds,
                "versions": {name: importlib.metadata.version(name) for name in ("pfrl", "torch", "gym", "ale-py")},
                "settings": f"{args.processes} asynchronous process(es) of 1 environment and 1 thread; t_max {T_MAX}, "
                f"{REPLAYS} replays per update, state by state (no batches)",
            }
        )
    )


if __name__ == "__main__":
    main()
