"""Actors that collect in threads of this process, while the networks learn in another."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from acer_tf.agents.agent import Agent
from acer_tf.runs.signals import StopRequest
from acer_tf.training.actor import Act, Actor, LocalActors, Request, Stopped
from acer_tf.types import Unroll

SILENCE_SECONDS = 60.0  # after which it is said where a thread waits
CLOSE_SECONDS = 10.0  # that the threads have to end in
_POLL_SECONDS = 0.5


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
        self._threads = [_Thread(LocalActors(share)) for share in shares]

    def begin(self, request: Request) -> None:
        self._acting.act_as(self._agent.acting_weights(), request.scheduled)
        self._steps = request.steps
        for thread in self._threads:
            thread.begin(request)

    def take(self) -> Unroll:
        """Raises what `Actors` lists, or Stopped."""
        return Unroll.joined([self._unroll(thread) for thread in self._threads])

    def close(self) -> None:
        """Ends the threads and their environments, but for those that do not return."""
        for thread in self._threads:
            thread.end()
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._say("are left as they are", thread)
            else:
                thread.actors.close()

    def _unroll(self, thread: "_Thread") -> Unroll:
        said = 0.0
        while True:
            try:
                result = thread.results.get(timeout=_POLL_SECONDS)
                break
            except queue.Empty:
                if self._stop.signal_number is not None:
                    raise Stopped from None
                if time.monotonic() - thread.acted > SILENCE_SECONDS and said != thread.acted:
                    said = thread.acted
                    self._say(f"have not returned for {SILENCE_SECONDS:g} s", thread)
        if isinstance(result, BaseException):
            raise result
        return result

    def _act(self, *arguments: Any, **where: Any) -> Any:
        thread = threading.current_thread()
        assert isinstance(thread, _Thread)
        thread.check()
        with tf.device(self._place):
            return self._acting.act(*arguments, **where)

    def _say(self, what: str, thread: "_Thread") -> None:
        """Says `what` the environments do, and the line of Python that the thread is at."""
        frame = sys._current_frames().get(thread.ident or 0)
        at = f", at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else ""
        self._note(self._steps, [f"the environments {what}{at}"])


class _Thread(threading.Thread):
    """Lets some actors collect, one after another, at each request."""

    def __init__(self, actors: LocalActors) -> None:
        super().__init__(name="acting", daemon=True)
        self.actors = actors
        self.results = queue.SimpleQueue[Unroll | BaseException]()
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
        self.acted = time.monotonic()

    def run(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self.actors.begin(request)
                self.results.put(self.actors.take())
            except BaseException as error:  # whatever an environment raises is raised where the run waits
                self.results.put(error)
