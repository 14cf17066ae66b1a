"""Pong for programs that speak gym 0.25: today's ale-py speaks gymnasium, and the last that spoke gym has no games."""

from __future__ import annotations

from typing import Any

import ale_py
import gym
import numpy as np

NAME = "PongNoFrameskip-v4"


class Pong(gym.Env):
    """One frame per step, RGB, no sticky actions; reset() and step() answer as gym's did before 0.26."""

    def __init__(self) -> None:
        self._env = ale_py.AtariEnv("pong", frameskip=1, repeat_action_probability=0.0, full_action_space=False)
        self.ale = self._env.ale
        self.observation_space = gym.spaces.Box(0, 255, self._env.observation_space.shape, np.uint8)
        self.action_space = gym.spaces.Discrete(int(self._env.action_space.n))

    def get_action_meanings(self) -> list[str]:
        return list(self._env.get_action_meanings())

    def seed(self, seed: int | None = None) -> None:
        self._env.reset(seed=seed)

    def reset(self) -> Any:
        return self._env.reset()[0]

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        frame, reward, terminated, truncated, info = self._env.step(action)
        return frame, float(reward), terminated or truncated, info


def register() -> None:
    gym.logger.set_level(gym.logger.ERROR)
    gym.register(NAME, entry_point=Pong, max_episode_steps=400_000, order_enforce=False, disable_env_checker=True)
