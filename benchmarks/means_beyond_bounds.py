"""How much of what policies of continuous actions answer lies beyond the actions' bounds, where environments clip.

python -m benchmarks.means_beyond_bounds --runs="runs/control/cells/*/run" --output=means.csv

One line per finished run: its settings, the mean return of `--episodes` sampled episodes, and the share of the
components of the policy's mean φ(x), over all steps of these, that lie outside of [-1, 1].
"""

from __future__ import annotations

import glob
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from absl import flags

from acer_tf import envs
from acer_tf.commands import cli
from acer_tf.errors import PolicyError
from acer_tf.policies.policy import Policy, load_policy

FLAGS = cli.new_flags()
flags.DEFINE_multi_string("runs", [], "pattern of the runs' folders; may be repeated", flag_values=FLAGS)
flags.DEFINE_integer("episodes", 16, "of each policy, side by side", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string("output", None, "the new CSV file", flag_values=FLAGS)

_SETTINGS = ("env", "agent", "seed", "total_steps", "shared_torso", "learning_rate", "trust_region_delta")


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    if not FLAGS.runs or not FLAGS.output:
        return cli.fail(2, "--runs and --output must be given")
    if (output := Path(FLAGS.output)).exists() or not output.parent.is_dir():
        return cli.fail(2, f"--output={output}: must name a new file in a folder that exists")
    folders = [
        path for pattern in FLAGS.runs for path in map(Path, sorted(glob.glob(pattern))) if (path / "policy").is_dir()
    ]
    if not folders:
        return cli.fail(2, f"--runs={', '.join(FLAGS.runs)}: none of these is a finished run's folder")
    rows: list[dict[str, Any]] = []
    for number, folder in enumerate(folders, 1):
        try:
            policy = load_policy(folder / "policy")
        except PolicyError as error:
            return cli.fail(1, error)
        if not policy.spec.continuous:
            return cli.fail(2, f"{folder / 'policy'}: its actions are discrete")
        if "settings" not in policy.metadata:
            return cli.fail(2, f"{folder / 'policy'}: does not record its settings; export it anew")
        mean_return, share = beyond_bounds(policy, FLAGS.episodes)
        settings = policy.metadata["settings"]
        rows.append({name: settings[name] for name in _SETTINGS} | {"mean_return": mean_return, "beyond_bounds": share})
        print(
            f"{number} of {len(folders)}: {folder.parent.name}: return {mean_return:.1f}, {share:.1%} beyond",
            flush=True,
        )
    pd.DataFrame(rows).round({"mean_return": 2, "beyond_bounds": 4}).to_csv(output, index=False)
    return 0


def beyond_bounds(policy: Policy, episodes: int, seed: int = 0) -> tuple[float, float]:
    """The mean return of so many sampled episodes, and the share of φ's components outside of [-1, 1] in them."""
    world = envs.make(policy.metadata["env"], episodes, (seed, 0, 1))
    random = np.random.default_rng((seed, 0, 2))
    step, running = world.reset(), np.ones(episodes, bool)
    returns, outside, count = np.zeros(episodes), 0, 0
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
    sys.exit(main(sys.argv))
