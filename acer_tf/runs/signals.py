"""The signals that ask a process to end: at once, or after a checkpoint."""

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from acer_tf.errors import Interrupted

# What users, terminals, service managers and batch systems send: Ctrl-C; kill; a closed terminal; Ctrl-\; Slurm's
# --signal and Grid Engine's -notify; a limit of CPU time (ulimit -t). Python's usual answer to each.
USUAL: dict[int, Any] = {signal.SIGINT: signal.default_int_handler} | dict.fromkeys(
    (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU), signal.SIG_DFL
)
_HANDLING_SECONDS = 10.0


class Terminated(BaseException):
    """Raised at the signals of `USUAL`, as KeyboardInterrupt at Ctrl-C, so that half-written files are removed."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(number)
        self.number = number


STOPPED = (KeyboardInterrupt, Terminated)  # `Interrupted` is one too


def signal_of(stop: BaseException) -> signal.Signals:
    """The signal that raised one of `STOPPED`."""
    if isinstance(stop, Interrupted):
        return signal.Signals(stop.signal_number)
    return signal.Signals(stop.number) if isinstance(stop, Terminated) else signal.SIGINT


def stop_behind(error: BaseException | None) -> BaseException | None:
    """The exception of `STOPPED` that led to `error`, which may be `error` itself; None if there is none.

    A context manager of another package may raise an error of its own when an exception leaves it.
    """
    while error is not None and not isinstance(error, STOPPED):
        error = error.__context__
    return error


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raises one of `STOPPED`; within an import, ends the process, as C code there would print or swallow it.

    A second Ctrl-C ends the process. Other signals change nothing while the first one's exception is handled.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _end(number)
        frame = frame.f_back
    began = time.monotonic()

    def again(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            _end(number)
        if time.monotonic() - began > _HANDLING_SECONDS:  # somebody has swallowed the exception
            interrupt(number, frame)

    for other in USUAL:
        if signal.getsignal(other) is interrupt:
            signal.signal(other, again)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)


def _end(number: int) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"stopped by {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)


class StopRequest:
    """A context in which the first signal of `USUAL` only sets `signal_number`.

    A SIGINT after it acts as usual. Other signals after it do nothing, because systemd and others send them to all
    processes at once, a sweep asks its runs too, and the kernel repeats SIGXCPU. The `answer`, printed on standard
    error, says what will be done about the first signal. Outside the main thread, where Python receives no signals, the
    context does nothing.
    """

    def __init__(self, answer: str) -> None:
        self.signal_number: int | None = None
        self._answer = answer
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        main = threading.current_thread() is threading.main_thread()
        for number, usual in USUAL.items() if main else ():
            if _ends(number, usual):
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


def _ends(number: int, usual: Any) -> bool:
    """Whether a signal asks this process to end, as far as its handler tells."""
    handler = signal.getsignal(number)
    if number == signal.SIGTERM:
        return handler is not None  # also if ignored: a shell's background jobs must be stoppable; None is C's
    if number == signal.SIGINT:  # which a shell's background jobs ignore
        return handler not in (None, signal.SIG_IGN)
    # nohup ignores SIGHUP. What a caller's own handler is for is not known: submitit's requeues its job at SIGUSR2.
    return handler in (usual, interrupt)
