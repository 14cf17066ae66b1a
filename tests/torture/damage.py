"""Damage to the files of a run folder, finished or not: a bit flipped, a file cut or deleted."""

import random
import shutil
from pathlib import Path

from tests.torture import common

STOPPED = 350  # steps of the run that is damaged


def damage(rng: random.Random, scratch: Path) -> common.Attempt:
    finished = rng.random() < 0.3
    run = shutil.copytree(common.stopped_run(scratch, common.END if finished else STOPPED), scratch / "run")
    steps, path = common.checkpoint_steps(run), common.any_file(rng, run)
    if rng.random() < 0.04:
        path = run / "checkpoints"
        shutil.rmtree(path)
        what = "deleted"
    else:
        what = common.damage_bytes(path, rng)
    wrong = _play(run, path, scratch) if finished else _continue(run, steps, scratch)
    return common.Attempt("damage", f"{'finished ' if finished else ''}{path.relative_to(run)} {what}", wrong)


def _continue(run: Path, steps: list[int], scratch: Path) -> str:
    """The same command is refused, or continues as if nothing had been, or from the earlier checkpoint with a word."""
    done = common.start(scratch / "again", "train", run_dir=run).end()
    return common.judge_resumption(done, run, scratch, steps[-1], steps[0])


def _play(run: Path, path: Path, scratch: Path) -> str:
    """The damaged policy, or that of the damaged checkpoint, is refused or plays as it did."""
    policy = run / "policy"
    if policy not in path.parents:
        wrong = common.complaint(common.start(scratch / "again", "train", run_dir=run).end())
        policy = scratch / "exported"
        done = common.start(scratch / "export", "export", run_dir=run, output=policy).end()
        if wrong := wrong or common.complaint(done) or common.leftovers(policy):
            return wrong
        if done.status:
            return ""
    return common.judge_evaluation(common.evaluation(policy, scratch / "evaluate").end(), scratch)
