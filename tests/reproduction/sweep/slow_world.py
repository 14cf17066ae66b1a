"""CartPole at fifty steps a second, whose runs outlive a time limit of Slurm's, which counts in minutes."""

import time

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class SlowCartPole(CartPoleEnv):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


SLOW = f"{__name__}:SlowCartPole-v0"
gymnasium.register("SlowCartPole-v0", SlowCartPole, max_episode_steps=500)
