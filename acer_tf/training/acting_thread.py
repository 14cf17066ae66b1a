"""Actors that collect in a thread of this process, while the networks learn in another."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from acer_tf.agents.agent import Agent
from acer_tf.runs.signals import StopRequest
from acer_tf.training.actor import Act, LocalActors, Request, Stopped
from acer_tf.types import Unroll

SILENCE_SECONDS = 60.0  # after which it is said where acting waits
CLOSE_SECONDS = 10.0  # that the thread has to end in
_POLL_SECONDS = 0.5


class ActingThread:
    """The actors that `make` makes for a policy, collecting in a thread with the weights that `begin` found.

    They act by `acting`, an agent like `agent` whose weights no update changes. A request to `stop` ends waiting.
    `note` gets the run's steps and a line if the environments do not return: a thread cannot be ended, only left.
    """

    def __init__(
        self,
        make: Callable[[Act], LocalActors],
        agent: Agent,
        acting: Agent,
        *,
        stop: StopRequest,
        note: Callable[[int, Sequence[str]], None],
    ) -> None:
        self._agent, self._acting, self._stop, self._note = agent, acting, stop, note
        self._requests = queue.SimpleQueue[Request | None]()
        self._results = queue.SimpleQueue[Unroll | BaseException]()
        self._closed, self._steps = False, 0
        self._stepped = time.monotonic()  # when the environments were last given actions
        self.notes: list[str] = []
        self._actors = make(self._act)
        self._thread = threading.Thread(target=self._collect, name="acting", daemon=True)
        self._thread.start()

    def begin(self, request: Request) -> None:
        self._acting.act_as(self._agent.acting_weights(), request.scheduled)
        self._steps, self._stepped = request.steps, time.monotonic()
        self._requests.put(request)

    def take(self) -> Unroll:
        """Raises what `Actors` lists, or Stopped."""
        said = 0.0
        while True:
            try:
                result = self._results.get(timeout=_POLL_SECONDS)
                break
            except queue.Empty:
                if self._stop.signal_number is not None:
                    raise Stopped from None
                if time.monotonic() - self._stepped > SILENCE_SECONDS and said != self._stepped:
                    said = self._stepped
                    self._say(f"have not returned for {SILENCE_SECONDS:g} s")
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """Ends the thread, and the environments unless it does not return from them."""
        self._closed = True
        self._requests.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._say("are left as they are")
        else:
            self._actors.close()

    def _collect(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self._actors.begin(request)
                self._results.put(self._actors.take())
            except BaseException as error:  # whatever an environment raises is raised where the run waits
                self._results.put(error)

    def _act(self, *arguments: Any, **place: Any) -> Any:
        if self._closed:
            raise Stopped
        self._stepped = time.monotonic()
        return self._acting.act(*arguments, **place)

    def _say(self, what: str) -> None:
        """Says `what` the environments do, and the line of Python that the thread is at."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        at = f", at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})" if frame else ""
        self._note(self._steps, [f"the environments {what}{at}"])
