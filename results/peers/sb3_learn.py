"""Trains Stable-Baselines3's PPO or DQN, with RL Zoo's Atari settings, on Pong or a MinAtar game.

Leaves run.json and progress.csv in --run_dir, as a run of this package does, so that `python -m acer_tf curves` lays
one beside the other. The same command continues a run that was interrupted, from its last checkpoint and with new
episodes; a finished one is left alone.

MinAtar's images are too small for their network for Atari: there it is this package's small network, one convolution
of 16 3x3 filters and 128 units, and a step is one frame. Episodes end after 10,000 steps, as here.
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
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ale_py
import gymnasium
import numpy as np
import torch
from minatar.gym import register_envs
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack
from torch import nn

# hyperparams/ppo.yml and dqn.yml of rl-baselines3-zoo, entry "atari"; its lin_x falls from x to 0 over the run.
ZOO: dict[str, dict[str, Any]] = {
    "ppo": {
        "n_envs": 8,
        "n_steps": 128,
        "n_epochs": 4,
        "batch_size": 256,
        "learning_rate": "lin_2.5e-4",
        "clip_range": "lin_0.1",
        "vf_coef": 0.5,
        "ent_coef": 0.01,
    },
    "dqn": {
        "n_envs": 1,
        "buffer_size": 100_000,
        "learning_rate": 1e-4,
        "batch_size": 32,
        "learning_starts": 100_000,
        "target_update_interval": 1000,
        "train_freq": 4,
        "gradient_steps": 1,
        "exploration_fraction": 0.1,
        "exploration_final_eps": 0.01,
    },
}
PACKAGE = Path(__file__).resolve().parents[2] / "acer_tf"
MINATAR_MAX_STEPS = 10_000
BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
COLUMNS = ("steps", "frames", "seconds", "steps_per_second", "episodes", "mean_return", "interval_return")


class SmallNetwork(BaseFeaturesExtractor):
    """MinAtar's network, on observations [B, 10, 10, channels]."""

    def __init__(self, observation_space: gymnasium.spaces.Box, features_dim: int = 128) -> None:
        super().__init__(observation_space, features_dim)
        height, width, channels = observation_space.shape
        flat = 16 * (height - 2) * (width - 2)
        self._layers = nn.Sequential(
            nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(flat, features_dim), nn.ReLU()
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self._layers(observations.permute(0, 3, 1, 2))


class Record(BaseCallback):
    """Writes progress.csv: a row each `interval` steps and at the end, of the returns of training episodes.

    Saves the whole run each `checkpoint_seconds`, and when a signal asks it to stop. It does so before a rollout, when
    what was collected has been learned from.
    """

    def __init__(
        self, folder: Path, interval: int, total_steps: int, frames_per_step: int, checkpoint_seconds: float
    ) -> None:
        super().__init__()
        self._folder, self._path = folder, folder / "progress.csv"
        self._interval, self._total, self._frames = interval, total_steps, frames_per_step
        self._last: collections.deque[float] = collections.deque(maxlen=100)
        self._since: list[float] = []
        self._games, self._at, self._began = 0, 0, time.monotonic()
        self._checkpoint_seconds, self._saved = checkpoint_seconds, time.monotonic()
        self.seconds = 0.0
        self.resumed_at: list[int] = []
        self.asked, self.stopped = 0, False  # the number of a signal; whether its checkpoint is written

    def begin(self, state: dict[str, Any] | None, steps: int) -> None:
        """Begins progress.csv, or continues it after the rows of the checkpoint with `state`."""
        if state is None:
            with self._path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(COLUMNS)
            return
        os.truncate(self._path, state["position"])
        self._last.extend(state["last"])
        self._since, self._games, self._at = state["since"], state["episodes"], state["at"]
        self.seconds, self.resumed_at = state["row_seconds"], [*state["resumed_at"], steps]
        self._began -= state["seconds"]

    def _on_rollout_start(self) -> None:
        if self.asked or time.monotonic() - self._saved > self._checkpoint_seconds:
            state = {
                "position": self._path.stat().st_size,
                "last": list(self._last),
                "since": self._since,
                "episodes": self._games,
                "at": self._at,
                "row_seconds": self.seconds,
                "seconds": time.monotonic() - self._began,
                "resumed_at": self.resumed_at,
            }
            save_checkpoint(self.model, state, self._folder)
            self._saved, self.stopped = time.monotonic(), self.asked > 0

    def _on_step(self) -> bool:
        if self.stopped:
            return False
        for info in self.locals["infos"]:
            if "episode" in info:  # raw returns: Monitor stands below clipping and the loss of lives
                self._since.append(float(info["episode"]["r"]))
        if self.num_timesteps - self._at >= self._interval or self.num_timesteps >= self._total > self._at:
            self._write()
        return True

    def _write(self) -> None:
        self._last.extend(self._since)
        self._games += len(self._since)
        now = time.monotonic() - self._began
        steps = self.num_timesteps
        rate = (steps - self._at) / (now - self.seconds)
        mean = np.mean(self._last) if self._last else ""
        interval = np.mean(self._since) if self._since else ""
        row = (steps, steps * self._frames, round(now, 3), round(rate, 1), self._games, mean, interval)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(row)
        print(
            f"{100 * steps / self._total:5.1f} %  {steps:,} steps  {rate:,.0f} steps/s  mean return {mean}", flush=True
        )
        self._since, self._at, self.seconds = [], steps, now


def make_env(name: str, n_envs: int, seed: int) -> VecEnv:
    family, _, game = name.partition("/")
    if family == "atari":
        gymnasium.register_envs(ale_py)
        return VecFrameStack(make_atari_env(f"{game}NoFrameskip-v4", n_envs=n_envs, seed=seed), n_stack=4)
    env_id = f"MinAtar/{game.title().replace('_', '')}-v1"
    if env_id not in gymnasium.registry:  # gymnasium has loaded MinAtar's by its entry point
        register_envs()
    return make_vec_env(env_id, n_envs=n_envs, seed=seed, env_kwargs={"max_episode_steps": MINATAR_MAX_STEPS})


def options_of(algorithm: str, changes: list[str]) -> dict[str, Any]:
    """RL Zoo's settings with `changes`, each NAME=VALUE; a rate that falls to 0 also falls from the one given."""
    options = dict(ZOO[algorithm])
    for name, _, text in (change.partition("=") for change in changes):
        if name not in options:
            sys.exit(f"error: --set={name}: must be one of {', '.join(options)}")
        kind = type(options[name])
        try:
            options[name] = f"lin_{float(text)}" if kind is str else kind(text)
        except ValueError:
            sys.exit(f"error: --set={name}={text}: must be a number, as {options[name]}")
    return options


def make_model(algorithm: str, env: str, vec_env: VecEnv, seed: int, options: dict[str, Any]) -> BaseAlgorithm:
    options = {name: value for name, value in options.items() if name != "n_envs"}
    for name, value in options.items():
        if isinstance(value, str):
            options[name] = LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    if env.startswith("minatar/"):
        options["policy_kwargs"] = {
            "features_extractor_class": SmallNetwork,
            "net_arch": [],
            "normalize_images": False,
        }
    return {"ppo": PPO, "dqn": DQN}[algorithm]("CnnPolicy", vec_env, seed=seed, device="cpu", **options)


def save_checkpoint(model: BaseAlgorithm, state: dict[str, Any], folder: Path) -> None:
    """Replaces the checkpoint in `folder` by the model, the arrays of its replay buffer, and `state`."""
    partial, final, old = (folder / f"checkpoint{suffix}" for suffix in (".partial", "", ".old"))
    for leftover in (partial, old):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir()
    model.save(partial / "model.zip")
    if isinstance(model, DQN):
        buffer = model.replay_buffer
        for name in BUFFER:
            np.save(partial / f"{name}.npy", getattr(buffer, name)[: buffer.buffer_size if buffer.full else buffer.pos])
        state = {**state, "pos": buffer.pos, "full": buffer.full}
    write(partial / "state.json", state)
    if final.exists():
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(algorithm: str, env: VecEnv, folder: Path) -> tuple[BaseAlgorithm, dict[str, Any]] | None:
    """The model and the state of the checkpoint in `folder`; None if there is none."""
    found = next((path for path in (folder / "checkpoint", folder / "checkpoint.old") if path.exists()), None)
    if found is None:
        return None
    model = {"ppo": PPO, "dqn": DQN}[algorithm].load(found / "model.zip", env=env, device="cpu")
    state = json.loads((found / "state.json").read_text(encoding="utf-8"))
    if isinstance(model, DQN):
        buffer = model.replay_buffer
        for name in BUFFER:
            rows = np.load(found / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            getattr(buffer, name)[: len(rows)] = rows
        buffer.pos, buffer.full = state["pos"], state["full"]
    return model, state


def document(args: argparse.Namespace, options: dict[str, Any]) -> dict[str, Any]:
    commit = runpy.run_path(str(PACKAGE / "runs" / "commit.py"))  # our package is not installed here
    names = ("stable-baselines3", "torch", "gymnasium", "ale-py", "minatar", "numpy")
    with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        processor = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    return {
        "format": 1,  # as acer_tf/runs/records.py
        "settings": {
            "env": args.env,
            "agent": args.algorithm,
            "seed": args.seed,
            "total_steps": args.total_steps,
            "log_interval": args.log_interval,
            **options,
        },
        "command": ["python", *sys.argv],
        "threads": {"intra_op": args.threads},
        **commit["code_version"](),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {n: importlib.metadata.version(n) for n in names},
        "machine": {"processor": processor, "cores": len(os.sched_getaffinity(0))},
    }


def write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=sorted(ZOO), required=True)
    parser.add_argument("--env", required=True, help="minatar/breakout, atari/Pong")
    parser.add_argument("--total_steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--log_interval", type=int, default=20_000)
    parser.add_argument("--checkpoint_minutes", type=float, default=20.0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="in place of RL Zoo's")
    parser.add_argument("--run_dir", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.run_dir.mkdir(parents=True, exist_ok=True)
    options = options_of(args.algorithm, args.set)
    path, made = args.run_dir / "run.json", document(args, options)
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["settings"] != made["settings"]:
            sys.exit(f"error: --run_dir={args.run_dir} holds a run with other settings: choose another folder")
        if known.get("finished"):
            print(f"{args.run_dir} holds a finished run")
            return
    frames = 4 if args.env.startswith("atari/") else 1
    record = Record(args.run_dir, args.log_interval, args.total_steps, frames, 60 * args.checkpoint_minutes)
    vec_env = make_env(args.env, options["n_envs"], args.seed)
    if loaded := load_checkpoint(args.algorithm, vec_env, args.run_dir):
        (model, state), made = loaded, known
        # Else the environments would repeat the episodes with which the run began.
        vec_env.seed(args.seed + model.num_timesteps)
    else:
        model, state = make_model(args.algorithm, args.env, vec_env, args.seed, options), None
        write(path, made)
    record.begin(state, model.num_timesteps)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: setattr(record, "asked", number))
    model.learn(args.total_steps - model.num_timesteps, callback=record, reset_num_timesteps=state is None)
    if record.stopped:
        print(f"stopped; the same command continues from {args.run_dir}/checkpoint", flush=True)
        sys.exit(128 + record.asked)
    ended = {"finished": True, "steps": model.num_timesteps, "seconds": round(record.seconds, 1)}
    if record.resumed_at:
        ended["resumed_at"] = record.resumed_at
    write(path, made | ended)
    shutil.rmtree(args.run_dir / "checkpoint", ignore_errors=True)


if __name__ == "__main__":
    main()
