import json
import math

import numpy as np
import pytest

from acer_tf.errors import CurveError
from acer_tf.reproduction.curves import RunCurve, read_run, return_at

NAN = math.nan


def curve(steps, episodes, mean_return, interval_return, env="CartPole-v1", seed=0):
    seconds = [step / 100 for step in steps]
    columns = (np.array(column, float) for column in (steps, seconds, episodes, mean_return, interval_return))
    return RunCurve(env, seed, int(steps[-1]), *columns)


def write_run(folder, rows, env="CartPole-v1", seed=0):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(
        json.dumps({"format": 1, "settings": {"env": env, "seed": seed, "total_steps": 300}})
    )
    lines = ["steps,seconds,episodes,mean_return,interval_return", *(",".join(row) for row in rows)]
    (folder / "progress.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_return_at_a_step_is_that_of_the_first_row_after_it():
    run = curve([100, 200, 300], [1, 2, 3], [1, 2, 3], [1, 2, 3])
    assert return_at(run, 200) == 2
    assert return_at(run, 201) == 3
    assert math.isnan(return_at(run, 301))


def test_a_run_is_read_with_empty_cells_as_nan(tmp_path):
    run = read_run(write_run(tmp_path / "run", [("100", "1", "0", "", ""), ("200", "2", "2", "1.5", "1.5")], seed=7))
    assert (run.env, run.seed, run.total_steps) == ("CartPole-v1", 7, 300)
    np.testing.assert_array_equal(run.mean_return, [NAN, 1.5])


@pytest.mark.parametrize("damage", ["no run.json", "no progress.csv", "a word", "no rows", "a missing column", "fewer"])
def test_what_is_not_a_run_is_named(tmp_path, damage):
    folder = write_run(tmp_path / "run", [("100", "1", "1", "2", "2")])
    if damage.startswith("no ") and damage != "no rows":
        (folder / damage.removeprefix("no ")).unlink()
    else:
        text = {
            "a word": "steps,seconds,episodes,mean_return,interval_return\nmany,1,1,2,2\n",
            "no rows": "steps,seconds,episodes,mean_return,interval_return\n",
            "a missing column": "steps,seconds,episodes,mean_return\n100,1,1,2\n",
            "fewer": "steps,seconds,episodes,mean_return,interval_return\n100,1,2,2,2\n200,2,1,2,2\n",  # episodes
        }[damage]
        (folder / "progress.csv").write_text(text)
    with pytest.raises(CurveError, match=str(folder)):
        read_run(folder)
