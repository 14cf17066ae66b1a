"""Frame stacks rebuilt from replay equal those of Atari games bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.replay import TrajectoryReplay
from tests.replay.twin import stack_frames

NUM_ENVS, UNROLL, UNROLLS = 8, 20, 125  # 20,000 steps


@pytest.mark.slow
@pytest.mark.parametrize("game", ["Pong", "Breakout"])
def test_rebuilt_stacks_equal_the_environments(game: str) -> None:
    env = envs.make(f"atari/{game}", num_envs=NUM_ENVS, seed=0)
    capacity = 5 * UNROLL + 7
    replay = TrajectoryReplay(env.spec, NUM_ENVS, capacity, UNROLL, seed=0)
    choose = np.random.default_rng(0)
    step = env.reset()
    replay.start(step.observation, step.age)
    shown = {0: step.observation}
    games = lives = 0
    for _ in range(UNROLLS):
        for _ in range(UNROLL):
            action = choose.integers(0, env.spec.num_actions, NUM_ENVS)
            step = env.step(action)
            behaviour = np.zeros((NUM_ENVS, env.spec.num_actions), np.float32)
            behaviour[:, 0] = replay.rows  # not a probability: identifies the row at which a window starts
            replay.append(action, behaviour, step)
            shown[replay.rows] = step.observation
            shown.pop(replay.rows - capacity - 1, None)
            games += int(step.last.sum())
            lives += int(((step.discount == 0) & ~step.last).sum())
        for trajectory in (replay.latest(), replay.sample()):
            stacks = stack_frames(trajectory.observation, trajectory.age, env.spec.stack)
            for number, start in enumerate(trajectory.behaviour[:, 0, 0].astype(int)):
                for offset in range(UNROLL + 1):
                    assert np.array_equal(stacks[number, offset], shown[start + offset][number])
    assert games >= NUM_ENVS and (lives > 100) == (game == "Breakout"), (
        "episodes ended, and in Breakout lives were lost"
    )
    env.close()
