"""How much of what policies of continuous actions answer lies beyond the actions' bounds, where environments clip.

    python results/figure3_draws/means_beyond_bounds.py "runs/control/cells/*/run" means.csv

Writes a line per finished run: its settings, the mean return of 16 sampled episodes, and the share of the components of
the policy's mean φ(x), over all steps of these, that lie outside of [-1, 1].
"""

from __future__ import annotations

import glob
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import acer_tf
from acer_tf import envs

EPISODES = 16
SETTINGS = ("env", "agent", "seed", "total_steps", "shared_torso", "learning_rate", "trust_region_delta")


def beyond_bounds(policy: acer_tf.Policy, seed: int = 0) -> tuple[float, float]:
    """The mean return of sampled episodes, and the share of φ's components outside of [-1, 1] in them."""
    world = envs.make(policy.metadata["env"], EPISODES, (seed, 0, 1))
    random = np.random.default_rng((seed, 0, 2))
    step, running = world.reset(), np.ones(EPISODES, bool)
    returns, outside, count = np.zeros(EPISODES), 0, 0
    while running.any():
        answer = policy.answer(step.observation)
        mean = answer["mean"]
        outside += int((np.abs(mean[running]) > 1).sum())
        count += mean[running].size
        step = world.step((mean + answer["std"] * random.standard_normal(mean.shape)).astype(np.float32))
        returns += np.where(running, step.reward, 0.0)
        running &= ~step.last
    world.close()
    return float(returns.mean()), outside / count


if __name__ == "__main__":
    pattern, output = sys.argv[1:]
    rows = []
    for folder in sorted(Path(path).parent for path in glob.glob(f"{pattern}/policy")):
        policy = acer_tf.load_policy(folder / "policy")
        mean_return, share = beyond_bounds(policy)
        settings = {name: policy.metadata["settings"][name] for name in SETTINGS}
        rows.append(settings | {"mean_return": round(mean_return, 2), "beyond_bounds": round(share, 4)})
        print(f"{folder.parent.name}: return {mean_return:.1f}, {share:.1%} beyond", flush=True)
    pd.DataFrame(rows).to_csv(output, index=False)
