import json
import subprocess

import pytest
from absl.testing import flagsaver

from acer_tf.__main__ import main as acer_tf
from benchmarks import __main__ as benchmark
from benchmarks.timing import Measurement


@pytest.fixture(autouse=True)
def _flags_as_they_were():
    saved = flagsaver.save_flag_values(benchmark.FLAGS)
    yield
    flagsaver.restore_flag_values(saved, benchmark.FLAGS)


def main(tmp_path, *flags):
    return benchmark.main(["benchmark", f"--output={tmp_path}/out", f"--scratch={tmp_path}/scratch", *flags])


def test_the_groups_asked_for_are_measured_and_written_down(tmp_path, monkeypatch, capsys):
    asked = []

    def measure(name):
        asked.append(name)
        return {"measurements": {"memory copy": Measurement("GB/s", (12.0, 13.0, 11.0)).document()}, "facts": {}}

    monkeypatch.setattr(benchmark, "_measure", measure)
    assert main(tmp_path, "--only=machine", f"--json={tmp_path}/here/x.json") == 0
    assert asked == ["machine"]
    document = json.loads((tmp_path / "here" / "x.json").read_text())
    assert document["groups"]["machine"]["measurements"]["memory copy"]["values"] == [12.0, 13.0, 11.0]
    assert {"commit", "machine", "versions"} <= set(document)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["benchmark.md"], "this group has no panel in the figure"
    line = "| machine | memory copy | 12 | 11 to 13 | GB/s |"
    assert line in (tmp_path / "out" / "benchmark.md").read_text()
    assert line in capsys.readouterr().out


@pytest.mark.process
def test_a_group_is_measured_for_real_in_a_process_of_its_own(tmp_path, capfd):
    assert main(tmp_path, "--only=machine", "--repetitions=1", "--device=cpu") == 0
    document = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert document["groups"]["machine"]["device"] == "cpu"
    assert "Computed on cpu.\n" in (tmp_path / "out" / "benchmark.md").read_text()
    measured = document["groups"]["machine"]["measurements"]
    assert set(measured) == {"matrix product, float32", "matrix product, bfloat16", "memory copy"}
    assert all(m["median"] > 0 for m in measured.values())
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_group_that_fails_ends_with_status_1_and_writes_nothing(tmp_path, monkeypatch, capsys):
    def measure(name):
        raise subprocess.CalledProcessError(-9, "group")

    monkeypatch.setattr(benchmark, "_measure", measure)
    assert main(tmp_path, "--only=machine") == 1
    assert capsys.readouterr().err == "error: group machine ended with status -9\n"
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("flags", [["--only=speed"], ["--repetitions=0"], ["machine"]])
def test_bad_flags_end_with_status_2(tmp_path, flags, capsys):
    with pytest.raises(SystemExit) as stop:
        main(tmp_path, *flags)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_cannot_be_is_refused_first(tmp_path, capsys):
    (tmp_path / "out").write_text("a file")
    assert main(tmp_path) == 2
    assert f"error: --output={tmp_path}/out is not writable" in capsys.readouterr().err


def test_a_device_that_is_not_there_is_refused_first(tmp_path, capsys):
    assert main(tmp_path, "--only=machine", "--device=tpu") == 2
    assert capsys.readouterr().err == "error: --device=tpu: must be auto, cpu or gpu:N\n"


@pytest.mark.parametrize("flag", ["--device=cpu", "--only=machine"])
def test_a_comparison_takes_no_device_and_no_groups(tmp_path, flag, capsys):
    assert main(tmp_path, f"--against={tmp_path}", flag) == 2
    assert f"{flag}: has no effect with --against" in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_refused_before_anything_is_written(tmp_path, capsys):
    assert main(tmp_path, f"--against={tmp_path}") == 2
    assert f"--against={tmp_path}: must be the folder of a checkout" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["scratch", "output", "json"])
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, flag, capsys):
    # Linux allows no files there, not even to root.
    assert main(tmp_path, "--only=machine", f"--{flag}=/proc" + ("/x.json" if flag == "json" else "")) == 2
    assert capsys.readouterr().err.startswith(f"error: --{flag}=/proc is not writable (")


def test_measurements_of_other_groups_are_not_lost(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "_measure", lambda name: {"measurements": {}, "facts": {}})
    path = tmp_path / "out" / "benchmark.json"
    path.parent.mkdir()
    path.write_text('{"groups": {"machine": {}, "replay": {}}}')
    assert main(tmp_path, "--only=machine") == 2
    assert "benchmark.json has measurements of replay too: give another --output" in capsys.readouterr().err
    assert json.loads(path.read_text())["groups"] == {"machine": {}, "replay": {}}
    path.write_text('{"groups": {"machine": {}}}')
    assert main(tmp_path, "--only=machine") == 0
    assert "commit" in json.loads(path.read_text())


@pytest.mark.parametrize("text", ["[]", "{}", "groups"])
def test_a_file_that_is_no_benchmarks_is_not_replaced(tmp_path, text, capsys):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert main(tmp_path, f"--json={path}") == 2
    assert "x.json has no measurements" in capsys.readouterr().err
    assert path.read_text() == text


@pytest.mark.parametrize(("flags", "folder"), [([], "runs/benchmark"), (["--only=machine"], "runs/benchmark/machine")])
def test_some_groups_have_a_folder_of_their_own(tmp_path, monkeypatch, flags, folder, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("a file")
    assert benchmark.main(["benchmark", *flags]) == 2
    assert f"error: --output={folder} is not writable" in capsys.readouterr().err


def test_in_a_checkout_the_package_has_it_as_a_command(capsys):
    with pytest.raises(SystemExit) as stop:
        acer_tf(["acer_tf", "benchmark", "--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith(benchmark.__doc__)
    assert acer_tf(["acer_tf"]) == 0
    assert "\n  benchmark  " in capsys.readouterr().out
