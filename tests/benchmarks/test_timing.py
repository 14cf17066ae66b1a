import pytest

from benchmarks import timing
from benchmarks.timing import Measurement, Workload, interleaved, milliseconds, rate


def test_workloads_run_in_turn_and_their_first_time_does_not_count():
    ran, values = [], iter(range(100))

    def workload(name):
        def run():
            ran.append(name)
            return float(next(values))

        return Workload("ms", run)

    measured = interleaved({name: workload(name) for name in "abc"}, 3)
    assert "".join(ran) == "abc" * 4
    assert measured == {
        "a": Measurement("ms", (3.0, 6.0, 9.0)),
        "b": Measurement("ms", (4.0, 7.0, 10.0)),
        "c": Measurement("ms", (5.0, 8.0, 11.0)),
    }


def test_a_measurement_says_its_median_and_its_extremes():
    document = Measurement("ms", (5.0, 1.0, 2.0, 9.0)).document()
    assert document == {"unit": "ms", "median": 3.5, "low": 1.0, "high": 9.0, "values": [5.0, 1.0, 2.0, 9.0]}


def test_times_and_rates_are_per_call(monkeypatch):
    clock = iter([10.0, 10.5, 20.0, 24.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    calls = []
    per_call = milliseconds(lambda: calls.append(1), 5)
    assert (per_call.unit, per_call.run()) == ("ms", 100.0)
    per_second = rate(lambda: calls.append(1), 8, 16, "steps/s")
    assert (per_second.unit, per_second.run()) == ("steps/s", 32.0)
    assert len(calls) == 13


def test_nothing_is_measured_no_times():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        interleaved({}, 0)
