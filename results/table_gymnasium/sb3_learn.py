"""Trains Stable-Baselines3's PPO or DQN on one of the tasks of `table_gymnasium`, with RL Zoo's settings for it.

Where RL Zoo has none, they are Stable-Baselines3's defaults. Leaves run.json and progress.csv in --run_dir, as a run of
acer_tf does, so that `python -m acer_tf curves` reads it. run.json has the mean return of 100 episodes of the final
policy, whose actions are the most probable ones.
"""

from __future__ import annotations

import argparse
import collections
import csv
import datetime
import importlib.metadata
import json
import os
import platform
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize

SMALL: dict[str, Any] = {"policy_kwargs": {"net_arch": [256, 256]}}
BOTH = {  # of two tasks
    "n_timesteps": 100_000,
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
    **SMALL,
}
# hyperparams/ppo.yml and dqn.yml of rl-baselines3-zoo; its lin_x falls from x to 0 over the run. BipedalWalker's PPO is
# for 5 M steps there.
ZOO: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "CartPole-v1"): {
        "n_envs": 8,
        "n_timesteps": 100_000,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": "lin_0.001",
        "clip_range": "lin_0.2",
    },
    ("ppo", "MountainCar-v0"): {
        "normalize": True,
        "n_envs": 16,
        "n_timesteps": 1_000_000,
        "n_steps": 16,
        "gae_lambda": 0.98,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    ("ppo", "Acrobot-v1"): {
        "normalize": True,
        "n_envs": 16,
        "n_timesteps": 1_000_000,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    ("ppo", "LunarLander-v3"): {
        "n_envs": 16,
        "n_timesteps": 1_000_000,
        "n_steps": 1024,
        "batch_size": 64,
        "gae_lambda": 0.98,
        "gamma": 0.999,
        "n_epochs": 4,
        "ent_coef": 0.01,
    },
    ("ppo", "Pendulum-v1"): {
        "n_envs": 4,
        "n_timesteps": 100_000,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
    ("ppo", "BipedalWalker-v3"): {
        "normalize": True,
        "n_envs": 32,
        "n_timesteps": 1_000_000,
        "n_steps": 2048,
        "batch_size": 64,
        "gae_lambda": 0.95,
        "gamma": 0.999,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 3e-4,
        "clip_range": 0.18,
    },
    ("dqn", "CartPole-v1"): {
        "n_timesteps": 50_000,
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        **SMALL,
    },
    ("dqn", "MountainCar-v0"): {
        "n_timesteps": 120_000,
        "learning_rate": 4e-3,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_starts": 1000,
        "gamma": 0.98,
        "target_update_interval": 600,
        "train_freq": 16,
        "gradient_steps": 8,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07,
        **SMALL,
    },
    ("dqn", "Acrobot-v1"): BOTH,
    ("dqn", "LunarLander-v3"): BOTH,
}
# Tasks that RL Zoo does not have, for as many steps as `table_gymnasium`; the last ones are this package's.
OTHERS = {"Taxi-v4": 200_000, "Blackjack-v1": 200_000, "FrozenLake-v1": 100_000}
OWN = {"Parcels-v0": 100_000, "Courier-v0": 100_000}
PUZZLES = Path(__file__).resolve().parents[2] / "acer_tf" / "envs" / "puzzles.py"
COLUMNS = ("steps", "frames", "seconds", "steps_per_second", "episodes", "mean_return", "interval_return")


class Record(BaseCallback):
    """Writes progress.csv: a row each `interval` steps and at the end, of the raw returns of training episodes."""

    def __init__(self, folder: Path, interval: int, total_steps: int) -> None:
        super().__init__()
        self._path, self._interval, self._total = folder / "progress.csv", interval, total_steps
        self._last: collections.deque[float] = collections.deque(maxlen=100)
        self._since: list[float] = []
        self._games, self._at, self._began = 0, 0, time.monotonic()
        self.seconds = 0.0
        with self._path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(COLUMNS)

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:  # of Monitor, which stands below the normalization
                self._since.append(float(info["episode"]["r"]))
        if self.num_timesteps - self._at >= self._interval or self.num_timesteps >= self._total > self._at:
            self._last.extend(self._since)
            self._games += len(self._since)
            now, steps = time.monotonic() - self._began, self.num_timesteps
            rate = (steps - self._at) / (now - self.seconds)
            means = [np.mean(values) if values else "" for values in (self._last, self._since)]
            with self._path.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow((steps, steps, round(now, 3), round(rate, 1), self._games, *means))
            self._since, self._at, self.seconds = [], steps, now
        return True


def make_task(env: str) -> gymnasium.Env:
    made = gymnasium.make(env.rpartition(":")[2])
    # Stable-Baselines3 has no observations in tuples.
    return gymnasium.wrappers.FlattenObservation(made) if env == "Blackjack-v1" else made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=("dqn", "ppo"), required=True)
    parser.add_argument("--env", choices=sorted({env for _, env in ZOO} | OTHERS.keys() | OWN.keys()), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run_dir", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    runpy.run_path(str(PUZZLES))  # registers them; our package is not installed here
    if (args.run_dir / "run.json").exists():
        print(f"{args.run_dir} holds a finished run")
        return
    options = dict(ZOO.get((args.algorithm, args.env), {}))
    steps = options.pop("n_timesteps", (OTHERS | OWN).get(args.env))
    env = f"acer_tf.envs.puzzles:{args.env}" if args.env in OWN else args.env
    settings = {"env": env, "agent": args.algorithm, "seed": args.seed, "total_steps": steps}
    settings |= {"log_interval": steps // 50, **options}
    normalized, copies = options.pop("normalize", False), options.pop("n_envs", 1)
    for name, value in options.items():
        if isinstance(value, str):
            options[name] = LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    envs, tests = (make_vec_env(lambda: make_task(args.env), n, seed=s) for n, s in ((copies, args.seed), (4, 1000)))
    if normalized:
        envs = VecNormalize(envs, gamma=options["gamma"])
        tests = VecNormalize(tests, training=False, norm_reward=False)
    several = isinstance(envs.observation_space, gymnasium.spaces.Dict)
    make = {"ppo": PPO, "dqn": DQN}[args.algorithm]
    model = make("MultiInputPolicy" if several else "MlpPolicy", envs, seed=args.seed, device="cpu", **options)
    args.run_dir.mkdir(parents=True, exist_ok=True)
    record = Record(args.run_dir, steps // 50, steps)
    model.learn(steps, callback=record)
    if normalized:
        tests.obs_rms = envs.obs_rms
    returns, _ = evaluate_policy(model, tests, n_eval_episodes=100, return_episode_rewards=True)
    names = ("stable-baselines3", "torch", "gymnasium", "numpy")
    with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        processor = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    document = {
        "format": 1,  # as acer_tf/runs/records.py
        "settings": settings,
        "command": ["python", *sys.argv],
        "started": started,
        "versions": {"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in names},
        "machine": {"processor": processor, "cores": len(os.sched_getaffinity(0))},
        "finished": True,
        "steps": model.num_timesteps,
        "seconds": round(record.seconds, 1),
        "evaluation": {"episodes": len(returns), "mean": float(np.mean(returns))},
    }
    (args.run_dir / "run.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(args.algorithm, args.env, args.seed, np.mean(returns), round(record.seconds), flush=True)


if __name__ == "__main__":
    main()
