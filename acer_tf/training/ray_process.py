"""An object in a process of its own: Ray ends a process that is connected to a cluster once that cluster is gone.

    this process ── guardian ── the object's process ── what that starts, such as a cluster of this machine

When the object's process or this one ends, however it ends, the guardian kills all that is left below it.
"""

import contextlib
import ctypes
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import psutil

from acer_tf.errors import ClusterLost, first_line
from acer_tf.references import imported
from acer_tf.runs.signals import USUAL

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from acer_tf.training.ray_process import guard; guard(*map(int, sys.argv[2:]))"
)
_PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36  # options of prctl
_POLL_SECONDS = 0.5
_KILL_SECONDS = 20.0
SILENCE_SECONDS = 180.0  # Ray took 91 to say that a cluster does not start


class RemoteTraceback(Exception):
    """The traceback of an error in the object's process."""


class RayProcess:
    """The object `make(*arguments)`, for "module:make"; raises what that raises.

    No terminal and no signal to a batch job's processes reaches it: this process answers. `notes` grow by the lines in
    the object's list of that name, if it has one, with the result of each call. If the object has an attribute `alive`,
    it becomes a function to call in long calls: after `SILENCE_SECONDS` without it the object counts as lost. What is
    left at its end has `grace` seconds to end by SIGTERM before it is killed.
    """

    def __init__(self, make: str, *arguments: Any, grace: float = 0.0) -> None:
        self.notes: list[str] = []
        self._grace = grace
        ours, theirs = socket.socketpair()
        with theirs:
            path = json.dumps([os.path.abspath(folder) for folder in sys.path])
            numbers = [os.getpid(), theirs.fileno(), math.ceil(grace)]
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, path, *map(str, numbers)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # Ray's libraries write there how they end; its logs have that too
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())
        try:
            self.call(make, *arguments)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *arguments: Any) -> Any:
        self.send(method, *arguments)
        return self.receive()

    def send(self, method: str, *arguments: Any) -> None:
        """Calls a method, whose result `receive` returns."""
        with contextlib.suppress(OSError):  # `receive` says that it is gone
            self._connection.send((method, arguments))

    def receive(self, waiting: Callable[[], None] = lambda: None) -> Any:
        """The result of the first call that has given none yet; raises what the call raised.

        `waiting` is called twice a second until then, and may raise.

        Raises:
            ClusterLost: the object's process has ended, or hangs.
        """
        answer, heard = None, time.monotonic()
        try:
            while answer is None:  # a sign of life
                while not self._connection.poll(_POLL_SECONDS):
                    waiting()
                    if time.monotonic() - heard > SILENCE_SECONDS:
                        how = f"the process that is connected to it has not answered for {SILENCE_SECONDS:g} s"
                        raise ClusterLost(f"the Ray cluster is gone: {how}")
                answer, heard = self._connection.recv(), time.monotonic()
            result, error, trace, notes = answer
        except ClusterLost:
            raise
        except (EOFError, ConnectionError) as lost:
            self._process.wait()
            waiting()  # whoever ended that process may have asked this one to stop
            how = f"the process that was connected to it ended with status {self._process.returncode}"
            raise ClusterLost(f"the Ray cluster is gone: {how}") from lost
        self.notes += notes
        if error is not None:
            raise error from RemoteTraceback(trace)
        return result

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(self._grace + 2 * _KILL_SECONDS)
        except subprocess.TimeoutExpired:  # the guardian itself was stopped
            below = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            self._process.wait()
            for process in below:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        self._connection.close()


def guard(parent: int, descriptor: int, grace: int) -> None:
    """The guardian's program: runs the object's process until that ends, or `parent`, or a SIGTERM comes."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)  # a process whose parent ends becomes the guardian's child
    prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    os.set_inheritable(descriptor, False)
    for number in USUAL.keys() - {signal.SIGTERM}:  # a batch system sends them to every process of a job
        signal.signal(number, signal.SIG_IGN)
    waited = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
        _answer(Connection(descriptor))
        os._exit(0)
    os.close(descriptor)
    statuses: dict[int, int] = {}

    def reap() -> bool:
        """Whether children are left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                statuses[ended[0]] = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return False
        return True

    while child not in statuses and os.getppid() == parent and signal.sigwait(waited) == signal.SIGCHLD:
        reap()
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        deadline, asked = time.monotonic() + seconds, set[psutil.Process]()
        while reap() and time.monotonic() < deadline:
            for process in set(psutil.Process().children(recursive=True)) - asked:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
                asked.add(process)
            time.sleep(0.02)
    status = statuses.get(child, 0)
    sys.exit(status if status >= 0 else 128 - status)


def _answer(connection: Connection) -> None:
    """The program of the object's process: makes it, and calls its methods, until nobody listens."""
    made = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            name, arguments = connection.recv()
            result, error, trace = None, None, ""
            try:
                if made is None:
                    made = imported(name)(*arguments)
                    if hasattr(made, "alive"):
                        made.alive = lambda: connection.send(None)
                else:
                    result = getattr(made, name)(*arguments)
            except Exception as raised:
                error, trace = raised, str(raised.__cause__ or "") or traceback.format_exc()
                try:
                    ForkingPickler.loads(ForkingPickler.dumps(error))
                except Exception:  # a class of the user's
                    error = RuntimeError(first_line(raised))
            notes: list[str] = getattr(made, "notes", [])
            connection.send((result, error, trace, notes))
            notes.clear()
