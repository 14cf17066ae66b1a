from acer_tf.commands import export
from acer_tf.policy import load_policy
from acer_tf.settings import make_settings
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
