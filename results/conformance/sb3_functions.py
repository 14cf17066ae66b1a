"""Stable-Baselines3's n-step returns under the kit's name, in float32 as its agents have them.

python ../../acer_tf/conformance/check.py sb3_functions float32
"""

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer


def multi_step_return(reward, terminated, truncated, next_value, gamma):
    count = len(reward)
    box = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    buffer = NStepReplayBuffer(count, box, spaces.Discrete(2), n_steps=count, gamma=gamma)
    for t in range(count):
        infos = [{"TimeLimit.truncated": bool(truncated[t] and not terminated[t])}]  # as `DummyVecEnv.step_wait`
        over, following = terminated[t] or truncated[t], np.array([[next_value[t]]])
        buffer.add(np.array([[t]]), following, np.zeros((1, 1)), reward[t : t + 1], np.array([over]), infos)
    rows = buffer._get_samples(np.arange(count))
    # As `DQN.train`.
    return (rows.rewards + (1 - rows.dones) * rows.discounts * rows.next_observations)[:, 0]
