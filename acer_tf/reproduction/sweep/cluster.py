"""What clusters have in common: a folder that all nodes share, and the task that runs one attempt on any of them."""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from acer_tf.reproduction.sweep.attempt import HOST, Attempt, AttemptEnd
from acer_tf.reproduction.sweep.launcher import Launcher

_POLL_SECONDS = 0.5
# An unusable node looks free. Were its tasks to end at once, it would be sent every waiting cell, time and again.
_UNUSABLE_SECONDS = 300.0


class ClusterLauncher(Launcher):
    """Base of the launchers of clusters, with what is the same on each.

    Args:
        threads: the number in each run; its task takes as many cores.
        executable: the Python of the runs; must exist on every node.
        cwd: the working directory of the runs; likewise.
        gpus_per_cell: the number for each run, also a part of one.
    """

    def __init__(self, *, threads: int = 1, executable: str, cwd: Path, gpus_per_cell: float = 0.0) -> None:
        self.threads = threads or 1
        self._needs = (executable, str(cwd))
        self._gpus = gpus_per_cell
        # A task may see its node's GPUs though its cell has none.
        self.flags = () if gpus_per_cell else ("--device=cpu",)
        self._probe = Path()  # in the sweep's folder, named by its content: tasks know the folder by it

    def open(self, sweep_dir: Path) -> None:
        for stale in sweep_dir.glob("probe-*"):
            stale.unlink()
        self._probe = sweep_dir / f"probe-{uuid4().hex}"
        self._probe.write_text(self._probe.name)

    def close(self) -> None:
        if self._probe.name:
            self._probe.unlink(missing_ok=True)


def run_task(attempt: Attempt, probe: Path, needs: tuple[str, str], asked: Callable[[], bool]) -> AttemptEnd:
    """Runs an attempt on the node that the cluster chose; `asked` says when it must write a checkpoint and stop."""
    # Also here: the node may have joined since the sweep began. Its file systems may follow later.
    given_up = time.monotonic() + _UNUSABLE_SECONDS
    while complained := complaint(probe, needs):
        if asked() or time.monotonic() >= given_up:
            return AttemptEnd("lost", f"the node cannot be used: {complained}", host=HOST)
        time.sleep(_POLL_SECONDS)
    with contextlib.closing(attempt):
        while (end := attempt.poll()) is None:
            if asked():
                attempt.stop()
            time.sleep(_POLL_SECONDS)
        return end


def noted_signals(*numbers: signal.Signals) -> list[int]:
    """Returns a list that grows by each of these signals that this process receives from now on."""
    noted: list[int] = []
    for number in numbers:
        signal.signal(number, lambda received, _: noted.append(received))
    return noted


def complaint(probe: Path, needs: tuple[str, ...]) -> str:
    """Says why this node cannot use the folder of `probe`; empty if it can."""
    seen = ""
    with contextlib.suppress(OSError):
        seen = probe.read_text()
    if seen != probe.name:
        return f"--sweep_dir={probe.parent} is not the same folder there: the nodes must share it"
    with (probe.parent / "lock").open("rb") as file, contextlib.suppress(OSError):
        # The sweep holds this lock. If this node can take it too, locks do not work across nodes.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return f"locks in --sweep_dir={probe.parent} do not reach it: mount it with locks that all nodes share"
    for path in needs:
        if not os.path.exists(path):
            return f"{path} does not exist there: every node needs the same installation"
    return ""
