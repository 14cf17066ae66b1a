"""What all kinds of attempts share: processes that may be killed, the small run that they disturb, and the verdict."""

import contextlib
import ctypes
import fcntl
import functools
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas

from acer_tf import __main__ as acer_tf
from acer_tf.settings import make_settings
from acer_tf.training.train import train as train_run

SECONDS = 240.0  # after which a process hangs, also on a busy machine
MEMORY = 8 * 2**30  # of a process: a fuzzed flag must not take all of the machine's
# A dozen iterations of 2 environments, with a row of progress.csv and a checkpoint after each.
SMALL: dict[str, Any] = {
    **{"env": "CartPole-v1", "seed": 5, "total_steps": 600, "log_interval": 1, "num_envs": 2, "unroll_length": 25},
    **{"replay_ratio": 1.0, "replay_start": 50, "replay_capacity": 200},
}
END = 10**9  # steps: the end of any run


class Attempt(NamedTuple):
    kind: str
    what: str  # was done
    wrong: str  # what came of it; empty if it was right
    skipped: str = ""  # why nothing was learned of it
    seconds: float = 0.0  # that it took


class Done(NamedTuple):
    status: int | None  # negative: of a signal; None if it had to be killed because it hung
    out: str
    err: str


class Fork:
    """A process that runs `action`, which returns its status, without importing TensorFlow anew; logs beside `log`.

    It begins as one that a shell starts, or one that ignores some signals, as nohup or a shell's & let it. Where
    TensorFlow has already computed, it must be forked from a `server` that has only imported it.
    """

    def __init__(
        self, action: Callable[[], Any], log: Path, ignored: Collection[int] = (), *, server: bool = False
    ) -> None:
        self._files, self._ignored = (log.with_suffix(".out"), log.with_suffix(".err")), ignored
        context = multiprocessing.get_context("forkserver" if server else "fork")
        context.set_forkserver_preload(["acer_tf.training.run"])
        self.process = context.Process(target=self._run, args=(action,))
        self.process.start()

    def _run(self, action: Callable[[], Any]) -> None:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Python itself ignores two.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if number in self._ignored else usual)
        for descriptor, path in enumerate(self._files, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        # Not closed with the objects: a fork of a fork replaces them.
        sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
        sys.exit(action())

    @property
    def begun(self) -> bool:
        return self._files[1].exists()

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Until the condition holds, or the process has ended."""
        limit = time.monotonic() + SECONDS
        while self.process.is_alive() and not condition() and time.monotonic() < limit:
            time.sleep(0.001)

    def end(self, seconds: float = SECONDS) -> Done:
        """Waits for its end, or kills it; its own children are killed with it."""
        self.process.join(seconds)
        status = self.process.exitcode
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        return Done(status, *(path.read_text(errors="replace") if path.exists() else "" for path in self._files))


def argv_of(command: str, **flags: Any) -> list[str]:
    flags |= {**SMALL, "threads": 1, "checkpoint_minutes": 0, **flags} if command == "train" else {}
    return ["acer_tf", command, *(f"--{name}={value}" for name, value in flags.items())]


def start(log: Path, command: str, ignored: Collection[int] = (), *, server: bool = False, **flags: Any) -> Fork:
    """A command of the package; one that trains has the small run's settings, unless `flags` say otherwise."""
    return Fork(functools.partial(acer_tf.main, argv_of(command, **flags)), log, ignored, server=server)


def evaluation(policy: Path, log: Path, ignored: Collection[int] = (), **flags: Any) -> Fork:
    """An evaluation of two episodes, unless `flags` say otherwise."""
    usual: dict[str, Any] = {"episodes": 2, "num_envs": 2, "greedy": True, "json": True}
    return start(log, "evaluate", ignored, policy=policy, **{**usual, **flags})


def wait_for_moment(rng: random.Random, process: Fork, run: Path, aims: Sequence[str]) -> str:
    """Until a random moment of one of the phases `aims` of a training; returns the phase."""
    aim, seen, count = rng.choice(aims), set[str](), rng.randrange(1, 8)

    def saving() -> bool:
        seen.update(path.name for path in run.glob("checkpoints/*.partial"))
        return len(seen) >= count

    moments: dict[str, tuple[Callable[[], Any], float]] = {
        "start": (lambda: process.begun, 1.5),
        "any": ((run / "run.json").exists, 6),
        "update": (lambda: len(rows_of(run) or ()) >= count, 0.1),
        "checkpoint": (saving, 0.01),
        "export": (lambda: list(run.glob(".*")), 0.3),  # its new folder is hidden
    }
    begun, seconds = moments[aim]
    process.wait_for(begun)
    time.sleep(rng.uniform(0, seconds))
    return aim


def rows_of(run_dir: Path) -> list[dict[str, str]] | None:
    """progress.csv without times; None if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        rows = pandas.read_csv(run_dir / "progress.csv", dtype=str, keep_default_na=False)
        return rows.drop(columns=["seconds", "steps_per_second"]).to_dict("records")
    return None


def checkpoint_steps(run_dir: Path) -> list[int]:
    """Of the complete checkpoints, oldest first; [0] without any.

    A second checkpoint of a step is named by the next number; every one is of a row of progress.csv, or of step 0.
    """
    steps = [0, *(int(row["steps"]) for row in rows_of(run_dir) or ())]
    names = sorted(int(path.parent.name) for path in run_dir.glob("checkpoints/*[0-9]/state.npz"))
    return [max(step for step in steps if step <= name) for name in names] or [0]


def once(folder: Path, make: Callable[[Path], Fork]) -> Path:
    """`folder`, which the first of all attempts lets `make` fill."""
    with folder.with_name(folder.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_name(folder.name + ".making")
            shutil.rmtree(partial, ignore_errors=True)
            if (done := make(partial).end()).status:
                raise RuntimeError(f"{folder.name}, with which attempts are compared, cannot be made: {done}")
            partial.rename(folder)
    return folder


def stopped_run(scratch: Path, steps: int = END, **over: Any) -> Path:
    """A run that was stopped after the checkpoint at `steps`, with the one before it, or at its end.

    It is the small run, with other settings where `over` has them.
    """

    def stop(row: dict[str, Any], policy: Any) -> None:
        if row["steps"] >= steps:
            raise StopIteration

    def make(folder: Path) -> None:
        with contextlib.suppress(StopIteration):
            train_run(make_settings({**SMALL, **over}), folder, checkpoint_minutes=0.0, threads=1, on_row=stop)

    return once(scratch.parent / f"run-{steps}{_name(over)}", lambda folder: Fork(lambda: make(folder), folder))


OF_PROCESS = ("threads", "acting_device")  # flags that are no settings, and change no row


def acting_thread(rng: random.Random) -> dict[str, Any]:
    """For a third of the attempts, the flags with which a thread acts beside the updates."""
    place = rng.choice(("same", "second"))
    return {"actors": 1, "threads": 2, "acting_device": place} if rng.random() < 1 / 3 else {}


def beside(thread: dict[str, Any]) -> str:
    """What an attempt's description says of `acting_thread`."""
    return ", with a thread" if thread else ""


def _name(over: dict[str, Any]) -> str:
    return "".join(f"-{name}={value}" for name, value in over.items()).replace("/", "-")


def expected_rows(scratch: Path, steps: int, **over: Any) -> list[dict[str, str]] | None:
    """progress.csv of a run that was stopped and continued at a checkpoint of `steps`, and not disturbed otherwise.

    The environments begin new episodes there, so it is not the same as that of a run that was never stopped (steps 0).
    It has one thread, with which nothing runs at the same time.
    """
    for name in OF_PROCESS:
        over.pop(name, None)
    begun = stopped_run(scratch, steps or END, **over)

    def again(folder: Path) -> Fork:
        return start(folder, "train", run_dir=shutil.copytree(begun, folder), **over)

    return rows_of(once(scratch.parent / f"continued-{steps}{_name(over)}", again))


def complaint(
    done: Done, allowed: Sequence[int] = (0, 1, 2), names: Sequence[str] = (), *, raised: bool = False
) -> str:
    """What is wrong with the end of a process, whatever its result; empty if nothing is.

    A status of 1 or 2 needs a line that begins with "error:" and, if `names` are given, contains one of them. If the
    user's own code `raised`, its traceback may come before.
    """
    last = (done.err.strip() or "nothing on standard error").splitlines()[-1][:200]
    if done.status is None:
        return "it hangs"
    if "Traceback (most recent call last)" in done.err and not (raised and last.startswith("error: ")):
        return f"a traceback: {last}"
    said = [line for line in done.err.splitlines() if line.startswith("error: ")]
    if done.status not in allowed or (done.status in (1, 2) and not said):
        return f"status {done.status}: {last}"
    if done.status in (1, 2) and not last.startswith("error: "):
        return f"more than one line: {said[0][:100]} ... {last[:100]}"
    if done.status in (1, 2) and names and not any(name in line for name in names for line in said):
        return f"the message names none of {', '.join(names)}: {said[0][:200]}"
    return ""


def judge_resumption(
    done: Done,
    run_dir: Path,
    scratch: Path,
    steps: int,
    earlier: int | None = None,
    allowed: Sequence[int] = (0, 1, 2),
    **over: Any,
) -> str:
    """What is wrong with a disturbed run after the same command was given again; empty if nothing is.

    It must have continued from the checkpoint of `steps`, or, if it says so, from the `earlier` one. Its settings are
    those of the small run, but for those in `over`.
    """
    if (wrong := complaint(done, allowed)) or done.status:
        return wrong
    rows = rows_of(run_dir)
    if rows != expected_rows(scratch, steps, **over):
        if earlier is None or rows != expected_rows(scratch, earlier, **over):
            return "another result than that of an undisturbed run, and not a word"
        if "checkpoint" not in done.err:
            return f"it fell back to step {earlier} without a word"
    return leftovers(run_dir)


def judge_evaluation(done: Done, scratch: Path, allowed: Sequence[int] = (0, 1, 2)) -> str:
    """What is wrong with an evaluation of the finished run's policy; empty if nothing is."""
    policy = stopped_run(scratch) / "policy"
    whole = once(scratch.parent / "played", lambda folder: evaluation(shutil.copytree(policy, folder), folder / "it"))
    returns = [re.findall(r'"returns": \[[^]]*', out) for out in (done.out, (whole / "it.out").read_text())]
    if (wrong := complaint(done, allowed)) or done.status or returns[0] == returns[1]:
        return wrong
    return "other returns than those of the whole policy, and not a word"


def leftovers(run_dir: Path) -> str:
    """Names of temporary files in and beside a finished run."""
    names = [path.name for path in (*run_dir.rglob("*"), *run_dir.parent.glob(f".{run_dir.name}*"))]
    found = [name for name in names if ".partial" in name or (name[0] == "." and "lock" not in name)]
    return f"left: {', '.join(found[:3])}" if found else ""


def any_file(rng: random.Random, folder: Path) -> Path:
    return rng.choice(sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock"))


def damage_bytes(path: Path, rng: random.Random) -> str:
    """Flips a bit of a file, cuts it or deletes it; says which."""
    content = path.read_bytes()
    how, at = rng.choice(("flip", "flip", "cut", "delete")), rng.randrange(len(content) or 1)
    if how == "delete" or not content:
        path.unlink()
        return "deleted"
    if how == "cut":
        path.write_bytes(content[:at])
        return f"cut to {at} of {len(content)} bytes"
    path.write_bytes(content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :])
    return f"a bit of byte {at} flipped"
