import os
import signal

import pytest

from acer_tf.runs.signals import StopRequest


@pytest.mark.parametrize(("number", "noted"), [(signal.SIGINT, None), (signal.SIGTERM, signal.SIGTERM)])
def test_what_a_shell_runs_in_the_background_ignores_ctrl_c_and_can_be_stopped(number, noted):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with StopRequest("writing a checkpoint") as stop:
            signal.raise_signal(number)
            assert stop.signal_number == noted
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_after_the_first_request_ctrl_c_acts_as_usual_and_sigterm_asks_for_the_same(first, capfd):
    """A service that is stopped, and a sweep in it, send a run SIGTERM within a second."""
    with StopRequest("writing a checkpoint") as stop:
        signal.raise_signal(first)
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert stop.signal_number == first
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == f"{first.name}: writing a checkpoint\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_is_noted_also_if_nobody_reads_the_answer(number, monkeypatch):
    """Ctrl-C in `... 2>&1 | tee log` ends tee first."""

    def closed(descriptor, data):
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", closed)
    with StopRequest("writing a checkpoint") as stop:
        assert stop.signal_number is None
        signal.raise_signal(number)
        assert stop.signal_number == number
