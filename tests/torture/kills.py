"""Runs and sweeps that end before their time: by kill -9, also within a checkpoint or an export, and on a full disk."""

import ctypes
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from acer_tf import __main__ as acer_tf
from tests.torture import common


def kill(rng: random.Random, scratch: Path) -> common.Attempt:
    """Kills a run, gives the same command again, and compares it with one that continued there undisturbed.

    In half of the attempts two processes step the environments, which the kill must end too. In a quarter the run
    begins with the weights of another. In a third a thread acts beside the updates.
    """
    run, workers = scratch / "run", rng.choice((1, 2))
    over: dict[str, Any] = {"initialize_from": common.stopped_run(scratch, seed=6)} if rng.random() < 0.25 else {}
    over |= (thread := common.acting_thread(rng))
    process = common.start(scratch / "killed", "train", run_dir=run, env_workers=workers, **over)
    aim = common.wait_for_moment(rng, process, run, ("any", "any", "any", "checkpoint", "checkpoint", "export"))
    aim += (" with processes" if workers > 1 else "") + (
        ", with the weights of another run" if "initialize_from" in over else ""
    )
    aim += common.beside(thread)
    process.process.kill()
    if (killed := process.end()).status != -signal.SIGKILL:
        return common.Attempt("kill -9", aim, common.complaint(killed, (0,)), "it ended before")
    steps = common.checkpoint_steps(run)[-1]
    done = common.start(scratch / "again", "train", run_dir=run, **over).end()
    wrong = common.judge_resumption(done, run, scratch, steps, allowed=(0,), **over)
    return common.Attempt("kill -9", f"{aim}, continued from step {steps}", wrong)


def start_sweep(scratch: Path, log: Path) -> common.Fork:
    """A sweep of two real runs, in processes of their own."""
    flags = {"games": "breakout", "agents": "replay4", "seeds": 2, "total_steps": 400, "processes": 2, "threads": 1}
    flags |= {"checkpoint_minutes": 0, "sweep_dir": scratch / "sweep", "output": scratch / "results" / "figure"}
    names = ("log_interval", "num_envs", "unroll_length")
    argv = common.argv_of("figure1_minatar", **flags) + [f"--setting={name}={common.SMALL[name]}" for name in names]
    return common.Fork(lambda: acer_tf.main(argv), log)


def check_sweep(scratch: Path) -> str:
    """What is wrong with a sweep that has finished; empty if nothing is."""
    runs = list((scratch / "sweep" / "cells").glob("*/run"))
    for run in runs:
        steps = [int(row["steps"]) for row in common.rows_of(run) or []]
        if not steps or steps != sorted(set(steps)) or steps[-1] < 400 or not (run / "policy/metadata.json").exists():
            return f"{run.parent.name} is not whole"
    return "" if len(runs) == 2 else f"{len(runs)} cells instead of 2"


def kill_sweep(rng: random.Random, scratch: Path) -> common.Attempt:
    """Kills the process of a sweep, whose runs must end with it, and gives the same command again."""
    process = start_sweep(scratch, scratch / "killed")
    process.wait_for(lambda: list(scratch.glob("sweep/cells/*/run/run.json")))
    time.sleep(rng.uniform(0, 8))
    process.process.kill()
    if (killed := process.end()).status != -signal.SIGKILL:
        return common.Attempt("kill -9", "a sweep", common.complaint(killed, (0,)), "it ended before")
    done = start_sweep(scratch, scratch / "again").end(2 * common.SECONDS)
    return common.Attempt("kill -9", "a sweep", common.complaint(done, (0,)) or check_sweep(scratch))


def fill_disk(rng: random.Random, scratch: Path) -> common.Attempt:
    """The run stops with a line, and loses nothing: it continues when there is room."""
    size, disk = rng.randrange(8, 150) * 4096, scratch / "disk"
    disk.mkdir()
    run = disk / "run"
    # Mounted in a namespace of this process, with which it ends.
    script = f"mount --make-rprivate / && mount -t tmpfs -o size={size} none {disk}"
    if ctypes.CDLL(None).unshare(0x20000) or subprocess.run(script, shell=True, capture_output=True).returncode:
        return common.Attempt("full disk", "", "", "no file system can be mounted")
    full = common.start(scratch / "full", "train", run_dir=run).end()
    if full.status == 0:
        return common.Attempt("full disk", f"{size} bytes", "", "they were enough")
    steps = common.checkpoint_steps(run)[-1]
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
    done = common.start(scratch / "again", "train", run_dir=run).end()
    wrong = common.complaint(full, (1, 2)) or common.judge_resumption(done, run, scratch, steps, allowed=(0,))
    return common.Attempt("full disk", f"{size} bytes, continued from step {steps}", wrong)
