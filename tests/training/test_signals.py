import os
import signal

import pytest

from acer_tf.training.signals import StopRequest


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
