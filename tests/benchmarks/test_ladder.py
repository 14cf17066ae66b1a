"""The rates and parts of runs, without their first rows, and the table."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from absl.testing import flagsaver

from benchmarks import actors, ladder, timed_run, workers

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _flags_as_they_were():
    saved = flagsaver.save_flag_values(ladder.FLAGS)
    yield
    flagsaver.restore_flag_values(saved, ladder.FLAGS)


def test_a_timed_run_counts_from_its_second_row_of_progress(monkeypatch):
    now = 0.0
    monkeypatch.setattr(timed_run.time, "perf_counter", lambda: now)

    class Work:
        def outer(self, seconds):
            nonlocal now
            now += 1
            self.inner(seconds)

        def inner(self, seconds):
            nonlocal now
            now += seconds

    parts = timed_run.Parts()
    parts.time(Work, "inner", "acting", within="environments")
    parts.time(Work, "outer", "environments")
    for steps, seconds in ((100, 50.0), (200, 60.0), (300, 3.0), (600, 5.0)):
        Work().outer(seconds)
        parts.iterations += 1
        parts.row(steps)
    assert parts.document() == {"rate": 40.0, "parts": {"acting": 4000.0, "environments": 1000.0, "whole": 5000.0}}


@pytest.mark.training
def test_a_real_run_is_timed(tmp_path):
    given = {"env": "CartPole-v1", "num_envs": 4, "total_steps": 500, "log_interval": 100, "replay_start": 40}
    options = [f"--{name}={value}" for name, value in {**given, "run_dir": tmp_path / "run"}.items()]
    command = [sys.executable, "-m", "benchmarks.timed_run", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rate"] > 0
    spent = [found["parts"].pop(name) for name in ("waiting for rows", "drawing", "updates")]
    assert set(found["parts"]) == {"acting", "environments", "whole"}
    assert 0 < sum(spent) < found["parts"]["whole"]
    assert min(spent) > 0


def test_ways_differ_in_flags_and_the_failure_of_a_run_is_shown(monkeypatch):
    ran = []

    def run(command, env, **options):
        ran.append((command, env.get("XLA_FLAGS", "")))
        return SimpleNamespace(returncode=0, stdout='a line\n{"rate": 7, "parts": {}}', stderr="")

    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(ladder.subprocess, "run", run)
    ladder.FLAGS(["ladder", "--precision=float32", "--machine=gpu"])
    loop = ladder.Loop(("--env=minatar/breakout",), 100)
    assert ladder.measured(loop, ladder.Way(("--actors=2",), "--fast"))["rate"] == 7
    ladder.measured(loop, ladder.Way(("--device=cpu",)))
    (first, on_gpu), (second, on_cpu) = ran
    assert {"--env=minatar/breakout", "--actors=2", "--total_steps=1500", "--precision=float32"} <= set(first)
    assert {"--device=cpu", "--total_steps=500"} <= set(second)
    assert (on_gpu, on_cpu) == ("--fast", "")
    monkeypatch.setattr(ladder.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=2, stderr="no GPU"))
    with pytest.raises(RuntimeError, match="status 2:\nno GPU"):
        ladder.measured(loop, ladder.Way())


def test_a_way_that_fails_or_hangs_leaves_the_others(monkeypatch, tmp_path, capsys):
    ran = []

    def run(command, timeout, **options):
        ran.append(command)
        if "--actors=2" in command:
            raise subprocess.TimeoutExpired(command, timeout)
        if "--threads=1" in command:
            return SimpleNamespace(returncode=1, stderr="a line\nno such thread")
        return SimpleNamespace(returncode=0, stdout='{"rate": 7, "parts": {}}', stderr="")

    monkeypatch.setattr(ladder.subprocess, "run", run)
    flags = ["--loop=Pong, paper, ratio 4", "--repetitions=2", "--limit_seconds=5", f"--output={tmp_path}"]
    assert ladder.main(["ladder", *flags]) == 1
    assert len(ran) == 2 * 2 + 2  # none that failed is tried again
    record = json.loads((tmp_path / "ladder.json").read_text())
    assert [len(runs) for runs in record["loops"]["Pong, paper, ratio 4"].values()] == [2, 0, 2, 0]
    assert set(record["failed"]) == {"Pong, paper, ratio 4, one thread", "Pong, paper, ratio 4, two actors"}
    page = (tmp_path / "ladder.md").read_text()
    assert "one thread failed: no such thread" in page and "took more than 5 s" in page
    assert "| acting beside | 7 [7, 7] | 1.00 |" in page


@pytest.mark.parametrize("measure", [ladder, actors, workers])
def test_earlier_measurements_are_not_replaced(measure, tmp_path, capsys):
    saved = flagsaver.save_flag_values(measure.FLAGS)
    name = measure.__name__.rpartition(".")[2]
    path = tmp_path / f"{name}.json"
    path.write_text("precious")
    try:
        assert measure.main([name, f"--output={tmp_path}"]) == 2
        assert measure.main([name, "--output=/proc/below"]) == 2
    finally:
        flagsaver.restore_flag_values(saved, measure.FLAGS)
    err = capsys.readouterr().err
    assert f"error: {path} exists: move it away" in err and "error: --output=/proc/below is not writable" in err
    assert path.read_text() == "precious"


def test_without_a_gpu_nothing_is_measured_as_one(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ladder, "gpu_names", list)
    assert ladder.main(["ladder", "--machine=gpu", f"--output={tmp_path}/out"]) == 2
    assert "finds no GPU" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_table_has_medians_ranges_and_ratios_to_the_first_way():
    found = {
        way: [{"rate": 100.0 * n * k, "parts": {"updates": 10.0 * k}} for k in (1, 3, 2)]
        for n, way in enumerate(("in turn", "beside"), 1)
    }
    head, _, *rows = ladder.table({"Pong": found}).splitlines()
    assert head == "| loop | way | steps/s | ratio | updates, ms |"
    assert rows == [
        "| Pong | in turn | 200 [100, 300] | 1.00 | 20.0 |",
        "| Pong | beside | 400 [200, 600] | 2.00 | 20.0 |",
    ]


@pytest.mark.parametrize("flag", ["--loop=Tetris", "--way=by magic", "--machine=tpu"])
def test_what_is_unknown_is_refused(flag, capsys):
    try:
        status = ladder.main(["ladder", flag])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert flag.partition("=")[0] in capsys.readouterr().err
