import pytest

from acer_tf.commands import demo
from acer_tf.policies.policy import load_policy
from acer_tf.reproduction.evidence import Evidence, read_evidence, write_evidence


@pytest.mark.xla
@pytest.mark.training
def test_the_demo_run_small_makes_what_it_says(tmp_path, capsys):
    arguments = [f"--output={tmp_path}", "--minatar_steps=700", "--pong_steps=400", "--episodes=1"]
    assert demo.main(["demo", *arguments]) == 0
    said = capsys.readouterr().out
    for name in ("minatar_breakout", "pong"):
        assert (tmp_path / name / "figure.png").stat().st_size > 1000
        assert str(tmp_path / name / "figure.png") in said
        metadata = load_policy(tmp_path / name / "runs/acer-seed0/policy").metadata
        assert metadata["settings"]["total_steps"] == {"minatar_breakout": 700, "pong": 400}[name]
    assert said.count(" over 1 episodes.") == 2
    page = (tmp_path / "index.html").read_text()
    assert str(tmp_path / "index.html") in said
    assert page.count("1 of 1 cells finished") == 2
    assert 'href="pong/runs/acer-seed0/policy' in page
    assert read_evidence(tmp_path / "pong").command == f"python -m acer_tf demo {' '.join(arguments)}"
    # Started again, it keeps the runs.
    progress = tmp_path / "pong/runs/acer-seed0/progress.csv"
    records = progress.read_bytes()
    assert demo.main(["demo", *arguments]) == 0
    assert progress.read_bytes() == records
    # A shorter run is refused before the first one is looked at again.
    capsys.readouterr()
    assert demo.main(["demo", *arguments, "--pong_steps=300"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: --pong_steps=300: ") and "a run of 400 steps" in said.err and not said.out
    # A policy that cannot be read is a failure in a line.
    (tmp_path / "minatar_breakout/runs/acer-seed0/policy/metadata.json").write_text("{}")
    capsys.readouterr()
    assert demo.main(["demo", *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and "metadata.json" in err and "Traceback" not in err


def test_evidence_that_another_command_made_is_not_replaced(tmp_path, capsys):
    write_evidence(tmp_path / "pong", Evidence("curves", "", (), "python -m acer_tf curves --output=demo"))
    before = (tmp_path / "pong" / "experiment.json").read_bytes()
    assert demo.main(["demo", f"--output={tmp_path}"]) == 2
    assert capsys.readouterr().err.startswith(f"error: --output={tmp_path}/pong holds the evidence of curves")
    assert [path.name for path in tmp_path.iterdir()] == ["pong"]
    assert (tmp_path / "pong" / "experiment.json").read_bytes() == before


@pytest.mark.parametrize(
    "flag", [f"--minatar_steps={10**12 + 1}", f"--pong_steps={10**12 + 1}", "--episodes=1000001", "--episodes=0"]
)
def test_numbers_that_a_run_or_an_evaluation_refuses_are_refused_before_anything_begins(flag, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        demo.main(["demo", f"--output={tmp_path / 'demo'}", flag])
    assert ended.value.code == 2 and flag.partition("=")[2] in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
