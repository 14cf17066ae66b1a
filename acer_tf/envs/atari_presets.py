"""Preprocessing of Atari games: the two usual protocols, by name."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class AtariPreset:
    """How an Atari game is preprocessed. `dataclasses.asdict` converts it for a record, `AtariPreset(**...)` back.

    The defaults are the conventions of Mnih et al. (2015, 2016), whose preprocessing Wang et al. (2017) use; they do
    not state the rest.
    """

    frame_skip: int = 4  # frames per step; the action is repeated, the rewards are summed
    max_pool: bool = True  # whether an observation is the maximum of the last two frames
    height: int = 84  # pixels that a frame is resized to (area interpolation)
    width: int = 84
    grayscale: bool = True  # luminance instead of RGB
    stack: int = 4  # observations stacked, oldest first; those before the first of an episode are zero
    max_no_ops: int = 30  # an episode starts with 0 to this many no-op frames (not steps), drawn uniformly
    # The first of these frames, and at least one, presses FIRE if the game's action set has it; not after lost lives.
    fire_at_start: bool = True
    sticky_probability: float = 0.0  # per frame, that the emulator repeats its last action
    full_action_set: bool = False  # all 18 actions instead of the game's minimal set
    life_loss_ends_return: bool = True  # discount 0 where a life is lost; the episode continues
    max_frames: int = 108_000  # after which an episode is truncated, not counting its start


# machado2018: Machado et al. (2018), "Revisiting the Arcade Learning Environment". Sticky actions are the only
# randomness, so no random start; the agent must find FIRE; lives are not revealed. Frame skip 4 and the limit of
# 108,000 frames are those of later work under this protocol (DreamerV2; ALE's v5 environments).
ATARI_PRESETS: dict[str, AtariPreset] = {
    "acer2016": AtariPreset(),
    "machado2018": AtariPreset(
        max_no_ops=0,
        fire_at_start=False,
        sticky_probability=0.25,
        full_action_set=True,
        life_loss_ends_return=False,
    ),
}
