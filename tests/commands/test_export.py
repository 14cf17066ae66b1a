import os
import shutil
import signal
import sys
import time

import pytest

import acer_tf.__main__
from acer_tf.commands import export
from acer_tf.policies.formats import FORMATS
from acer_tf.policies.policy import load_policy
from acer_tf.runs.signals import USUAL
from acer_tf.training import device
from acer_tf.training import export_run as export_module
from tests.core import first_in_core
from tests.policies.test_formats import metadata_of


def test_a_policy_of_the_newest_checkpoint_is_exported(trained_cartpole, tmp_path, capsys):
    assert export.main(["export", f"--run_dir={trained_cartpole}", f"--output={tmp_path / 'policy'}"]) == 0
    steps = load_policy(tmp_path / "policy").metadata["steps"]
    assert steps >= 200
    assert f"policy of step {steps}" in capsys.readouterr().out


def test_by_default_the_policy_is_the_runs(trained_cartpole, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(trained_cartpole, copy)
    shutil.rmtree(copy / "policy")
    assert export.main(["export", f"--run_dir={copy}"]) == 0
    assert load_policy(copy / "policy").metadata["steps"] >= 200


def test_it_leaves_a_gpu_to_the_run(tmp_path, monkeypatch, capsys):
    used = []
    monkeypatch.setattr(device, "use_device", used.append)
    assert export.main(["export", f"--run_dir={tmp_path}"]) == 2
    assert used == [device.CPU]


def test_what_holds_no_run_is_refused(tmp_path, capsys):
    assert export.main(["export", f"--run_dir={tmp_path}"]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--run_dir=nowhere"], ["--policy=nowhere", "--format=onnx", "--output=o"]])
def test_what_is_not_there_is_refused_without_loading_tensorflow(tmp_path, monkeypatch, capsys, flags):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "acer_tf.policies.policy", None)  # whose import would fail
    assert export.main(["export", *flags]) == 2
    assert capsys.readouterr().err.startswith(f"error: {flags[0]} ")


def test_another_folder_than_a_policy_is_not_replaced(trained_cartpole, tmp_path, capsys):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    assert export.main(["export", f"--run_dir={trained_cartpole}", f"--output={tmp_path / 'thesis'}"]) == 2
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


@pytest.mark.parametrize("name", first_in_core(FORMATS))
def test_the_policy_of_a_run_or_a_folder_is_written_in_another_format(trained_cartpole, tmp_path, capsys, name):
    for flag, source in (("run_dir", trained_cartpole), ("policy", trained_cartpole / "policy")):
        file = tmp_path / f"{flag}.{name}"
        given = ["export", f"--{flag}={source}", f"--format={name}", f"--output={file}"]
        assert export.main(given) == 0
        assert f"in {file}" in capsys.readouterr().out
        unlike = {"versions": None}  # those of what this process has imported
        assert metadata_of(file) | unlike == load_policy(trained_cartpole / "policy").metadata | unlike
        assert export.main(given) == 2
        assert capsys.readouterr().err.startswith(f"error: --output={file} exists: not replaced")
    assert len(os.listdir(tmp_path)) == 2


def test_what_is_no_policy_is_not_converted(tmp_path, capsys):
    given = ["export", f"--policy={tmp_path}", "--format=tflite", f"--output={tmp_path / 'policy.tflite'}"]
    assert export.main(given) == 2
    assert f"error: {tmp_path} is not a policy" in capsys.readouterr().err


def test_every_format_is_one_of_the_flag():
    assert export.FLAGS["format"].parser.enum_values == ["savedmodel", *FORMATS]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "--run_dir or --policy is required"),
        (["--output=o"], "--run_dir or --policy is required"),
        (["--run_dir=r", "--policy=p"], "--policy=p: has no effect with --run_dir=r"),
        (["--policy=p"], "--format=savedmodel: --policy=p is one already; must be onnx or tflite"),
        (["--policy=p", "--format=onnx"], "--output is required with --format=onnx"),
        (["--run_dir=r", "--format=tflite"], "--output is required with --format=tflite"),
        (["--policy=p", "--format=tf", "--output=o"], "--format=tf"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(tmp_path, monkeypatch, capsys, flags, complaint):
    monkeypatch.chdir(tmp_path)
    try:
        status = export.main(["export", *flags])
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr().err
    assert (status, said.count("\n")) == (2, 1)
    assert complaint in said
    assert os.listdir(tmp_path) == []


@pytest.fixture
def refused(capsys):
    """Runs the command, which must refuse its flags, and returns the line that it says."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            export.main(["export", *map(str, arguments)])
        assert ended.value.code == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1
        return said.err

    return run


@pytest.mark.parametrize("flag", ["run_dir", "policy", "output"])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "is empty: must name a file or folder"),
        ("a" * 300, "File name too long"),
        ("file/below", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("nul\0", "embedded null"),
    ],
)
def test_a_path_that_cannot_be_used_is_refused_by_its_flag(refused, tmp_path, monkeypatch, flag, path, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    given = {"run_dir": "run", "output": "policy"} | {flag: path}
    message = refused(*(f"--{name}={value}" for name, value in given.items()))
    assert message.startswith(f"error: --{flag}={path}") and reason in message
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


@pytest.mark.parametrize("number", USUAL)
def test_a_signal_removes_what_is_half_written_and_is_a_line_and_a_status(number, tmp_path, monkeypatch, capsys):
    partial = tmp_path / "partial"

    def interrupted(*_):
        try:
            partial.write_text("half")
            os.kill(os.getpid(), number)
            time.sleep(10)
        finally:
            partial.unlink()

    usual = USUAL[number]
    before = signal.signal(number, usual)
    try:
        monkeypatch.setattr(export_module, "export_run", interrupted)
        assert acer_tf.__main__.main(["acer_tf", "export", f"--run_dir={tmp_path}"]) == 128 + number
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    assert number.name in capsys.readouterr().err
    assert not partial.exists()
