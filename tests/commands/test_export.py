import os

import pytest

import acer_tf.__main__
from acer_tf.commands import export
from acer_tf.policy import load_policy
from acer_tf.settings import make_settings
from acer_tf.training import run as training_run
from acer_tf.training.run import train


def test_a_policy_of_the_newest_checkpoint_is_exported(tmp_path, capsys):
    settings = make_settings({"env": "CartPole-v1", "total_steps": 200, "num_envs": 2, "replay_ratio": 0.0})
    train(settings, tmp_path / "run", quiet=True)
    assert export.main(["export", f"--run_dir={tmp_path / 'run'}", f"--output={tmp_path / 'policy'}"]) == 0
    steps = load_policy(tmp_path / "policy").metadata["steps"]
    assert steps >= 200
    assert f"policy of step {steps}" in capsys.readouterr().out


def test_what_holds_no_run_is_refused(tmp_path, capsys):
    assert export.main(["export", f"--run_dir={tmp_path / 'nowhere'}"]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_another_folder_than_a_policy_is_not_replaced(tmp_path, capsys):
    settings = make_settings({"env": "CartPole-v1", "total_steps": 20, "num_envs": 2, "replay_ratio": 0.0})
    train(settings, tmp_path / "run", quiet=True)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    assert export.main(["export", f"--run_dir={tmp_path / 'run'}", f"--output={tmp_path / 'thesis'}"]) == 2
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


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


@pytest.mark.parametrize("flag", ["run_dir", "output"])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "is empty: must name a file or folder"),
        ("a" * 300, "File name too long"),
        ("file/below", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("nul\0", "embedded null byte"),
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


def test_an_interruption_is_a_line_and_status_130(tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(training_run, "export_run", interrupt)
    assert acer_tf.__main__.main(["acer_tf", "export", f"--run_dir={tmp_path}"]) == 130
    assert capsys.readouterr().err == "stopped by SIGINT\n"
