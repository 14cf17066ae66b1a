"""Two or three processes in one folder: exports, runs, evaluations and sweeps."""

import random
import shutil
import time
from pathlib import Path

from tests.torture import common
from tests.torture.damage import STOPPED
from tests.torture.kills import check_sweep, start_sweep


def together(rng: random.Random, scratch: Path) -> common.Attempt:
    action = rng.choice((_exports, _exports, _run_and_export, _run_and_export, _runs, _evaluations))
    return common.Attempt("side by side", action.__doc__ or "", action(rng, scratch))


def sweeps(rng: random.Random, scratch: Path) -> common.Attempt:
    """One of two sweeps in a folder is refused, and the other is not disturbed."""
    one = start_sweep(scratch, scratch / "first")
    time.sleep(rng.uniform(0, 3))
    ended = [process.end(2 * common.SECONDS) for process in (start_sweep(scratch, scratch / "second"), one)]
    return common.Attempt("side by side", "two sweeps", _some_win(ended, "--sweep_dir") or check_sweep(scratch))


def _some_win(ended: list[common.Done], flag: str) -> str:
    """What is wrong, if anything: one process must succeed, and the others may be refused."""
    wrong = [found for done in ended if (found := common.complaint(done, (0, 2), [flag, "in use"]))]
    return wrong[0] if wrong else "" if any(done.status == 0 for done in ended) else "none succeeded"


def _exports(rng: random.Random, scratch: Path) -> str:
    """exports to one folder"""
    run, policy = shutil.copytree(common.stopped_run(scratch), scratch / "run"), scratch / "policy"
    processes = []
    for number in range(rng.randint(2, 3)):
        processes.append(common.start(scratch / f"export{number}", "export", run_dir=run, output=policy))
        time.sleep(rng.choice((0, 0, rng.uniform(0, 1))))
    wrong = _some_win([process.end() for process in processes], "--output") or common.leftovers(policy)
    return wrong or common.judge_evaluation(common.evaluation(policy, scratch / "play").end(), scratch, (0,))


def _run_and_export(rng: random.Random, scratch: Path) -> str:
    """an export beside that of the run itself"""
    run = shutil.copytree(common.stopped_run(scratch, STOPPED), scratch / "run")
    policy, steps = run / "policy", common.checkpoint_steps(run)[-1]
    process = common.start(scratch / "train", "train", run_dir=run)
    process.wait_for(lambda: list(run.glob(".*")))
    time.sleep(rng.uniform(0, 0.3))
    exported = common.start(scratch / "export", "export", run_dir=run, output=policy).end()
    wrong = common.complaint(exported, (0, 2), ["--output", "in use"])
    wrong = common.judge_resumption(process.end(), run, scratch, steps, allowed=(0,)) or wrong
    # The policy is whole, and can be replaced.
    wrong = wrong or common.complaint(common.evaluation(policy, scratch / "play").end(), (0,))
    return wrong or common.complaint(common.start(scratch / "again", "export", run_dir=run, output=policy).end(), (0,))


def _runs(rng: random.Random, scratch: Path) -> str:
    """runs in one folder"""
    run = scratch / "run"
    process = common.start(scratch / "first", "train", run_dir=run)
    time.sleep(rng.uniform(0, 3))
    ended = [common.start(scratch / "second", "train", run_dir=run).end(), process.end()]
    return _some_win(ended, "--run_dir") or common.judge_resumption(common.Done(0, "", ""), run, scratch, 0)


def _evaluations(rng: random.Random, scratch: Path) -> str:
    """evaluations of a policy that is exported again meanwhile"""
    run = shutil.copytree(common.stopped_run(scratch), scratch / "run")
    processes = [common.evaluation(run / "policy", scratch / f"evaluate{number}") for number in range(2)]
    time.sleep(rng.uniform(0, 2))
    new = common.start(scratch / "new", "export", run_dir=run, output=run / "policy").end()
    return max(common.complaint(new, (0,)), *(common.judge_evaluation(each.end(), scratch) for each in processes))
