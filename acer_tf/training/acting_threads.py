"""Actors that collect in threads of this process, while the networks learn in another."""

import contextlib
import math
import queue
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from acer_tf.agents.agent import Agent
from acer_tf.runs.signals import StopRequest
from acer_tf.training.actor import Act, Actor, LocalActors, Request, Stopped
from acer_tf.types import Unroll

SILENCE_SECONDS = 60.0  # after which it is said where a thread waits
CLOSE_SECONDS = 10.0  # that the threads have to end in
_POLL_SECONDS = 0.5
_LIBRARY = sysconfig.get_path("stdlib")


class ActingThreads:
    """The actors that `make` makes for a policy, in `count` threads, collecting with the weights that `begin` found.

    They act by `acting`, an agent like `agent` whose weights no update changes. It was made on TensorFlow's device
    `place` and computes there; None is the device of the updates. With several actors, some choose actions while the
    environments of others step. A request to `stop` ends waiting. `note` gets the run's steps and a line if
    environments do not return: a thread cannot be ended, only left.
    """

    def __init__(
        self,
        make: Callable[[Act], Sequence[Actor]],
        agent: Agent,
        acting: Agent,
        count: int,
        *,
        place: str | None = None,
        stop: StopRequest,
        note: Callable[[int, Sequence[str]], None],
    ) -> None:
        self._agent, self._acting, self._stop, self._note = agent, acting, stop, note
        self._place = place
        self._steps = 0
        self.notes: list[str] = []
        actors = make(self._act)
        size = -(-len(actors) // count)
        shares = [actors[first : first + size] for first in range(0, len(actors), size)]
        # One queue for all, so that the failure of one thread is seen while another does not return.
        self._results = queue.SimpleQueue[tuple[_Thread, Unroll | BaseException]]()
        self._threads = [_Thread(LocalActors(share), self._results) for share in shares]

    def begin(self, request: Request) -> None:
        self._acting.act_as(self._agent.acting_weights(), request.scheduled)
        self._steps = request.steps
        for thread in self._threads:
            thread.begin(request)

    def take(self) -> Unroll:
        """Raises what `Actors` lists, or Stopped."""
        unrolls: dict[_Thread, Unroll] = {}
        said: dict[_Thread, float] = {}
        while len(unrolls) < len(self._threads):
            try:
                thread, result = self._results.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if self._stop.signal_number is not None:
                    raise Stopped from None
                for thread in self._threads:
                    silent = thread not in unrolls and time.monotonic() - thread.acted > SILENCE_SECONDS
                    if silent and said.get(thread) != thread.acted:
                        said[thread] = thread.acted
                        self._say(f"have not returned for {SILENCE_SECONDS:g} s", thread)
                continue
            if isinstance(result, BaseException):
                raise result
            unrolls[thread] = result
        return Unroll.joined([unrolls[thread] for thread in self._threads])

    def close(self) -> None:
        """Ends the threads and their environments, but for those that do not return."""
        for thread in self._threads:
            thread.end()
        deadline = time.monotonic() + CLOSE_SECONDS
        with contextlib.ExitStack() as each:  # the others too, if one fails
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
                if thread.is_alive():
                    self._say("are left as they are", thread)
                else:
                    each.callback(thread.actors.close)

    def _act(self, *arguments: Any, **where: Any) -> Any:
        thread = threading.current_thread()
        assert isinstance(thread, _Thread)
        thread.check()
        with tf.device(self._place):
            found = self._acting.act(*arguments, **where)
        thread.acted = time.monotonic()
        return found

    def _say(self, what: str, thread: "_Thread") -> None:
        """Says `what` the environments do, and the line that the thread is at, outside of Python's own library."""
        frame = innermost = sys._current_frames().get(thread.ident or 0)
        while frame is not None and _is_pythons(frame.f_code.co_filename):
            frame = frame.f_back
        frame = frame or innermost
        at = f", at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else ""
        self._note(self._steps, [f"the environments {what}{at}"])


def _is_pythons(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(_LIBRARY) and "site-packages" not in path.parts


class _Thread(threading.Thread):
    """Lets some actors collect, one after another, at each request, and puts each result into `results`."""

    def __init__(self, actors: LocalActors, results: "queue.SimpleQueue[Any]") -> None:
        super().__init__(name="acting", daemon=True)
        self.actors, self._results = actors, results
        self.acted = time.monotonic()  # when its environments were last given actions
        self._requests, self._ended = queue.SimpleQueue[Request | None](), False
        self.start()

    def begin(self, request: Request) -> None:
        self.acted = time.monotonic()
        self._requests.put(request)

    def end(self) -> None:
        """Ends the thread as soon as its environments return."""
        self._ended = True
        self._requests.put(None)

    def check(self) -> None:
        if self._ended:
            raise Stopped
        self.acted = math.inf  # the first call compiles

    def run(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self.actors.begin(request)
                self._results.put((self, self.actors.take()))
            except BaseException as error:  # whatever an environment raises is raised where the run waits
                self._results.put((self, error))
