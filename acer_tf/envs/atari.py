"""The Atari 2600 games, with the preprocessing of ALE's C++ vector environment."""

import dataclasses
from typing import Any

import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import VectorEnv, VectorWrapper

from acer_tf.envs import UNLIMITED
from acer_tf.envs.families import ATARI_ROMS, AtariPreset
from acer_tf.envs.vector import VectorEnvironment


def make_atari(
    game: str,
    num_envs: int,
    seeds: list[int],
    *,
    preset: AtariPreset,
    threads: int,
    render: bool,
    max_episode_steps: int,
) -> VectorEnvironment:
    """`num_envs` copies of `game` ("MsPacman"); observations are uint8 [stack, height, width]."""
    max_frames = min(preset.max_frames, max_episode_steps * preset.frame_skip)
    preset = dataclasses.replace(preset, max_frames=max_frames)
    env: Any = _ale(game, num_envs, preset, threads)
    if render:
        screen = dataclasses.replace(preset, grayscale=False, height=210, width=160, stack=1)
        env = _WithScreen(env, _ale(game, 1, screen, 1))
    return VectorEnvironment(
        f"atari/{game}",
        env,
        np.array(seeds, np.int32),
        stack=preset.stack,
        frames_per_step=preset.frame_skip,
        life_loss_ends_return=preset.life_loss_ends_return,
        picture=(lambda: env.screen[0, 0]) if render else None,
    )


class _AtariVector(AtariVectorEnv):
    metadata: dict[str, Any] = {}  # AtariVectorEnv writes to that of its class, which all vector environments share


def _ale(game: str, num_envs: int, preset: AtariPreset, threads: int) -> VectorEnv:
    env = _AtariVector(
        ATARI_ROMS[game],
        num_envs,
        num_threads=threads,
        max_num_frames_per_episode=UNLIMITED,
        repeat_action_probability=preset.sticky_probability,
        full_action_space=preset.full_action_set,
        img_height=preset.height,
        img_width=preset.width,
        grayscale=preset.grayscale,
        stack_num=preset.stack,
        frameskip=preset.frame_skip,
        maxpool=preset.max_pool,
        # ALE draws uniformly from 0 to noop_max - 1 frames, FIRE included.
        noop_max=preset.max_no_ops + 1,
        use_fire_reset=preset.fire_at_start,
        # These two would restart the game, or end rows without a masked row after them.
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
    )
    return _Truncated(env, -(-preset.max_frames // preset.frame_skip))


class _Truncated(VectorWrapper):
    """ALE's vector environment, with episodes truncated after `max_steps` steps.

    ALE's own limit would end the last step before its last frame is seen: the final observation, from which a value is
    bootstrapped, would be the maximum of an earlier frame and a stale one.
    """

    def __init__(self, env: AtariVectorEnv, max_steps: int) -> None:
        super().__init__(env)
        self._max_steps = max_steps
        self._steps = np.zeros(self.num_envs, np.int64)
        self._over = self._cut = np.zeros(self.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self._over = self._cut = np.zeros(self.num_envs, bool)
        self._steps[:] = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: np.ndarray) -> Any:
        observation, reward, terminated, _, info = self.env.step(actions)
        if self._cut.any():  # ALE has played on there; it leaves the others as they are
            observation, info = self.env.reset(options={"reset_mask": self._cut})
            terminated = terminated & ~self._cut
        self._steps = np.where(self._over, 0, self._steps + 1)
        self._cut = (self._steps >= self._max_steps) & ~terminated
        self._over = terminated | self._cut
        return observation, reward, terminated, self._cut, info


class _WithScreen(VectorWrapper):
    """A vector environment and a twin of its first environment, whose observation is the screen.

    ALE's vector environment cannot render, but a twin with the same seed and actions has the same episodes.
    """

    def __init__(self, env: VectorEnv, twin: VectorEnv) -> None:
        super().__init__(env)
        self._twin = twin

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self.screen, _ = self._twin.reset(seed=None if seed is None else seed[:1], options=options)
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: np.ndarray) -> Any:
        self.screen = self._twin.step(actions[:1])[0]
        return self.env.step(actions)
