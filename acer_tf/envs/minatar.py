"""MinAtar (Young & Tian, 2019): five miniature Atari games.

Only the games' own files are imported: the package around them imports seaborn, which takes seconds at every start.
"""

import functools
import importlib.util
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from acer_tf.envs.gymnasium import make_gymnasium
from acer_tf.envs.vector import VectorEnvironment

# MinAtar has no time limit, and a perfect Breakout player never loses. Episodes of published scores are far shorter.
MINATAR_MAX_STEPS = 10_000
_STICKY_PROBABILITY = 0.1  # MinAtar's default


def make_minatar(
    game: str, num_envs: int, seeds: list[int], *, render: bool, max_episode_steps: int, workers: int = 1
) -> VectorEnvironment:
    """`num_envs` copies of a MinAtar game ("space_invaders"); episodes are cut at 10,000 steps, or before.

    They are those of MinAtar's gymnasium ids of version 1: the minimal action set, sticky actions and increasing
    difficulty. Observations are bool [10, 10, channels]. Each environment's generator persists across episodes.
    """
    return make_gymnasium(
        f"minatar/{game}",
        num_envs,
        seeds,
        workers=workers,
        render=render,
        max_episode_steps=min(max_episode_steps, MINATAR_MAX_STEPS),
        factory=functools.partial(_Game, game, "rgb_array" if render else None),
    )


def _module(game: str) -> Any:
    package = importlib.util.find_spec("minatar")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'minatar'", name="minatar")
    path = Path(package.submodule_search_locations[0], "environments", f"{game}.py")
    spec: Any = importlib.util.spec_from_file_location(f"minatar.environments.{game}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Game(gymnasium.Env):
    """What `minatar.gym.BaseEnv` and `minatar.Environment` make of a game, draw for draw."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, game: str, render_mode: str | None) -> None:
        self.render_mode = render_mode
        self._game = _module(game).Env(ramping=True)
        self._actions = list(self._game.minimal_action_set())
        self._sticky = 0  # the last action, which episodes share
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))
        self.observation_space = gymnasium.spaces.Box(0, 1, self._game.state_shape(), np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._game.random = np.random.RandomState(seed)
        self._game.reset()
        return self._game.state(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._game.random.rand() >= _STICKY_PROBABILITY:
            self._sticky = self._actions[action]
        reward, over = self._game.act(self._sticky)
        return self._game.state(), reward, over, False, {}

    def render(self) -> Any:
        import seaborn

        state = self._game.state()
        channels = state.shape[-1]
        colours = np.array([(0, 0, 0), *seaborn.color_palette("cubehelix", channels)])
        return colours[(state * np.arange(1, channels + 1)).max(axis=-1)]
