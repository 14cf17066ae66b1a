"""The rate of a run without its first rows, and the table."""

from pathlib import Path

import pytest

from benchmarks import overlap


def test_the_first_rows_of_a_run_do_not_count(monkeypatch):
    given = []

    def run(command, check, stdout):
        given.extend(command)
        (folder,) = (Path(flag.partition("=")[2]) for flag in command if flag.startswith("--run_dir="))
        folder.mkdir(parents=True)
        rows = [(100, 9.0), (200, 20.0), (300, 21.0), (500, 23.0)]
        lines = ["steps,seconds", *(f"{steps},{seconds}" for steps, seconds in rows)]
        (folder / "progress.csv").write_text("\n".join(lines))

    monkeypatch.setattr(overlap.subprocess, "run", run)
    overlap.FLAGS(["overlap", "--precision=float32"])
    assert overlap.rate(overlap.Loop(("--env=minatar/breakout",), 100), ("--actors=2",)) == 100
    assert {"--env=minatar/breakout", "--actors=2", "--total_steps=500", "--precision=float32"} <= set(given)


def test_the_table_has_medians_ranges_and_ratios_to_a_run_in_turn():
    found = {way: {"median": 100.0 * n, "low": 90.0 * n, "high": 110.0 * n} for n, way in enumerate(overlap.WAYS, 1)}
    head, _, row = overlap.table({"Pong": found}).splitlines()
    assert head == "| steps/s | one thread | in turn | acting beside | in two threads |"
    assert row.startswith("| Pong | 100 [90, 110] × 0.50 | 200 [180, 220] × 1.00 | 300 [270, 330] × 1.50 |")


def test_an_unknown_loop_is_refused(capsys):
    with pytest.raises(SystemExit):
        overlap.main(["overlap", "--loop=Tetris"])
    assert "--loop" in capsys.readouterr().err
