import csv
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import means_beyond_bounds


class HalfOutside:
    """Answers means of 2 in every second environment, and of 0.5 in the others."""

    metadata = {"env": "Pendulum-v1"}  # noqa: RUF012

    def answer(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        mean = np.where(np.arange(len(observation)) % 2, 2.0, 0.5)[:, None]
        return {"mean": mean, "std": np.full_like(mean, 0.3)}


def test_the_share_is_counted_over_all_components():
    mean_return, share = means_beyond_bounds.beyond_bounds(HalfOutside(), episodes=4)  # type: ignore[arg-type]
    assert share == 0.5 and -3000 < mean_return < 0


def test_each_policy_of_the_runs_gets_a_line(tmp_path, capsys):
    policy = Path(__file__).parents[2] / "results" / "policies" / "reacher3"
    run = tmp_path / "cells" / "one" / "run"
    run.mkdir(parents=True)
    (run / "policy").symlink_to(policy)
    flags = [f"--runs={tmp_path}/cells/*/run", "--episodes=2", f"--output={tmp_path / 'means.csv'}"]
    assert means_beyond_bounds.main(["means_beyond_bounds", *flags]) == 0
    (row,) = csv.DictReader((tmp_path / "means.csv").open())
    origin = json.loads((policy / "metadata.json").read_text())["settings"]
    assert all(row[name] == str(origin[name]) for name in ("env", "seed", "learning_rate", "trust_region_delta"))
    assert 0 < float(row["beyond_bounds"]) < 0.5 and float(row["mean_return"]) > 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--runs and --output must be given"),
        (["--runs=nowhere/*", "--output=no/folder.csv"], "--output=no/folder.csv: must name a new file in a folder"),
        (["--runs=nowhere/*", "--output=means.csv"], "--runs=nowhere/*: none of these is a finished run's folder"),
    ],
)
def test_what_is_missing_is_named(flags, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert means_beyond_bounds.main(["means_beyond_bounds", *flags]) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())
