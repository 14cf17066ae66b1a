"""What clusters have in common: a folder that all nodes share, and the task that runs one attempt on any of them."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd, Job

_POLL_SECONDS = 0.5
# An unusable node looks free. Were its tasks to end at once, it would be sent every waiting cell, time and again.
_UNUSABLE_SECONDS = 300.0


def place_probe(sweep_dir: Path) -> Path:
    """A new file in the sweep's folder, named by its content, in place of those of earlier calls."""
    for stale in sweep_dir.glob("probe-*"):
        stale.unlink()
    probe = sweep_dir / f"probe-{uuid4().hex}"
    probe.write_text(probe.name)
    return probe


def run_task(job: Job, probe: Path, needs: tuple[str, str], asked: Callable[[], bool]) -> AttemptEnd:
    """One attempt, on the node that the cluster chose; `asked` says when it must write a checkpoint and stop."""
    # Also here: the node may have joined since the sweep began. Its file systems may follow later.
    given_up = time.monotonic() + _UNUSABLE_SECONDS
    while complained := complaint(probe, needs):
        if asked() or time.monotonic() >= given_up:
            return AttemptEnd("lost", f"the node cannot be used: {complained}", host=socket.gethostname())
        time.sleep(_POLL_SECONDS)
    attempt = Attempt(job)
    try:
        while (end := attempt.poll()) is None:
            if asked():
                attempt.stop()
            time.sleep(_POLL_SECONDS)
        return end
    finally:
        attempt.close()


def without_gpu(job: Job) -> Job:
    """The job on the CPU: a task without a GPU may see those of its node all the same."""
    return dataclasses.replace(job, command=(*job.command, "--device=cpu"))


def complaint(probe: Path, needs: tuple[str, ...]) -> str:
    """Why this node cannot use the folder of `probe`; empty if it can."""
    try:
        seen = probe.read_text() == probe.name
    except OSError:
        seen = False
    if not seen:
        return f"--sweep_dir={probe.parent} is not the same folder there: the nodes must share it"
    with (probe.parent / "lock").open("rb") as file, contextlib.suppress(OSError):
        # The sweep holds this lock. If this node can take it too, locks do not work across nodes.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return f"locks in --sweep_dir={probe.parent} do not reach it: mount it with locks that all nodes share"
    for path in needs:
        if not os.path.exists(path):
            return f"{path} does not exist there: every node needs the same installation"
    return ""
