import json

import pytest
from absl.testing import flagsaver

from acer_tf.reproduction.benchmark import checkouts
from experiments import benchmark

# So many updates per step that they decide the pace, also on a busy machine.
SMALL = {"env": "CartPole-v1", "network": "mlp", "num_envs": 16, "unroll_length": 2, "trajectories_per_update": 1}


def test_this_checkout_beside_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(checkouts, "WORKLOADS", {"cartpole": SMALL})
    saved = flagsaver.save_flag_values(benchmark.FLAGS)
    try:
        flags = [f"--against={checkouts.HERE}", "--repetitions=1", f"--output={tmp_path}", f"--scratch={tmp_path}"]
        assert benchmark.main(["benchmark", *flags]) == 0
        assert benchmark.main(["benchmark", *flags]) == 2
    finally:
        flagsaver.restore_flag_values(saved, benchmark.FLAGS)
    said = capsys.readouterr()
    assert "benchmark.json exists: move it away" in said.err
    ours, theirs = json.loads((tmp_path / "benchmark.json").read_text())["against"]["cartpole"]
    for (rates,) in (ours, theirs):
        assert rates["0"] > rates["4"] > 0
    assert (tmp_path / "benchmark.md").read_text().count("| cartpole |") == 2


def test_the_table_has_medians_and_the_median_of_ratios():
    ours, theirs = [{"4": 200.0}, {"4": 300.0}, {"4": 100.0}], [{"4": 100.0}, {"4": 100.0}, {"4": 100.0}]
    line = checkouts.table({"loop": (ours, theirs)}).splitlines()[-1]
    assert line == "| loop | 4 | 100 steps/s | 200 steps/s | 2.00 |"


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be the folder of a checkout"):
        next(checkouts.compare(tmp_path, 1))
