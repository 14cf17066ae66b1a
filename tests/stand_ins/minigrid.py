"""Stands in for the package minigrid, where that is not installed: a room of its observation and action spaces."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

EMPTY, WALL, GOAL = 1, 2, 8
_FORWARD = 2


class MissionSpace(gymnasium.Space):
    """Sentences; no space of gymnasium's."""

    def sample(self, mask=None, probability=None):
        return "get to the green goal square"

    def contains(self, x):
        return isinstance(x, str)


class Empty(gymnasium.Env):
    """The goal is in the other corner, and the agent sees what is before it."""

    observation_space = Dict(direction=Discrete(4), image=Box(0, 255, (7, 7, 3), np.uint8), mission=MissionSpace())
    action_space = Discrete(7)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.direction, self.steps = np.array([0, 0]), 0, 0
        return self._see(), {}

    def step(self, action):
        self.steps += 1
        self.direction = (self.direction + {0: -1, 1: 1}.get(action, 0)) % 4
        if action == _FORWARD:
            self.place = np.clip(self.place + self._forward(), 0, 2)
        done = (self.place == 2).all()
        return self._see(), 1 - 0.9 * self.steps / 100 if done else 0.0, bool(done), self.steps >= 100, {}

    def _forward(self):
        return np.array([(1, 0), (0, 1), (-1, 0), (0, -1)][self.direction])

    def _see(self):
        image, (x, y) = np.zeros((7, 7, 3), np.uint8), self._forward()
        for ahead in range(7):
            for aside in range(-3, 4):
                place = self.place + ahead * np.array([x, y]) + aside * np.array([-y, x])
                inside = ((place >= 0) & (place <= 2)).all()
                image[3 + aside, 6 - ahead, 0] = (GOAL if (place == 2).all() else EMPTY) if inside else WALL
        return {"image": image, "direction": self.direction, "mission": self.observation_space["mission"].sample()}


gymnasium.register("MiniGrid-Empty-5x5-v0", Empty)
