import os
import signal

import pytest

from acer_tf import __main__
from acer_tf.runs import signals
from acer_tf.runs.signals import STOPPED, USUAL, StopRequest, Terminated, interrupt


@pytest.mark.parametrize("number", USUAL)
def test_what_is_ignored_stays_so_but_for_the_signal_of_kill(number):
    """A shell's background jobs ignore Ctrl-C, nohup the end of the session, a sweep's runs Slurm's SIGUSR2."""
    noted = number if number == signal.SIGTERM else None
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with StopRequest("writing a checkpoint") as stop:
            signal.raise_signal(number)
            assert stop.signal_number == noted
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_signal_that_the_caller_listens_to_is_the_caller_s():
    """In a task of submitit, SIGUSR2 requeues the job."""
    heard = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: heard.append(number))
    try:
        with StopRequest("writing a checkpoint") as stop:
            signal.raise_signal(signal.SIGUSR2)
            assert (heard, stop.signal_number) == ([signal.SIGUSR2], None)
    finally:
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize("first", USUAL)
def test_after_the_first_request_ctrl_c_acts_as_usual_and_others_ask_for_the_same(first, capfd):
    """A service that is stopped, and a sweep in it, send a run SIGTERM within a second."""
    with StopRequest("writing a checkpoint") as stop:
        signal.raise_signal(first)
        for number in [n for n in USUAL if n != signal.SIGINT] * 2:
            signal.raise_signal(number)
        assert stop.signal_number == first
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == f"{first.name}: writing a checkpoint\n"


@pytest.mark.parametrize("number", USUAL)
def test_a_request_to_stop_is_noted_also_if_nobody_reads_the_answer(number, monkeypatch):
    """Ctrl-C in `... 2>&1 | tee log` ends tee first."""

    def closed(descriptor, data):
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", closed)
    with StopRequest("writing a checkpoint") as stop:
        assert stop.signal_number is None
        signal.raise_signal(number)
        assert stop.signal_number == number


@pytest.mark.parametrize("first", USUAL)
def test_no_signal_raises_within_the_handling_of_another(first, monkeypatch):
    """As when all processes get two at once; but a process that has swallowed the exception must not be deaf."""
    ended = []
    monkeypatch.setattr(signals, "_end", ended.append)
    before = {number: signal.signal(number, interrupt) for number in USUAL}
    try:
        with pytest.raises(STOPPED):
            signal.raise_signal(first)
        for number in USUAL.keys() - {signal.SIGINT}:
            signal.raise_signal(number)
        assert ended == []
        monkeypatch.setattr(signals, "_HANDLING_SECONDS", 0.0)
        with pytest.raises(signals.Terminated):
            signal.raise_signal(signal.SIGTERM)
        monkeypatch.setattr(signals, "interrupt", lambda *_: None)
        signal.raise_signal(signal.SIGINT)
        assert ended == [signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Scope:
    """As TensorFlow's device scope does, it raises an error of its own if it is left at another place than it knows."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        raise RuntimeError("Exiting device scope without proper scope nesting.")


@pytest.mark.parametrize(("stop", "status"), [(Terminated(signal.SIGHUP), 129), (KeyboardInterrupt(), 130)])
def test_an_error_that_a_stop_caused_elsewhere_is_that_stop(stop, status, monkeypatch, capsys):
    def run(argv):
        with Scope():
            raise stop

    monkeypatch.setattr(__main__, "_run", run)
    assert __main__.main(["acer_tf", "train"]) == status
    assert capsys.readouterr().err == f"stopped by {signal.Signals(status - 128).name}\n"


def test_an_error_of_ours_is_none(monkeypatch):
    monkeypatch.setattr(__main__, "_run", lambda argv: {}["missing"])
    with pytest.raises(KeyError):
        __main__.main(["acer_tf", "train"])
