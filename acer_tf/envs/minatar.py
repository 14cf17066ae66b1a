"""MinAtar (Young & Tian, 2019): five miniature Atari games, through their gymnasium registration."""

import gymnasium
from minatar.gym import register_envs

from acer_tf.envs.gymnasium import make_gymnasium
from acer_tf.envs.vector import VectorEnvironment

# MinAtar has no time limit, and a perfect Breakout player never loses. Episodes of published scores are far shorter.
MINATAR_MAX_STEPS = 10_000


def make_minatar(game: str, num_envs: int, seeds: list[int], *, threads: int, render: bool) -> VectorEnvironment:
    """`num_envs` copies of a MinAtar game ("space_invaders"): its v1 ids, episodes of at most 10,000 steps.

    The v1 ids have the minimal action set, and MinAtar's defaults: sticky actions (probability 0.1) and increasing
    difficulty. Observations are bool [10, 10, channels]. Each environment's generator persists across episodes.
    """
    env_id = f"MinAtar/{game.title().replace('_', '')}-v1"
    if env_id not in gymnasium.registry:
        register_envs()
    return make_gymnasium(env_id, num_envs, seeds, threads=threads, render=render, max_episode_steps=MINATAR_MAX_STEPS)
