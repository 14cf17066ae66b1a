"""Ctrl-C and SIGTERM as a request to stop."""

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any


class Terminated(BaseException):
    """Raised at SIGTERM, as KeyboardInterrupt at Ctrl-C, so that files that are half written are removed."""


STOPPED = (KeyboardInterrupt, Terminated)


def signal_of(stop: BaseException) -> signal.Signals:
    """The signal that raised one of `STOPPED`."""
    return signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM


class StopRequest:
    """A context in which the first SIGINT or SIGTERM only sets `signal_number`.

    A SIGINT after it acts as usual. Another SIGTERM does nothing, because systemd and others send it to all processes
    at once, and a sweep asks its runs too. The `answer`, printed on standard error, says what will be done about the
    first signal. Outside the main thread, where Python receives no signals, the context does nothing.
    """

    def __init__(self, answer: str) -> None:
        self.signal_number: int | None = None
        self._answer = answer
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        main = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGINT, signal.SIGTERM) if main else ():
            handler = signal.getsignal(number)
            # A shell's background jobs ignore Ctrl-C, but can be stopped; None, a handler of C, could not be restored.
            if handler is not None and not (number == signal.SIGINT and handler is signal.SIG_IGN):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.signal_number is not None:
            return
        self.signal_number = number
        if signal.SIGINT in self._previous:
            signal.signal(signal.SIGINT, self._previous[signal.SIGINT])
        # Not print, which is not reentrant: the signal may have interrupted one. Ctrl-C also ends the reader of a pipe.
        with contextlib.suppress(OSError):
            os.write(2, f"{signal.Signals(number).name}: {self._answer}\n".encode())
