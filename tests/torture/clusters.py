"""One of the processes of a run's own Ray cluster is killed, stopped or terminated."""

import collections
import ctypes
import os
import random
import re
import signal
import time
from pathlib import Path

import psutil

from tests.torture import common

_SUBREAPER = 36  # the option of prctl
_PATIENCE_SECONDS = 60.0  # until everything that Ray started has ended, also on a busy machine
_SETTINGS: dict[str, int] = {"actors": 2, "total_steps": 3000}


def kill(rng: random.Random, scratch: Path) -> common.Attempt:
    """The run goes on, or ends after a checkpoint with one line and nothing left behind; the same command finishes."""
    adopt()
    os.environ["RAY_TMPDIR"] = str(scratch.parent)  # short, since it is part of the names of sockets
    run, number = scratch / "run", rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM))
    count = rng.choice((None, rng.randrange(0, 50)))  # rows of progress.csv; None for a moment of the start
    flags = {"run_dir": run, "ray_address": "local", "actor_timeout": 10, **_SETTINGS}
    process = common.start(scratch / "hit", "train", **flags)
    process.wait_for(lambda: _by_role(process) if count is None else len(common.rows_of(run) or ()) > count)
    time.sleep(rng.uniform(0, 12 if count is None else 0.2))
    found = _by_role(process)
    if not process.process.is_alive() or not found:
        return common.Attempt("Ray's processes", "", common.complaint(process.end(), (0,)), "it ended before")
    role = rng.choice(sorted(found))
    what = f"{number.name} to {role} {'at its start' if count is None else f'after row {count}'}"
    rng.choice(found[role]).send_signal(number)
    process.process.join(2 * common.SECONDS)  # the run itself waits 300 s for an actor that does not start
    hangs, left, done = process.process.is_alive(), left_of(process), process.end()
    wrong = "it hangs" if hangs else common.complaint(done, (0, 1) if run.exists() else (0, 1, 2))
    if not wrong and done.status and done.err.count("error: ") > 1:
        wrong = f"more than one error: {done.err[-300:]}"
    if not wrong and left:
        wrong = f"left: {', '.join(left)}"
    wrong = wrong or judge_rows(done, run, scratch, 0)
    if wrong or done.status == 0:
        return common.Attempt("Ray's processes", what, wrong)
    steps, ended = common.checkpoint_steps(run)[-1], (common.rows_of(run) or [{"steps": "0"}])[-1]["steps"]
    if int(ended) != steps:
        wrong = f"the newest checkpoint is of step {steps}, progress.csv ends at {ended}"
    again = common.start(scratch / "again", "train", **flags).end(2 * common.SECONDS)
    wrong = wrong or common.complaint(again, (0,)) or judge_rows(again, run, scratch, steps)
    return common.Attempt("Ray's processes", f"{what}, continued from step {steps}", wrong)


def adopt() -> None:
    """What a child of this process leaves behind becomes one too."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def _by_role(process: common.Fork) -> dict[str, list[psutil.Process]]:
    """The processes that the run started, by the name of the program, or of the actor."""
    found = collections.defaultdict(list)
    for each in descendants(process.process.pid):
        try:
            words = each.cmdline()
        except psutil.Error:
            continue
        if not words:
            continue
        if words[0].startswith("ray::"):
            name = words[0].partition(".")[0]  # of the actor, without the method that it runs
        elif "-c" in words[1:3]:
            name = "driver"
        else:
            name = next((word for word in words[1:4] if word.endswith(".py")), words[0])
        found["/".join(Path(name).parts[-2:])].append(each)
    return found


def descendants(pid: int | None) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def left_of(process: common.Fork) -> list[str]:
    """The programs that still run some seconds after the run has ended; they are killed."""
    ends = time.monotonic() + _PATIENCE_SECONDS * (not process.process.is_alive())  # else it hangs
    while (alive := [each for each in descendants(os.getpid()) if _runs(each)]) and time.monotonic() < ends:
        time.sleep(0.1)
    names = [each.name() for each in alive if _runs(each)]
    for each in alive:
        if _runs(each):
            each.kill()
    return names


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def judge_rows(done: common.Done, run: Path, scratch: Path, steps: int) -> str:
    """Up to where another actor took a place, with new episodes, the rows are those of a run without Ray."""
    rows = common.rows_of(run) or []
    note = re.search(r"step ([\d,]+): actor \d+ .* takes its place", done.err)  # the first step with its episodes
    before = [row for row in rows if note is None or int(row["steps"]) < int(note[1].replace(",", ""))]
    expected = common.expected_rows(scratch, steps, **_SETTINGS) or []
    if before != expected[: len(before)]:
        return "another result than that of a run without Ray, and not a word"
    every = [int(row["steps"]) for row in rows]
    if done.status == 0 and (every != sorted(set(every)) or not every or every[-1] < _SETTINGS["total_steps"]):
        return f"rows are missing: their steps are {every}"
    return common.leftovers(run) if done.status == 0 else ""
