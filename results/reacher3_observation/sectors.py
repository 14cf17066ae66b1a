"""Where episodes of reacher3 fail: by the direction of the target from the shoulder, over 1,000 episodes.

python results/reacher3_observation/sectors.py results/policies/reacher3
"""

import sys

import numpy as np

import acer_tf
from acer_tf.envs.control import EPISODE_STEPS, ControlVector
from acer_tf.envs.control_tasks import Reacher3, wrapped

EPISODES, FAILED, SECTOR = 1_000, 100, 40  # episodes, return below which one fails, degrees

policy = acer_tf.load_policy(sys.argv[1])
env = ControlVector(Reacher3, EPISODES, threads=1)
observation, _ = env.reset(seed=list(range(EPISODES)))
target, begin = env._task._target[:, :2].copy(), env._task.qpos[:, 0].copy()
random, returns = np.random.default_rng(0), np.zeros(EPISODES)
for _ in range(EPISODE_STEPS):
    answer = policy.answer(observation, policy.initial_state(EPISODES), None)
    action = answer["mean"] + answer["std"] * random.standard_normal(answer["mean"].shape)
    observation, reward, *_ = env.step(np.clip(action, -1, 1).astype(np.float32))
    returns += reward
turns = np.abs(env._task.qpos[:, 0] - begin) / (2 * np.pi)
shoulder = np.degrees(wrapped(env._task.qpos[:, 0]))
direction, distance = np.degrees(np.arctan2(target[:, 1], target[:, 0])), np.linalg.norm(target, axis=1)
failed = returns < FAILED
print(f"mean {returns.mean():.0f}; {failed.mean():.1%} fail; the others {returns[~failed].mean():.0f}")
if failed.any():
    print(f"the shoulder turned round at least once in {(turns[failed] >= 1).mean():.0%} of those that fail")
for low, high in ((0.05, 0.15), (0.15, 0.25)):
    there = (distance >= low) & (distance < high)
    print(f"target at {low} to {high} m: {failed[there].mean():.1%} fail")
print("direction of targets from 0.15 m on, episodes, fail, shoulder at the end of the others (10, 50, 90 %)")
for sector in range(-180, 180, SECTOR):
    there = (direction >= sector) & (direction < sector + SECTOR) & (distance >= 0.15)
    ends = np.percentile(shoulder[there & ~failed], [10, 50, 90]) if (there & ~failed).any() else []
    shown = ", ".join(f"{end:.0f}" for end in ends)
    print(f"{sector} to {sector + SECTOR} | {there.sum()} | {failed[there].mean():.0%} | {shown}")
