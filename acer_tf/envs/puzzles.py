"""Two small tasks with known optima, for spaces that gymnasium's own tasks lack; nothing else here is needed for them.

"acer_tf.envs.puzzles:Parcels-v0" shows a dictionary of an image and a vector.
"acer_tf.envs.puzzles:Courier-v0" takes arrays of integers as actions.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

SIDE = 7  # of the square of places
COST = 0.1  # of a step; the last one gives 1 instead
_MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])


class _Errand(gymnasium.Env[Any, Any]):
    """Go from a random place to another; a move off the square is none."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        start, goal = self.np_random.choice(SIDE**2, 2, replace=False)
        self.place, self.goal = np.array(divmod(start, SIDE)), np.array(divmod(goal, SIDE))
        return self._see(), {}

    def _move(self, change: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + change, 0, SIDE - 1)
        there = bool((self.place == self.goal).all())
        return self._see(), 1.0 if there else -COST, there, False, {}

    def _see(self) -> Any:
        raise NotImplementedError


class Parcels(_Errand):
    """One step at a time; the image shows the place, the vector names the goal."""

    observation_space = Dict(place=Box(0, 1, (SIDE, SIDE, 1), np.uint8), goal=Box(0, 1, (2,)))
    action_space = Discrete(len(_MOVES))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._move(_MOVES[action])

    def _see(self) -> dict[str, np.ndarray]:
        place = np.zeros((SIDE, SIDE, 1), np.uint8)
        place[tuple(self.place)] = 1
        return {"place": place, "goal": (self.goal / (SIDE - 1)).astype(np.float32)}


class Courier(_Errand):
    """One step along both axes at once, as a king in chess; the vector has the place and the goal."""

    observation_space = Box(0, 1, (4,))
    action_space = MultiDiscrete([3, 3], start=[-1, -1])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._move(np.asarray(action))

    def _see(self) -> np.ndarray:
        return (np.concatenate([self.place, self.goal]) / (SIDE - 1)).astype(np.float32)


def optimum(norm: float) -> float:
    """The mean return of the shortest ways: `norm` 1 for Parcels, np.inf for Courier."""
    places = np.argwhere(np.ones((SIDE, SIDE)))
    steps = np.linalg.norm(places[:, None] - places, norm, axis=-1)
    return float(1.0 - COST * (steps[steps > 0] - 1).mean())


_TASKS: dict[str, Any] = {"Parcels-v0": Parcels, "Courier-v0": Courier}
for _name, _task in _TASKS.items():
    gymnasium.register(_name, _task, max_episode_steps=50)
