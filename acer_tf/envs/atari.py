"""The Atari 2600 games, preprocessed by ALE's C++ vector environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import VectorWrapper

from acer_tf.envs.names import ATARI_ROMS, InvalidEnvironment, unknown
from acer_tf.envs.vector import VectorEnvironment


@dataclasses.dataclass(frozen=True)
class AtariPreset:
    """How a game is shown to the agent. `dataclasses.asdict` gives it for a record, `AtariPreset(**...)` reads it back.

    Attributes:
        frame_skip: frames per step; the action is repeated, the rewards are summed.
        max_pool: whether an observation is the maximum of the last two frames.
        height, width: pixels that a frame is resized to (area interpolation).
        grayscale: luminance; otherwise RGB.
        stack: observations stacked, oldest first; before a game's first observation they are zero.
        max_no_ops: a game starts with 0 to this many no-op frames (not steps), drawn uniformly.
        fire_at_start: the first of these frames, and at least one, presses FIRE where the game's action set has it;
            lost lives never do.
        sticky_probability: probability, per frame, that the emulator repeats its last action instead.
        full_action_set: all 18 actions instead of the game's own.
        life_loss_ends_return: discount 0 where a life is lost; the game goes on.
        max_frames: frames after which a game is truncated, its start not counted.
    """

    frame_skip: int
    max_pool: bool
    height: int
    width: int
    grayscale: bool
    stack: int
    max_no_ops: int
    fire_at_start: bool
    sticky_probability: float
    full_action_set: bool
    life_loss_ends_return: bool
    max_frames: int


_ACER_2016 = AtariPreset(
    frame_skip=4,
    max_pool=True,
    height=84,
    width=84,
    grayscale=True,
    stack=4,
    max_no_ops=30,
    fire_at_start=True,
    sticky_probability=0.0,
    full_action_set=False,
    life_loss_ends_return=True,
    max_frames=108_000,
)

# acer2016: the conventions of Mnih et al. (2015, 2016), whose preprocessing Wang et al. (2016) take; of the rest they
# state nothing.
# machado2018: Machado et al. (2018), "Revisiting the Arcade Learning Environment". Sticky actions are all the
# randomness there is, so no random start; FIRE is the agent's to find; lives are not revealed. Frame skip 4 and the
# cap of 108,000 frames are those of later work under this protocol (DreamerV2; ALE's own v5 environments).
ATARI_PRESETS: dict[str, AtariPreset] = {
    "acer2016": _ACER_2016,
    "machado2018": dataclasses.replace(
        _ACER_2016,
        max_no_ops=0,
        fire_at_start=False,
        sticky_probability=0.25,
        full_action_set=True,
        life_loss_ends_return=False,
    ),
}


def make_atari(
    game: str, num_envs: int, seeds: list[int], *, preset: str | AtariPreset, threads: int, render: bool
) -> VectorEnvironment:
    """`num_envs` copies of `game` ("MsPacman"); see `acer_tf.envs.make`.

    Observations are uint8 [stack, height, width].

    Raises:
        InvalidEnvironment: unknown game or preset.
    """
    if game not in ATARI_ROMS:
        raise unknown(f"atari/{game}")
    if isinstance(preset, str):
        if preset not in ATARI_PRESETS:
            raise InvalidEnvironment(f"there is no Atari preset {preset!r}; there are {', '.join(ATARI_PRESETS)}")
        preset = ATARI_PRESETS[preset]
    env: Any = _ale(game, num_envs, preset, threads)
    if render:
        screen = dataclasses.replace(preset, grayscale=False, height=210, width=160, stack=1)
        env = _WithScreen(env, _ale(game, num_envs, screen, threads))
    return VectorEnvironment(
        env,
        np.array(seeds, np.int32),
        stack=preset.stack,
        frames_per_step=preset.frame_skip,
        life_loss_ends_return=preset.life_loss_ends_return,
    )


def _ale(game: str, num_envs: int, preset: AtariPreset, threads: int) -> AtariVectorEnv:
    return AtariVectorEnv(
        ATARI_ROMS[game],
        num_envs,
        num_threads=threads,
        max_num_frames_per_episode=preset.max_frames,
        repeat_action_probability=preset.sticky_probability,
        full_action_space=preset.full_action_set,
        img_height=preset.height,
        img_width=preset.width,
        grayscale=preset.grayscale,
        stack_num=preset.stack,
        frameskip=preset.frame_skip,
        maxpool=preset.max_pool,
        # ALE draws uniformly from 0 to noop_max - 1 frames, and counts FIRE as one of them.
        noop_max=preset.max_no_ops + 1,
        use_fire_reset=preset.fire_at_start,
        # These two would restart the game, or end rows that no mask rule fits.
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
    )


class _WithScreen(VectorWrapper[Any, Any, Any, Any, Any]):
    """A vector environment beside its twin that shows the television's picture.

    ALE's vector environment draws nothing, but one with the same seeds and actions goes through the same games.
    """

    render_mode = "rgb_array"

    def __init__(self, env: AtariVectorEnv, twin: AtariVectorEnv) -> None:
        super().__init__(env)
        self._twin = twin
        self._picture: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self._picture = self._twin.reset(seed=seed, options=options)[0]
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: np.ndarray) -> Any:
        self._picture = self._twin.step(actions)[0]
        return self.env.step(actions)

    def render(self) -> Any:
        return self._picture[:, 0]
