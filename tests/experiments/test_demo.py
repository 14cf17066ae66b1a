from acer_tf.training.export import load_policy
from experiments import demo


def test_the_demo_run_small_makes_what_it_says(tmp_path, capsys):
    arguments = [f"--output={tmp_path}", "--minatar_steps=700", "--pong_steps=400", "--episodes=1"]
    assert demo.main(["demo", *arguments]) == 0
    said = capsys.readouterr().out
    for name in ("minatar_breakout", "pong"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        assert str(tmp_path / f"{name}.png") in said
        assert load_policy(tmp_path / name / "policy").metadata["steps"] >= 400
    # Started again, it keeps the runs.
    records = (tmp_path / "pong/progress.csv").read_bytes()
    assert demo.main(["demo", *arguments]) == 0
    assert (tmp_path / "pong/progress.csv").read_bytes() == records
