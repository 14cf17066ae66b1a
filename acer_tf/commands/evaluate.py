"""Evaluates an exported policy: whole episodes, raw score, and on Atari the human-normalised score.

python -m acer_tf evaluate --policy=runs/pong/policy --episodes=30 --video=pong.mp4

It needs only the policy's directory: environment, preset and preprocessing are in its metadata. An environment that
imports a module (module:Id-v0) must also be named by --env.
Exit status: 0 done, 1 failed while running, 2 bad input, 128 + the signal's number after an interruption.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acer_tf.commands import cli
from acer_tf.policies.metadata import read_metadata
from acer_tf.runs.provenance import package_versions
from acer_tf.runs.signals import STOPPED, signal_of

if TYPE_CHECKING:
    from acer_tf.policies.evaluation import EvaluationResult


FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.path("policy", None, "directory of an exported policy, such as RUN_DIR/policy")
flag.string("env", None, "environment, instead of the policy's; must be given where that names a module: module:Id-v0")
flag.integer("episodes", 30, "number of whole episodes", 1, 1_000_000)
flag.bool("greedy", False, "take the most probable action instead of sampling")
flag.integer("seed", 0, "seed of the environments and of the sampled actions", lower_bound=0)
flag.integer("num_envs", 16, "environments in parallel; at most one per episode", 1, 1000)
flag.integer("max_episode_steps", None, "steps after which an episode is cut, if nothing ends it before", 1, 2**30)
flag.integer("env_workers", 1, "processes that step the environments, at most", 1, cli.MOST_THREADS)
cli.define_device(FLAGS)
flag.path("video", None, ".mp4 file for the first episode of the first environment")
flag.bool("json", False, "print one JSON object instead of text")


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("policy",))
    read_metadata(Path(FLAGS.policy))
    # Imported here, because it takes seconds: bad flags and --help are answered at once.
    from acer_tf.policies.evaluation import evaluate
    from acer_tf.policies.policy import load_policy
    from acer_tf.training.device import find_device, use_device

    use_device(find_device(FLAGS.device))
    policy = load_policy(FLAGS.policy)
    names = ("episodes", "greedy", "seed", "num_envs", "max_episode_steps", "video", "env", "env_workers")
    options: dict[str, Any] = {name: FLAGS[name].value for name in names}
    try:
        result = evaluate(policy, **options, report=lambda line: print(line, file=sys.stderr, flush=True))
    except STOPPED as stop:
        # The episodes that have ended are the shorter ones: their mean would mislead.
        number = signal_of(stop)
        print(f"stopped by {number.name} before the last episode ended: no score", file=sys.stderr)
        return 128 + number
    summary = _summary(result, policy.metadata)
    print(json.dumps(summary, indent=2, allow_nan=False) if FLAGS.json else _text(summary, FLAGS.video))
    return 0


def _summary(result: EvaluationResult, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The object that --json prints; "human_normalized" is the normalised mean of whole Atari episodes, else None."""
    from acer_tf.envs.families import family_of
    from acer_tf.reproduction.scores import human_normalized

    atari = family_of(result.env).atari
    whole = atari and result.max_episode_steps is None
    return {
        "env": result.env,
        "atari_preset": metadata["atari_preset"] if atari else None,
        **{name: getattr(result, name) for name in ("episodes", "greedy", "seed", "num_envs", "max_episode_steps")},
        **{name: getattr(result, name) for name in ("mean", "standard_error", "median")},
        "min": min(result.returns),
        "max": max(result.returns),
        "human_normalized": human_normalized(result.env, result.mean) if whole else None,
        "returns": result.returns,
        "steps": result.steps,
        "frames": result.frames,
        "policy": {name: metadata[name] for name in ("agent", "preset", "steps", "frames", "commit")},
        "versions": package_versions(),
    }


def _text(summary: dict[str, Any], video: str | None) -> str:
    error, episodes = summary["standard_error"], summary["episodes"]
    env = " ".join(filter(None, (summary["env"], summary["atari_preset"])))
    count = "1 episode" if episodes == 1 else f"{episodes} episodes"
    steps, frames = (sum(summary[name]) / episodes for name in ("steps", "frames"))
    limit = f", cut at {cut:,} steps" if (cut := summary["max_episode_steps"]) else ""
    lines = [
        f"{env}, {count}, {'greedy' if summary['greedy'] else 'sampled'} actions, seed {summary['seed']}{limit}",
        f"  return  {summary['mean']:.2f}" + (f" ± {error:.2f} (mean ± standard error)" if error is not None else ""),
        "          median {median:.2f}, min {min:.2f}, max {max:.2f}".format_map(summary),
        f"  length  {steps:,.0f} steps, {frames:,.0f} frames (mean)",
    ]
    if summary["human_normalized"] is not None:
        lines.append(f"  human-normalised  {summary['human_normalized']:.3f} (0 random, 1 human)")
    if video is not None:
        lines.append(f"  video   {video}")
    return "\n".join(lines)
