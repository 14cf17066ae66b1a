"""Processes that step environments: one of them, the run, or all at once are killed or signalled."""

import os
import random
import signal
import time
from pathlib import Path

import psutil

from tests.torture import clusters, common
from tests.torture.evaluated import step_of
from tests.torture.signals import ASKING

_FATAL = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)  # the others are left to the run
_PROGRAM = "spawn_main"  # of multiprocessing, on the command line of what it starts


def workers(rng: random.Random, scratch: Path) -> common.Attempt:
    """The run ends with a line, or as if nothing had been; nothing is left; the same command finishes the run."""
    clusters.adopt()
    run, whom = scratch / "run", rng.choice(("one", "one", "one", "the run", "all"))
    number = {"the run": signal.SIGKILL, "all": rng.choice(ASKING)}.get(whom) or rng.choice((*_FATAL, *ASKING[:2]))
    count = rng.choice((None, rng.randrange(0, 8)))  # rows of progress.csv; None for a moment of the start
    thread = common.acting_thread(rng)
    process = common.start(scratch / "hit", "train", run_dir=run, env_workers=2, **thread)
    process.wait_for(lambda: workers_of(process) if count is None else len(common.rows_of(run) or ()) > count)
    time.sleep(rng.uniform(0, 8 if count is None else 0.2))
    found = workers_of(process)
    what = f"{number.name} to {whom} {'at the start' if count is None else f'after row {count}'}{common.beside(thread)}"
    if found and whom == "one":
        rng.choice(found).send_signal(number)
    elif process.process.is_alive() and process.process.pid:
        (os.killpg if whom == "all" else os.kill)(process.process.pid, number)
    process.process.join(common.SECONDS)
    hangs, left, done = process.process.is_alive(), clusters.left_of(process), process.end()
    statuses = {"the run": (-number,), "all": (128 + number,)}.get(whom) or ((1,) if number in _FATAL else ())
    # A process that is about to end may be found, too.
    wrong = "it hangs" if hangs else common.complaint(done, (0, *statuses), ("that step it ended with",))
    if not wrong and left:
        wrong = f"left: {', '.join(left)}"
    steps = step_of(run) if done.status else 0
    done = common.start(scratch / "again", "train", run_dir=run, **thread).end() if done.status else done
    wrong = wrong or common.judge_resumption(done, run, scratch, steps, allowed=(0,), **thread)
    return common.Attempt("environments' processes", f"{what}, continued from step {steps}", wrong)


def workers_of(process: common.Fork) -> list[psutil.Process]:
    found = []
    for each in clusters.descendants(process.process.pid):
        try:
            if any(_PROGRAM in word for word in each.cmdline()):
                found.append(each)
        except psutil.Error:
            continue
    return found
