"""Stable-Baselines3's PPO or DQN on Pong, with the faster of its two vectorised environments on this machine.

With RL Zoo's settings for Atari, but DQN has a smaller memory and learns sooner, and its ε stays near 1: most of its
actions are drawn without the network.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import time

import ale_py
import gymnasium
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack

WARM_UP = 2
LEARNING_STARTS = 1_000  # DQN's first steps, without updates


class Watch(BaseCallback):
    """Times whole rollouts with their updates, after `first` steps and WARM_UP of them, until `seconds` have passed."""

    def __init__(self, seconds: float, first: int) -> None:
        super().__init__()
        self._first, self._seconds, self._rollouts, self._start, self._stop = first, seconds, 0, (0.0, 0), False
        self.steps, self.seconds = 0, 0.0

    def _on_rollout_start(self) -> None:
        now = time.monotonic()
        if self._rollouts == WARM_UP:
            self._start = now, self.num_timesteps
        elif self._rollouts > WARM_UP:
            self.seconds, self.steps = now - self._start[0], self.num_timesteps - self._start[1]
            self._stop = self.seconds >= self._seconds
        self._rollouts += self.num_timesteps >= self._first

    def _on_step(self) -> bool:
        return not self._stop


def measure(vec_env: type[VecEnv], seconds: float, args: argparse.Namespace) -> Watch:
    env = VecFrameStack(
        make_atari_env("PongNoFrameskip-v4", n_envs=args.n_envs, seed=args.seed, vec_env_cls=vec_env), n_stack=4
    )
    if args.algorithm == "PPO":
        model = PPO(
            "CnnPolicy",
            env,
            learning_rate=2.5e-4,
            n_steps=args.n_steps,
            batch_size=args.batch_size,
            n_epochs=args.n_epochs,
            clip_range=0.1,
            ent_coef=0.01,
            vf_coef=0.5,
            seed=args.seed,
            device="cpu",
        )
    else:
        model = DQN(
            "CnnPolicy",
            env,
            learning_rate=1e-4,
            buffer_size=10_000,
            learning_starts=LEARNING_STARTS,
            batch_size=args.batch_size,
            train_freq=4,
            gradient_steps=1,
            target_update_interval=1_000,
            seed=args.seed,
            device="cpu",
        )
    watch = Watch(seconds, LEARNING_STARTS if args.algorithm == "DQN" else 0)
    model.learn(10**9, callback=watch)
    env.close()
    return watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--algorithm", choices=["PPO", "DQN"], default="PPO")
    parser.add_argument("--n_envs", type=int, default=8)
    parser.add_argument("--n_steps", type=int, default=128)
    parser.add_argument("--n_epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    gymnasium.register_envs(ale_py)

    trials = {vec_env: measure(vec_env, args.seconds / 4, args) for vec_env in (DummyVecEnv, SubprocVecEnv)}
    faster = max(trials, key=lambda vec_env: trials[vec_env].steps / trials[vec_env].seconds)
    watch = measure(faster, args.seconds, args)
    updates = f"n_steps {args.n_steps}, n_epochs {args.n_epochs}" if args.algorithm == "PPO" else "train_freq 4"
    print(
        json.dumps(
            {
                "steps": watch.steps,
                "seconds": watch.seconds,
                "steps_per_second": watch.steps / watch.seconds,
                "versions": {
                    name: importlib.metadata.version(name)
                    for name in ("stable-baselines3", "torch", "gymnasium", "ale-py")
                },
                "settings": f"n_envs {args.n_envs}, {updates}, batch_size {args.batch_size}, {faster.__name__}",
            }
        )
    )


if __name__ == "__main__":
    main()
