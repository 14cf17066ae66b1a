import pytest

from benchmarks import report
from benchmarks.timing import Measurement


def documents(values):
    return {name: Measurement(unit, (v, 0.9 * v, 1.1 * v)).document() for name, (v, unit) in values.items()}


@pytest.fixture
def groups():
    learning = {
        "matrix product, float32": (500.0, "GFLOP/s"),
        "matrix product, bfloat16": (2000.0, "GFLOP/s"),
        "environments": (5000.0, "steps/s"),
        **{
            f"loop, ratio {r}, {p}": (1000.0 / (1 + r), "steps/s")
            for r in (0, 1, 4, 8)
            for p in ("float32", "bfloat16")
        },
    }
    facts = {
        "operations_per_step": {str(r): 1e8 * (1 + r) for r in (0, 1, 4, 8)},
        "stored_steps": 1000,
        "replay_bytes": 7_200_000,
        "resident_bytes": 1_007_200_000,
        "checkpoint": {"minutes": 10.0, "first_seconds": 20.0, "bytes_on_disk": 1e9, "bytes_per_interval": 4.5e9},
    }
    rows = {
        f"sample 16 × 21, {n:,} rows, {place}": (0.5, "ms")
        for n in (1_000, 50_000)
        for place in ("memory", "file", "file, out of memory")
    }
    alone = {f"{env} × {n}": (100.0 * n, "steps/s") for env in ("atari/Pong", "minatar/breakout") for n in (4, 16, 64)}
    draws = {
        f"{name}, {size:,} items, batch 32": (0.1, "ms")
        for name in ("proportional", "rank")
        for size in (10_000, 100_000, 1_000_000, 10_000_000)
    }
    shares = {"shares_of_a_dqn_update": {"proportional": 0.0123, "rank": 0.02}}
    recurrent = {"loop, ratio 4, nature": (1000.0, "steps/s"), "loop, ratio 4, nature_lstm": (700.0, "steps/s")}
    return {
        "recurrent": {"measurements": documents(recurrent), "facts": {"share": 0.7}},
        "priorities": {"measurements": documents(draws), "facts": shares},
        "environments": {"measurements": documents(alone), "facts": {}},
        "atari": {"measurements": documents({**learning, "checkpoint": (12.0, "s")}), "facts": facts},
        "replay": {"measurements": documents(rows), "facts": {"memory": [{"steps": 100, "bytes": 1e6}]}},
    }


def test_the_summary_lays_each_loop_beside_its_limit(groups):
    lines = report.summary(groups).splitlines()
    # 5e8 operations at 5e11 a second and 1/5000 s: 1 / (1 ms + 0.2 ms).
    assert "| Atari Pong, replay ratio 4, float32 | 200 steps/s | 833 | 0.24 |" in lines
    assert "| Atari Pong, replay ratio 4, bfloat16 | 200 steps/s | 2,222 | 0.09 |" in lines
    assert "| replay of 1,000 Atari steps | 0.01 GB | | |" in lines
    assert "| memory per stored step, in its frame's bytes | 1.020 | | |" in lines
    assert "| the process besides, with two agents | 1.00 GB | | |" in lines
    assert "| a checkpoint every 10 minutes, 4.5 GB each | 12.0 s | | 2.0 % of the time |" in lines
    assert "| atari/Pong, replay ratio 4, nature_lstm | 700 steps/s | | 0.70 of nature's |" in lines
    assert not any("CartPole" in line for line in lines), "it was not measured"
    priorities = (
        "| prioritized draw and its new priorities, proportional, 1,000,000 transitions | 0.100 ms | | 1.2 % of a"
    )
    assert any(line.startswith(priorities) for line in lines)
    assert not any("MinAtar" in line for line in lines), "it was not measured"


def test_the_table_has_every_measurement(groups):
    lines = report.table(groups).splitlines()
    assert len(lines) == 2 + sum(len(group["measurements"]) for group in groups.values())
    assert "| atari | checkpoint | 12 | 10.8 to 13.2 | s |" in lines
    assert "| environments | atari/Pong × 64 | 6,400 | 5,760 to 7,040 | steps/s |" in lines


@pytest.mark.parametrize(("left_out", "panels"), [((), 5), (("environments", "replay"), 2)])
def test_the_figure_has_a_panel_for_what_was_measured(groups, left_out, panels, tmp_path):
    for name in left_out:
        del groups[name]
    report.draw(groups, tmp_path / "new" / "figure.svg")
    text = (tmp_path / "new" / "figure.svg").read_text()
    assert text.count('id="axes_') == text.count('id="legend_') == panels


def test_nothing_is_drawn_of_groups_without_a_panel(groups, tmp_path):
    report.draw({"recurrent": groups["recurrent"]}, tmp_path / "figure.svg")
    assert not (tmp_path / "figure.svg").exists()
