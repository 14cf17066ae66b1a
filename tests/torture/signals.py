"""Every signal that ends a process, one or two, at a random moment of a training, an evaluation or an export.

Some ask to end, and the others are as kill -9. A parent may have let the process ignore some of them.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from acer_tf.runs.signals import USUAL
from tests.torture import common

# Whose usual action is none, or to stop or continue a process.
_HARMLESS = {"SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH"}
ENDING = [number for number in signal.Signals if number.name not in _HARMLESS]
ASKING = [signal.Signals(number) for number in USUAL]
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)
NOHUP, BACKGROUND = (signal.SIGHUP,), (signal.SIGINT, signal.SIGQUIT)  # what a shell lets its job ignore


class Shots:
    """One or two random signals, for a process that ignores some."""

    def __init__(self, rng: random.Random) -> None:
        self.ignored: Sequence[int] = rng.choice(((), (), (), NOHUP, BACKGROUND))
        count = 2 if rng.random() < 0.3 else 1
        self.sent = [rng.choice(ASKING if rng.random() < 0.55 else ENDING) for _ in range(count)]
        if self.ignored and rng.random() < 0.5:
            self.sent[0] = signal.Signals(rng.choice(self.ignored))
        self._pause = rng.choice((0, rng.uniform(0, 0.5)))
        self.effective = [number for number in self.sent if number not in (*self.ignored, *_PYTHON_IGNORES)]
        self.asking = len(self.effective) == 1 and self.effective[0] in ASKING
        self.what = ", ".join(number.name for number in self.sent)
        if self.ignored:
            self.what += f" (ignored: {', '.join(signal.Signals(number).name for number in self.ignored)})"

    def fire(self, process: common.Fork) -> None:
        for number in self.sent:
            if process.process.is_alive():
                os.kill(process.process.pid or 0, number)
            time.sleep(self._pause)

    def complaint(self, done: common.Done) -> str:
        """What is wrong with the end of the process; empty if nothing is, also if it had ended before."""
        asking = [number for number in self.effective if number in ASKING]
        fatal = [-number for number in self.effective if number not in ASKING]
        if wrong := common.complaint(done, (0, *(128 + number for number in asking), *fatal)):
            return wrong
        if done.status and done.status > 0:
            name = signal.Signals(done.status - 128).name
            if sum(f"stopped by {name}" in line for line in done.err.splitlines()) != 1:
                return f"no line says that {name} stopped it: {done.err.strip()[-200:]!r}"
        return ""


def train(rng: random.Random, scratch: Path) -> common.Attempt:
    """A run that is asked to end leaves a checkpoint of the moment; after any, the same command continues.

    In a third a thread acts beside the updates.
    """
    shots, run, thread = Shots(rng), scratch / "run", common.acting_thread(rng)
    aims = ("start", "any", "any", "update", "update", "checkpoint", "export")
    # Without others, the checkpoint of the moment is the only one.
    minutes = rng.choice((0, 10))
    flags = {"run_dir": run, "checkpoint_minutes": minutes, **thread}
    process = common.start(scratch / "hit", "train", shots.ignored, **flags)
    aim = common.wait_for_moment(rng, process, run, aims[: None if minutes == 0 else 5])
    learning, exported = _steps(run)[:1] > [0] and not list(run.glob(".*")), (run / "policy").exists()
    shots.fire(process)
    done = process.end()
    what = f"train, {aim}: {shots.what}, checkpoints every {minutes} minutes"
    what += ", with a thread" if thread else ""
    if (wrong := shots.complaint(done)) or (done.status == 0 and shots.effective):
        swallowed = "" if exported else f"{shots.what} did not end it"
        return common.Attempt("signals", what, wrong or swallowed, "it ended before")
    steps = common.checkpoint_steps(run)[-1]
    if shots.asking:
        # After the last step everything is saved already.
        if learning and "from here" not in done.err and _steps(run)[-1:] != [steps]:
            wrong = f"no checkpoint of the moment: {done.err.strip()[-200:]!r}"
        elif "from here" in done.err and _steps(run)[-1:] != [steps]:
            wrong = f"the newest checkpoint is of step {steps}, progress.csv ends at {_steps(run)[-1:]}"
        wrong = wrong or (common.leftovers(run) if run.exists() else "")
    if done.status:
        done = common.start(scratch / "again", "train", **flags).end()
    else:
        steps = 0
    wrong = wrong or common.judge_resumption(done, run, scratch, steps, allowed=(0,), **thread)
    return common.Attempt("signals", f"{what}, continued from step {steps}", wrong)


def _steps(run: Path) -> list[int]:
    return [int(row["steps"]) for row in common.rows_of(run) or []]


def evaluate(rng: random.Random, scratch: Path) -> common.Attempt:
    """An evaluation prints all of its result or nothing, and leaves no part of a video if it is asked to end."""
    shots, policy, video = Shots(rng), common.stopped_run(scratch) / "policy", scratch / "video.mp4"
    flags = {"episodes": 400} | ({"video": video} if rng.random() < 0.3 else {})
    process = common.evaluation(policy, scratch / "hit", shots.ignored, **flags)
    process.wait_for(lambda: process.begun)
    time.sleep(rng.uniform(0, 6))
    shots.fire(process)
    done = process.end()
    wrong = shots.complaint(done)
    if not wrong and bool(done.out) != (done.status == 0):
        wrong = f"status {done.status}, and printed {done.out[:100]!r}"
    if not wrong and shots.asking and (left := sorted(path.name for path in scratch.glob(".*"))):
        wrong = f"left: {', '.join(left)}"
    skipped = "it ended before" if done.status == 0 and shots.effective else ""
    return common.Attempt("signals", f"evaluate{' --video' if 'video' in flags else ''}: {shots.what}", wrong, skipped)


def export(rng: random.Random, scratch: Path) -> common.Attempt:
    """A policy that was there, or the new one, is there whole; the same command exports it then."""
    shots, run = Shots(rng), shutil.copytree(common.stopped_run(scratch), scratch / "run")
    to = rng.choice(("savedmodel", "savedmodel", "tflite"))
    output = scratch / "policy" if to == "savedmodel" else scratch / "policy.tflite"
    if before := to == "savedmodel" and rng.random() < 0.5:
        shutil.copytree(run / "policy", output)
    flags = {"run_dir": run, "output": output, "format": to}
    process = common.start(scratch / "hit", "export", shots.ignored, **flags)
    writing = rng.random() < 0.5
    process.wait_for(lambda: list(scratch.glob(".policy*")) if writing else process.begun)
    time.sleep(rng.uniform(0, 0.3 if writing else 4))
    shots.fire(process)
    done = process.end()
    wrong = shots.complaint(done)
    if not wrong and (shots.asking or not shots.effective):
        wrong = common.leftovers(output)
        if not wrong and (before or done.status == 0) and not output.exists():
            wrong = "no policy is there any more"
    if output.exists():
        wrong = wrong or _judge_policy(output, scratch)
    if not (to == "tflite" and output.exists()):
        done_again = common.start(scratch / "again", "export", **flags).end()
        wrong = wrong or common.complaint(done_again, (0,)) or common.leftovers(output)
        wrong = wrong or _judge_policy(output, scratch)
    skipped = "it ended before" if done.status == 0 and shots.effective else ""
    return common.Attempt("signals", f"export {to}{' again' if before else ''}: {shots.what}", wrong, skipped)


def _judge_policy(output: Path, scratch: Path) -> str:
    if output.is_dir():
        return common.judge_evaluation(common.evaluation(output, scratch / "play").end(), scratch, (0,))
    loaded = common.Fork(lambda: _load(output), scratch / "load").end()
    return common.complaint(loaded, (0,))


def _load(output: Path) -> None:
    tf.lite.Interpreter(model_content=output.read_bytes()).allocate_tensors()
