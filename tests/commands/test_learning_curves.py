import csv
import json

import pytest

from acer_tf.commands import learning_curves


def write_run(folder, seed, last):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"settings": {"env": "CartPole-v1", "seed": seed, "total_steps": 200}}))
    (folder / "progress.csv").write_text(
        f"steps,seconds,games,mean_return,interval_return\n100,1,4,1.0,1.0\n200,2,8,{last},{last}\n"
    )
    return folder


def test_the_table_the_figure_and_the_records_are_made(tmp_path, capsys):
    a, b, c = (write_run(tmp_path / name, seed, last) for name, seed, last in (("a", 0, 3), ("b", 1, 5), ("c", 0, 2)))
    output = tmp_path / "out"
    arguments = [f"--runs=ratio 4={a},{b}", f"--runs=ratio 0={c}", f"--output={output}", "--at_steps=100"]
    assert learning_curves.main(["learning_curves", *arguments]) == 0
    rows = list(csv.reader((output / "table.csv").open()))
    assert rows == [
        ["setting", "seed", "steps", "return at 100", "return, last 10 % of training"],
        ["ratio 4", "0", "200", "1.00", "3.00"],
        ["ratio 4", "1", "200", "1.00", "5.00"],
        ["ratio 4", "2 seeds, mean", "200", "1.00 ± 0.00", "4.00 ± 1.00"],
        ["ratio 4", "2 seeds, IQM", "200", "1.00 [1.00, 1.00]", "4.00 [3.00, 5.00]"],
        ["ratio 0", "0", "200", "1.00", "2.00"],
    ]
    assert "| ratio 4 | 2 seeds, mean |" in (output / "table.md").read_text()
    assert (output / "figure.png").exists() and (output / "figure.svg").exists()
    kept = output / "runs" / "ratio_4-seed1"
    assert (kept / "progress.csv").read_text() == (b / "progress.csv").read_text()
    assert json.loads((kept / "run.json").read_text())["settings"]["seed"] == 1


def test_means_are_of_equally_long_runs(tmp_path):
    a, b = (write_run(tmp_path / name, seed, 3) for seed, name in enumerate("ab"))
    (b / "progress.csv").write_text((b / "progress.csv").read_text() + "300,3,12,9,9\n")
    output = tmp_path / "out"
    assert learning_curves.main(["learning_curves", f"--runs=ours={a},{b}", f"--output={output}"]) == 0
    rows = [[row[1], row[2], row[-1]] for row in csv.reader((output / "table.csv").open())][1:]
    assert rows[:3] == [["0", "200", "3.00"], ["1", "300", "9.00"], ["2 seeds, mean", "200", "3.00 ± 0.00"]]


def test_a_record_gives_way_only_to_the_same_run_that_came_as_far(tmp_path, capsys):
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "out"
    arguments = ["learning_curves", f"--runs=ours={run}", f"--output={output}"]
    assert learning_curves.main(arguments) == 0
    kept = output / "runs" / "ours-seed0"
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    curve, record = (run / "progress.csv").read_text(), json.loads((run / "run.json").read_text())
    (run / "progress.csv").write_text("".join(curve.splitlines(keepends=True)[:-1]))
    assert learning_curves.main(arguments) == 2
    assert f"{kept} holds another run (200 steps there, 100 here)" in capsys.readouterr().err
    (run / "progress.csv").write_text(curve + "300,3,12,9,9\n")
    record["settings"]["learning_rate"] = 0.5
    (run / "run.json").write_text(json.dumps(record))
    assert learning_curves.main(arguments) == 2
    assert f"{kept} holds another run (learning_rate: 0.0007 there, 0.5 here)" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    del record["settings"]["learning_rate"]
    (run / "run.json").write_text(json.dumps(record))
    assert learning_curves.main(arguments) == 0
    assert (kept / "progress.csv").read_text().endswith("300,3,12,9,9\n")


@pytest.mark.parametrize("runs", ["no label", "label=", "label=nowhere"])
def test_bad_runs_are_named(tmp_path, capsys, runs):
    assert learning_curves.main(["learning_curves", f"--runs={runs}", f"--output={tmp_path / 'out'}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_runs_are_required():
    with pytest.raises(SystemExit) as ended:
        learning_curves.main(["learning_curves", "--output=out"])
    assert ended.value.code == 2
