"""Runs that are evaluated while they train: ended at any moment, and continued."""

import contextlib
import json
import math
import os
import random
import signal
from pathlib import Path
from typing import Any

from acer_tf.errors import CheckpointError
from acer_tf.runs.checkpoint import Checkpoints
from tests.torture import common
from tests.torture.signals import ASKING

_COLUMNS = ("evaluation_return", "evaluation_error")
_AIMS = ("any", "any", "update", "update", "checkpoint", "export", "export")  # the first exports are of best policies


def evaluated(rng: random.Random, scratch: Path) -> common.Attempt:
    """Training is that of a run without evaluations, and the best policy is whole and has the score that it says."""
    run, every, goal = scratch / "run", rng.choice((50, 100, 150)), rng.choice((None, None, 12, 20, 30))
    episodes = rng.choice((1, 2, 5))
    flags: dict[str, Any] = {"run_dir": run, "evaluate_every": every, "evaluate_episodes": episodes}
    flags |= {} if goal is None else {"stop_at_return": goal}
    number = signal.SIGKILL if rng.random() < 0.5 else rng.choice(ASKING)
    process = common.start(scratch / "hit", "train", **flags)
    aim = common.wait_for_moment(rng, process, run, _AIMS)
    if process.process.is_alive():
        os.kill(process.process.pid or 0, number)
    done = process.end()
    wrong = common.complaint(done, (0, -number if number == signal.SIGKILL else 128 + number))
    wrong = wrong or _judge_best(run, scratch / "before")
    steps = step_of(run) if done.status else 0
    what = f"{number.name}, {aim}: every {every}, until {goal}, continued from step {steps}"
    if done.status:
        done = common.start(scratch / "again", "train", **flags).end()
        wrong = wrong or common.complaint(done, (0,))
    if not wrong:
        wrong = _judge_rows(run, scratch, steps, every, episodes, goal) or _judge_best(
            run, scratch / "after", needed=True
        )
    return common.Attempt("evaluation", what, wrong or common.leftovers(run))


def step_of(run: Path) -> int:
    """Of the newest checkpoint; 0 without one."""
    with contextlib.suppress(CheckpointError):
        if (found := Checkpoints(run / "checkpoints").restore(None)) is not None:
            return int(found.state["actor"]["steps"])
    return 0


def _judge_rows(run: Path, scratch: Path, steps: int, every: int, episodes: int, goal: float | None) -> str:
    rows, expected = common.rows_of(run) or [], common.expected_rows(scratch, steps) or []
    plain = [{name: cell for name, cell in row.items() if name not in _COLUMNS} for row in rows]
    if plain != expected[: len(plain)]:
        return "another result than that of a run without evaluations"
    total, last, ends = common.SMALL["total_steps"], 0, len(rows) == len(expected)
    for row in rows:
        step, found = int(row["steps"]), row["evaluation_return"]
        due = step // every > last // every or step >= total
        if due != bool(found) or (due and episodes > 1) != bool(row["evaluation_error"]):
            return f"the row of step {step} has the evaluation {found!r}"
        last = step if due else last
        reached = goal is not None and due and float(found) >= goal
        if reached and row is not rows[-1]:
            return f"it went on from {found} at step {step}"
        ends = ends or reached
    said = json.loads((run / "run.json").read_text()).get("stopped_at_return")
    if not ends or (said is None) != (last >= total):
        return f"it ended at step {last}, and says that it stopped at {said}"
    if said is not None and not math.isclose(said, float(rows[-1]["evaluation_return"]), rel_tol=1e-6):
        return f"it says that it stopped at {said}, and its last row {rows[-1]['evaluation_return']}"
    best = json.loads((run / "best_policy" / "metadata.json").read_text())["evaluation"]["mean"]
    # What came after the last checkpoint before a kill may have been better.
    if best < max(float(row["evaluation_return"]) for row in rows if row["evaluation_return"]) * (1 - 1e-6):
        return f"the best policy has {best}, which was exceeded"
    return ""


def _judge_best(run: Path, log: Path, *, needed: bool = False) -> str:
    """What is wrong with the best policy, which may not be there yet unless it is `needed`; empty if nothing is."""
    best = run / "best_policy"
    if not best.exists():
        return "there is no best policy" if needed else ""
    if not (best / "metadata.json").exists():
        return "the best policy has a part"
    score = json.loads((best / "metadata.json").read_text())["evaluation"]
    again = {name: score[name] for name in ("episodes", "num_envs", "greedy", "seed")}
    done = common.evaluation(best, log, **again).end()
    if wrong := common.complaint(done, (0,)):
        return f"the best policy: {wrong}"
    mean = json.loads(done.out)["mean"]
    return "" if math.isclose(mean, score["mean"]) else f"the best policy has {mean}, and says {score['mean']}"
