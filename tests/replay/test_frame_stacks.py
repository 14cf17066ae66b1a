"""Frame stacks rebuilt from replay equal those of Atari games bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.replay import TrajectoryReplay
from acer_tf.types import Unroll
from tests.replay.twin import latest, sample, stack_frames

NUM_ENVS, UNROLL, UNROLLS = 8, 20, 70  # 11,200 steps


@pytest.mark.slow
@pytest.mark.parametrize("game", ["Pong", "Breakout"])
def test_rebuilt_stacks_equal_the_environments(game: str) -> None:
    env = envs.make(f"atari/{game}", num_envs=NUM_ENVS, seed=0)
    capacity = 5 * UNROLL + 7
    replay = TrajectoryReplay(env.spec, NUM_ENVS, capacity, UNROLL, seed=0)
    choose = np.random.default_rng(0)
    step = env.reset()
    replay.reset(env.spec.newest_frame(step.observation), step.age)
    shown = {0: step.observation}
    state = np.zeros((NUM_ENVS, 0), np.float32)
    ended = lives = 0
    for _ in range(UNROLLS):
        first, rows = step, []
        for row in range(UNROLL):
            action = choose.integers(0, env.spec.num_actions, NUM_ENVS)
            step = env.step(action)
            number = replay.rows + row
            behaviour = np.zeros((NUM_ENVS, env.spec.num_actions), np.float32)
            behaviour[:, 0] = number  # not a probability: identifies the row at which a window starts
            rows.append((action, behaviour, step))
            shown[number + 1] = step.observation
            shown.pop(number - capacity, None)
            ended += int(step.last.sum())
            lives += int(((step.discount == 0) & ~step.last).sum())
        replay.append(Unroll.of_rows(env.spec, first, rows, state, state))
        for trajectory in (latest(replay), sample(replay)):
            stacks = stack_frames(trajectory.observation, trajectory.age, env.spec.stack)
            for number, start in enumerate(trajectory.behaviour[:, 0, 0].astype(int)):
                for offset in range(UNROLL + 1):
                    assert np.array_equal(stacks[number, offset], shown[start + offset][number])
    assert ended >= NUM_ENVS and (lives > 100) == (game == "Breakout"), (
        "episodes ended, and in Breakout lives were lost"
    )
    env.close()
