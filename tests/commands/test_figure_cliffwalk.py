import csv
import errno
import json
import os
import tempfile
import threading
import time

import pytest

from acer_tf.figures import figure_cliffwalk
from acer_tf.reproduction import cliffwalk
from acer_tf.reproduction.evidence import Evidence, write_evidence
from tests.training.scripted import tree


@pytest.mark.slow
def test_a_small_figure_from_end_to_end_and_again_from_its_table(tmp_path, capsys):
    output = tmp_path / "out"
    arguments = ["figure_cliffwalk", "--sizes=3,2", "--runs=2", "--seed=5", "--limit=60", f"--output={output}"]
    assert figure_cliffwalk.main(arguments) == 0
    rows = list(csv.DictReader((output / "results.csv").open()))
    assert len(rows) == 2 * 2 * 6 * 2  # sizes, representations, replays, runs
    assert {row["transitions"] for row in rows} == {"6", "14"}
    assert {row["converged"] for row in rows} == {"0", "1"}  # within so few updates
    document = json.loads((output / "run.json").read_text())
    assert document["settings"] == {"sizes": [2, 3], "runs": 2, "seed": 5, "limit": 60}
    assert "commit" in document and "command" in document
    table = (output / "table.md").read_text()
    assert "| linear | 3 | 14 |" in table and ">60" in table
    assert "not converged" in capsys.readouterr().out
    evidence = (output / "experiment.json").read_bytes()
    for name in ("table.md", "figure.png", "figure.svg"):
        (output / name).unlink()
    assert figure_cliffwalk.main(["figure_cliffwalk", "--report_only", f"--output={output}"]) == 0
    assert figure_cliffwalk.main(["figure_cliffwalk", "--report_only", "--runs=7", f"--output={output}"]) == 2
    assert "holds results of other settings" in capsys.readouterr().err
    assert (output / "table.md").read_text() == table
    assert (output / "figure.png").stat().st_size and (output / "figure.svg").stat().st_size
    assert json.loads((output / "run.json").read_text()) == document
    assert (output / "experiment.json").read_bytes() == evidence


@pytest.mark.slow
def test_another_seed_gives_other_runs(tmp_path):
    found = []
    for seed in (0, 5, 5):
        output = tmp_path / f"{seed}-{len(found)}"
        arguments = ["--sizes=4", "--runs=2", f"--seed={seed}", "--limit=2000", f"--output={output}"]
        assert figure_cliffwalk.main(["figure_cliffwalk", *arguments]) == 0
        found.append((output / "results.csv").read_text())
    assert found[0] != found[1] == found[2]


@pytest.mark.slow
def test_an_interrupted_figure_goes_on_and_comes_out_the_same(tmp_path, capsys, monkeypatch):
    arguments = ["figure_cliffwalk", "--sizes=2,3", "--runs=2", "--limit=60"]
    whole, output = tmp_path / "whole", tmp_path / "out"
    assert figure_cliffwalk.main([*arguments, f"--output={whole}"]) == 0
    done, original = [], figure_cliffwalk._runs

    def interrupted(*point):
        done.append(point)
        if len(done) == 4:
            raise KeyboardInterrupt
        return original(*point)

    monkeypatch.setattr(figure_cliffwalk, "_runs", interrupted)
    assert figure_cliffwalk.main([*arguments, f"--output={output}"]) == 130
    assert len(list(csv.DictReader((output / "results.csv").open()))) == 3 * 2
    assert figure_cliffwalk.main([*arguments, "--runs=3", f"--output={output}"]) == 2
    assert "holds results of other settings" in capsys.readouterr().err
    assert figure_cliffwalk.main([*arguments, f"--output={output}"]) == 0
    assert len(done) == 2 * 2 * 6 + 1 and done[3] == done[4]
    assert (output / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
    # Killed after the last point, before the report.
    (output / "table.md").unlink()
    (tmp_path / "index.html").unlink()
    assert figure_cliffwalk.main([*arguments, f"--output={output}"]) == 0
    assert len(done) == 2 * 2 * 6 + 1
    assert (output / "table.md").read_text() == (whole / "table.md").read_text()
    assert (tmp_path / "index.html").exists()


@pytest.mark.slow
def test_a_second_call_waits_for_the_first_and_a_report_does_not(tmp_path, capsys, monkeypatch):
    arguments = ["figure_cliffwalk", "--sizes=2", "--runs=2", "--limit=60", f"--output={tmp_path / 'out'}"]
    done, ended, original = [], [], figure_cliffwalk._runs
    second = threading.Thread(target=lambda: ended.append(figure_cliffwalk.main(arguments)))

    def runs(*point):
        done.append(point)
        if len(done) == 2:
            assert figure_cliffwalk.main([*arguments, "--report_only"]) == 0
            second.start()
            while second.is_alive() and "waiting for another process" not in capsys.readouterr().err:
                time.sleep(0.01)
        return original(*point)

    monkeypatch.setattr(figure_cliffwalk, "_runs", runs)
    assert figure_cliffwalk.main(arguments) == 0
    second.join()
    assert ended == [0]
    assert len(done) == len(set(done)) == 2 * 6


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_point(tmp_path, capsys, monkeypatch):
    def refuse(**_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(figure_cliffwalk, "_runs", lambda *_: pytest.fail("it began"))
    assert figure_cliffwalk.main(["figure_cliffwalk", "--sizes=2", f"--output={tmp_path / 'out'}"]) == 2
    assert f"--output={tmp_path / 'out'} is not writable (Read-only file system)" in capsys.readouterr().err


def test_what_cannot_be_written_is_one_line(tmp_path, capsys, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results.csv")

    monkeypatch.setattr(figure_cliffwalk.cliffwalk, "write_results", refuse)
    assert figure_cliffwalk.main(["figure_cliffwalk", "--sizes=2", "--runs=1", f"--output={tmp_path / 'out'}"]) == 1
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device: 'results.csv'\n"


def test_the_evidence_of_another_experiment_is_left_alone(tmp_path, capsys):
    write_evidence(tmp_path, Evidence("figure1_minatar", "Title", (), "command"))
    before = (tmp_path / "experiment.json").read_bytes()
    for flag in ("--sizes=2", "--report_only"):
        assert figure_cliffwalk.main(["figure_cliffwalk", flag, f"--output={tmp_path}"]) == 2
        assert "holds the evidence of figure1_minatar" in capsys.readouterr().err
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("experiment.json", before)]


@pytest.mark.parametrize("sizes", ["1", "2,21", "two", "2,,3", "", "-3"])
def test_bad_sizes_are_named(tmp_path, capsys, sizes):
    arguments = ["figure_cliffwalk", f"--sizes={sizes}", f"--output={tmp_path / 'out'}"]
    assert figure_cliffwalk.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--sizes=" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--runs=0", "--seed=-1", "--limit=0", "--runs=many", "--size=3"])
def test_bad_flags_are_named(tmp_path, capsys, flag):
    with pytest.raises(SystemExit) as ended:
        figure_cliffwalk.main(["figure_cliffwalk", flag, f"--output={tmp_path / 'out'}"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_report_needs_a_table_and_an_output_a_folder(tmp_path, capsys):
    for there in ("nowhere", "empty", "head"):
        folder = tmp_path / "results" / there
        if there != "nowhere":
            folder.mkdir(parents=True)
        if there == "head":
            cliffwalk.write_results([], folder / "results.csv")
        before = tree(tmp_path)
        assert figure_cliffwalk.main(["figure_cliffwalk", "--report_only", f"--output={folder}"]) == 2
        err = capsys.readouterr().err
        assert f"--report_only: --output={folder} has no results" in err and err.count("\n") == 1
        assert tree(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="2"):
        figure_cliffwalk.main(["figure_cliffwalk", "--sizes=2", f"--output={tmp_path / 'file' / 'out'}"])
    assert "cannot be used: Not a directory" in capsys.readouterr().err


def test_help_says_what_it_reproduces_and_costs(capsys):
    with pytest.raises(SystemExit) as ended:
        figure_cliffwalk.main(["figure_cliffwalk", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "Schaul" in text and "34 minutes" in text and "report_only" in text
