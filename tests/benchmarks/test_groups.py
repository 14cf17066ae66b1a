import functools
from types import SimpleNamespace

import pytest

from benchmarks import groups, recurrent, timing


def names(prefix, places):
    return {f"{prefix}, {rows} rows, {place}" for rows in (60, 90) for place in places}


def test_the_replay_group_measures_every_size_in_memory_and_in_a_file_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "REPLAY_ROWS", (60, 90))
    measurements, facts = groups.replay(2, tmp_path)
    assert set(measurements) == names("add 16 steps", ["memory", "file"]) | names(
        "sample 16 × 21", ["memory", "file", "file, out of memory"]
    )
    assert all(len(m.values) == 2 and min(m.values) > 0 for m in measurements.values())
    assert [point["steps"] for point in facts["memory"]] == [16 * 9 * n for n in range(1, 11)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.training
def test_a_learning_group_measures_parts_and_whole_of_the_real_agent(monkeypatch):
    monkeypatch.setattr(groups, "REPLAY_ROWS", (60, 90))
    monkeypatch.setattr(groups, "_affordable_rows", lambda spec: 90)
    monkeypatch.setattr(groups, "_matrix_products", functools.partial(groups._matrix_products, 64))
    ratios = {0: 1, 4: 1}
    monkeypatch.setattr(groups, "RATIOS", tuple(ratios))
    monkeypatch.setattr(groups, "TRAJECTORIES", (4,))
    measurements, facts = groups._learning("CartPole-v1", 1, None, updates=1, iterations=ratios)
    both = ("float32", "bfloat16")
    parts = {f"{part}, {p}" for part in ("matrix product", "act", "update") for p in both} | {"environments", "sample"}
    loops = {f"loop, ratio {ratio}, {p}" for ratio in ratios for p in both}
    loops |= {f"loop, ratio 4, {p}, 4 trajectories per update" for p in both}
    assert set(measurements) == parts | loops
    assert all(min(m.values) > 0 for m in measurements.values())
    assert facts["traces"] == {"float32": 3, "bfloat16": 3}, "one for each number of updates in an iteration"
    assert facts["stored_steps"] == 16 * 90
    assert facts["operations_per_step"]["4"] > facts["operations_per_step"]["0"] > 0


@pytest.mark.training
def test_a_recurrent_group_measures_both_networks_beside_each_other(tmp_path, monkeypatch):
    monkeypatch.setitem(recurrent.PAIRS, "recurrent_small", ("CartPole-v1", "mlp", 1, 1))
    measurements, facts = groups.GROUPS["recurrent_small"](1, tmp_path)
    parts = ("act", "replayed update", "loop, ratio 4")
    assert set(measurements) == {f"{part}, {network}" for part in parts for network in ("mlp", "mlp_lstm")}
    assert all(min(m.values) > 0 for m in measurements.values())
    assert facts["share"] > 0


def test_the_share_of_a_recurrent_network_is_of_the_steps_per_second_without_it(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)

    class Takes:
        """An environment, an agent and a loop, all of whose calls take some seconds."""

        num_envs, spec = 2, SimpleNamespace(observation_shape=(4,), observation_dtype="float32")
        network = SimpleNamespace(state_size=0)

        def __init__(self, seconds):
            self.seconds, self.collector = seconds, SimpleNamespace(steps=0)

        def act(self, *arguments):
            clock.now += self.seconds

        def iterate(self):
            clock.now += self.seconds
            self.collector.steps += 6

        learn, close = act, lambda self: None

    def loop(env_id, network, lstm_units, threads):
        takes = Takes(2.0 if lstm_units else 1.0)
        return takes, takes, takes, None

    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(recurrent, "_loop", loop)
    monkeypatch.setattr("acer_tf.training.device.use_threads", lambda *_: {"environments": 1})
    measurements, facts = groups.GROUPS["recurrent_small"](3, tmp_path)
    assert facts["share"] == 0.5
    assert measurements["loop, ratio 4, mlp_lstm"].values == (3.0, 3.0, 3.0)  # steps/s
    assert [measurements[f"act, {network}"].median for network in ("mlp", "mlp_lstm")] == [1000.0, 2000.0]


def test_every_group_can_be_asked_for():
    from benchmarks import __main__ as benchmark

    assert set(benchmark._GROUPS) == set(groups.GROUPS)


def test_checkpoints_are_timed_and_cleared_away(tmp_path):
    import numpy as np

    class Agent:
        def arrays(self):
            return {}

    ring = groups.TrajectoryReplay(groups._ATARI, 16, 90, 20, 0)
    steps = groups._noise(groups._ATARI, 16)
    for _ in groups._fill(ring, 90, steps):
        pass
    measurement, facts = groups._checkpoints(Agent(), ring, steps, 1_000.0, 3, tmp_path)
    assert len(measurement.values) == 3
    assert facts["bytes_per_interval"] == pytest.approx(90 * 16 * 7094)
    assert facts["bytes_on_disk"] >= 90 * 16 * 7056
    assert list(tmp_path.iterdir()) == []
    assert np.isfinite(facts["first_seconds"])
