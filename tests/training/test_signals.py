import os
import signal

import pytest

from acer_tf.training.signals import StopRequest


def test_an_ignored_signal_stays_ignored():
    """As Ctrl-C is by what a shell runs in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest("writing a checkpoint") as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.signal_number is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_is_noted_also_if_nobody_reads_the_answer(number, monkeypatch):
    """Ctrl-C in `... 2>&1 | tee log` ends tee first."""

    def closed(descriptor, data):
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", closed)
    before = signal.getsignal(number)
    with StopRequest("writing a checkpoint") as stop:
        assert stop.signal_number is None
        signal.raise_signal(number)
        assert stop.signal_number == number
        assert signal.getsignal(number) == before  # a second one acts as usual
