import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.peers import PeerError, Row

GOOD = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float)
parser.add_argument("--seed", type=int)
parser.add_argument("--speed", type=float, default=100.0)
a = parser.parse_args()
print("a banner")
print(json.dumps({"steps_per_second": a.speed + a.seed, "versions": {"fake": "1.0"}, "settings": f"{a.seconds:g} s"}))
"""
BAD = """
import sys
print("began")
sys.exit("Traceback\\n  somewhere\\nImportError: no module | named fake\\n")
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    monkeypatch.setattr(peers, "PROGRAMS", folder)
    return folder


@pytest.fixture
def rows(programs, monkeypatch):
    """Ours, a faster peer, and one that fails; none of them needs an environment."""
    rows = (
        Row("acer_tf", "ours", "good.py"),
        Row("sb3", "faster", "good.py", ("--speed=150",)),
        Row("pfrl", "broken", "bad.py"),
    )
    monkeypatch.setattr(peers, "ROWS", rows)
    monkeypatch.setattr(peers, "REQUIREMENTS", dict.fromkeys(peers.REQUIREMENTS, ()))
    return rows


def main(tmp_path, *flags):
    return peers.main(["peers", f"--output={tmp_path}/out", f"--environments={tmp_path}/environments", *flags])


@pytest.mark.parametrize("flag", ["--repetitions=0", "--seconds=0", "--only=nobody", "--speed=1", "pfrl"])
def test_a_bad_flag_is_one_line_and_status_2(tmp_path, capsys, flag):
    with pytest.raises(SystemExit) as ended:
        main(tmp_path, flag)
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_made_is_status_2(tmp_path, capsys):
    (tmp_path / "out").write_text("")
    assert main(tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.process
def test_the_programs_run_in_turn_and_a_failure_is_reported_and_passed_over(tmp_path, rows, capsys):
    assert main(tmp_path, "--repetitions=3", "--seconds=2") == 0
    progress = [line for line in capsys.readouterr().out.splitlines() if re.match(r"\d/3", line)]
    assert [line.split("  ")[1] for line in progress] == [
        "ours: 100.0 steps/s",
        "faster: 150.0 steps/s",
        "broken does not run: ImportError: no module | named fake",
        "ours: 101.0 steps/s",
        "faster: 151.0 steps/s",
        "ours: 102.0 steps/s",
        "faster: 152.0 steps/s",
    ]
    document = json.loads((tmp_path / "out" / "peers.json").read_text())
    assert document["settings"] == {"env": "atari/Pong", "repetitions": 3, "seconds": 2.0}
    assert {"commit", "machine", "versions", "requirements"} <= set(document)
    ours, faster, broken = document["rows"]
    assert [run["steps_per_second"] for run in ours["runs"]] == [100.0, 101.0, 102.0]
    assert faster["error"] is None
    assert (broken["runs"], broken["error"]) == ([], "does not run: ImportError: no module | named fake")
    head, _, *lines, blank, caption = (tmp_path / "out" / "peers.md").read_text().splitlines()
    assert head == "| what | versions | settings | steps/s, median | min – max | ratio to ours |"
    assert lines == [
        "| ours | fake 1.0 | 2 s | 101.0 | 100.0 – 102.0 | 1.00 |",
        "| faster | fake 1.0 | 2 s | 151.0 | 150.0 – 152.0 | 1.50 |",
        "| broken |  | does not run: ImportError: no module \\| named fake | – |  |  |",
    ]
    assert blank == ""
    assert "3 interleaved runs of 2 s" in caption


@pytest.mark.process
def test_only_the_named_peers_run(tmp_path, rows):
    assert main(tmp_path, "--only=sb3", "--repetitions=1") == 0
    (row,) = json.loads((tmp_path / "out" / "peers.json").read_text())["rows"]
    assert row["what"] == "faster"
    assert "| 150.0 | 150.0 – 150.0 |  |" in (tmp_path / "out" / "peers.md").read_text()


@pytest.mark.process
def test_measurements_of_other_peers_are_not_lost(tmp_path, rows, capsys):
    assert main(tmp_path, "--repetitions=1") == 0
    before = (tmp_path / "out" / "peers.json").read_bytes()
    assert main(tmp_path, "--only=sb3", "--repetitions=1") == 2
    assert "peers.json has measurements of acer_tf too: give another --output" in capsys.readouterr().err
    (tmp_path / "out" / "peers.json").write_text("{}")
    assert main(tmp_path, "--repetitions=1") == 2
    (tmp_path / "out" / "peers.json").write_bytes(before)
    assert main(tmp_path, "--repetitions=1") == 0  # all of it again


def test_a_folder_of_something_else_is_not_replaced_by_an_environment(tmp_path, rows, capsys):
    notes = tmp_path / "environments" / "sb3" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    assert main(tmp_path, "--repetitions=1") == 2
    assert f"--environments={tmp_path}/environments: its sb3 is no virtual environment" in capsys.readouterr().err
    assert notes.read_text() == "mine"


@pytest.mark.process
def test_without_ours_there_is_no_comparison(tmp_path, rows, programs, capsys):
    (programs / "good.py").write_text(BAD)
    assert main(tmp_path, "--repetitions=1") == 1
    assert capsys.readouterr().err == ("error: nothing to compare: does not run: ImportError: no module | named fake\n")
    assert (tmp_path / "out" / "peers.md").exists()


@pytest.mark.process
def test_a_peer_that_does_not_install_is_reported_and_passed_over(tmp_path, rows, monkeypatch, capsys):
    def interpreter(requirements, environment):
        if environment.name == "sb3":
            raise PeerError("No matching distribution")
        return Path(sys.executable)

    monkeypatch.setattr(peers, "interpreter", interpreter)
    assert main(tmp_path, "--repetitions=1") == 1  # the third does not run, so nothing is left to compare with
    assert "error: nothing to compare: does not install" in capsys.readouterr().err
    ours, faster, _ = json.loads((tmp_path / "out" / "peers.json").read_text())["rows"]
    assert len(ours["runs"]) == 1
    assert (faster["runs"], faster["error"]) == ([], "does not install: No matching distribution")


def test_an_environment_is_made_once_and_again_for_other_requirements(tmp_path, monkeypatch):
    commands = []

    def run(command, folder, timeout):
        commands.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()
        return ""

    monkeypatch.setattr(peers, "run", run)
    environment = tmp_path / "peer"
    python = peers.interpreter(("a==1", "b==2"), environment)
    assert python == environment / "bin" / "python"
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]
    assert commands[1][-2:] == ["a==1", "b==2"]
    assert peers.interpreter(("a==1", "b==2"), environment) == python
    assert len(commands) == 2
    (environment / "left").touch()
    peers.interpreter(("a==1", "b==3"), environment)
    assert len(commands) == 4
    assert not (environment / "left").exists()


def test_an_environment_whose_installation_failed_is_made_anew(tmp_path, monkeypatch):
    def run(command, folder, timeout):
        if "pip" in command:
            raise PeerError("No space left on device")
        Path(command[-1]).mkdir()
        return ""

    monkeypatch.setattr(peers, "run", run)
    for _ in range(2):
        with pytest.raises(PeerError, match="No space left"):
            peers.interpreter(("a==1",), tmp_path / "peer")


def test_ours_needs_no_environment(tmp_path):
    assert peers.interpreter((), tmp_path / "acer_tf") == Path(sys.executable)
    assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path):
    child = "import time; time.sleep(60)"
    (tmp_path / "program.py").write_text(
        "import pathlib, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"pathlib.Path('pid').write_text(str(child.pid))\n{child}\n"
    )
    began = time.monotonic()
    with pytest.raises(PeerError, match="not done after 2 s"):
        peers.run([sys.executable, "program.py"], tmp_path, 2.0)
    status = Path("/proc") / (tmp_path / "pid").read_text() / "status"
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() - began < 30
        time.sleep(0.05)


@pytest.mark.parametrize("out", ["", "no JSON", "{}", '{"steps_per_second": null}', "[1]"])
def test_an_answer_that_is_none_is_a_failure(out):
    with pytest.raises(PeerError, match="printed no result"):
        peers.answer(out)


def test_every_program_is_there_and_says_what_flags_it_takes():
    for row in peers.ROWS:
        source = (peers.PROGRAMS / row.program).read_text()
        own = () if row.peer == peers.OURS else row.flags  # ours are the training command's
        for flag in (*own, "--seconds=", "--seed="):
            assert f'add_argument("{flag.partition("=")[0]}"' in source, (row, flag)
    assert {row.peer for row in peers.ROWS} == set(peers.REQUIREMENTS)


@pytest.mark.process
def test_ours_refuses_what_the_training_script_refuses():
    command = [sys.executable, str(peers.PROGRAMS / "acer_tf_train.py"), "--precision=float7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
