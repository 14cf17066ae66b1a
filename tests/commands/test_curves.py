import csv
import json

import pytest

from acer_tf.commands import curves
from acer_tf.reproduction.evidence import Evidence, read_evidence, write_evidence
from acer_tf.reproduction.report.page import write_page


def write_run(folder, seed, last, env="CartPole-v1", **settings):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(
        json.dumps({"format": 1, "settings": {"env": env, "seed": seed, "total_steps": 200, **settings}})
    )
    (folder / "progress.csv").write_text(
        f"steps,seconds,episodes,mean_return,interval_return\n100,1800,4,1.0,1.0\n200,3600,8,{last},{last}\n"
    )
    return folder


def test_the_table_the_figure_and_the_records_are_made(tmp_path, capsys):
    a, b, c = (write_run(tmp_path / name, seed, last) for name, seed, last in (("a", 0, 3), ("b", 1, 5), ("c", 0, 2)))
    output = tmp_path / "out"
    arguments = [f"--runs=ratio 4={a},{b}", f"--runs=ratio 0={c}", f"--output={output}", "--at_steps=100"]
    assert curves.main(["curves", *arguments]) == 0
    rows = list(csv.reader((output / "table.csv").open()))
    assert rows == [
        ["environment", "setting", "seed", "steps", "hours", "return at 100", "return at the end"],
        ["CartPole-v1", "ratio 4", "0", "200", "1.00", "1.00", "3.00"],
        ["CartPole-v1", "ratio 4", "1", "200", "1.00", "1.00", "5.00"],
        ["CartPole-v1", "ratio 4", "2 seeds, mean", "200", "1.00", "1.00 ± 0.00", "4.00 ± 1.00"],
        ["CartPole-v1", "ratio 4", "2 seeds, IQM [range]", "200", "1.00", "1.00 [1.00, 1.00]", "4.00 [3.00, 5.00]"],
        ["CartPole-v1", "ratio 0", "0", "200", "1.00", "1.00", "2.00"],
    ]
    assert "| CartPole-v1 | ratio 4 | 2 seeds, mean |" in (output / "table.md").read_text()
    assert (output / "figure.png").exists() and (output / "figure.svg").exists()
    kept = output / "runs" / "ratio_4-seed1"
    assert (kept / "progress.csv").read_text() == (b / "progress.csv").read_text()
    assert json.loads((kept / "run.json").read_text())["settings"]["seed"] == 1


def test_means_are_of_equally_long_runs(tmp_path):
    a, b = (write_run(tmp_path / name, seed, 3) for seed, name in enumerate("ab"))
    (b / "progress.csv").write_text((b / "progress.csv").read_text() + "300,5400,12,9,9\n")
    output = tmp_path / "out"
    assert curves.main(["curves", f"--runs=ours={a},{b}", f"--output={output}"]) == 0
    rows = [[*row[2:5], row[-1]] for row in csv.reader((output / "table.csv").open())][1:]
    assert rows[:3] == [
        ["0", "200", "1.00", "3.00"],
        ["1", "300", "1.50", "9.00"],
        ["2 seeds, mean", "200", "1.00", "3.00 ± 0.00"],
    ]


def test_settings_that_differ_between_the_runs_of_a_label_are_named_and_agents_refused(tmp_path, capsys):
    rates = {"a": 0.1, "b": 0.2}
    a, b = (write_run(tmp_path / name, seed, 3, gamma=rates[name]) for seed, name in enumerate("ab"))
    c = write_run(tmp_path / "c", 2, 3, agent="dqn")
    assert curves.main(["curves", f"--runs=ours={a},{b}", f"--output={tmp_path / 'out'}"]) == 0
    assert read_evidence(tmp_path / "out").text == ("The runs of ours differ in gamma.",)
    assert curves.main(["curves", f"--runs=ours={a},{c}", f"--output={tmp_path / 'other'}"]) == 2
    assert "--runs=ours=...: its runs are of acer and dqn" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_published_curve_has_a_row_at_the_given_steps(tmp_path):
    a = write_run(tmp_path / "a", 0, 3, "atari/Pong")
    steps = ["--at_steps=100", "--at_steps=3030210"]
    assert curves.main(["curves", f"--runs=ours={a}", f"--output={tmp_path / 'out'}", *steps]) == 0
    *_, published, older = csv.reader((tmp_path / "out" / "table.csv").open())
    label = "OpenAI baselines' ACER, published (6 runs, code 7bfbcf1)"
    assert published == ["atari/Pong", label, "published", "9,999,693", "", "-20.26", "2.13", "19.51"]
    assert older[1] == label.replace("7bfbcf1", "ea68f3b")
    assert curves.main(["curves", f"--runs=ours={a}", f"--output={tmp_path / 'alone'}", "--nopublished"]) == 0
    rows = list(csv.reader((tmp_path / "alone" / "table.csv").open()))
    assert [row[1] for row in rows[1:]] == ["ours"]
    caption = json.loads((tmp_path / "alone" / "experiment.json").read_text())["figures"]["figure"]
    assert "published" not in caption
    # In the table and among the curves of the first alone.
    assert write_page(tmp_path).read_text().count("published (6 runs, code 7bfbcf1)") == 2


def test_runs_in_several_environments_have_a_panel_and_rows_each(tmp_path):
    """A label may then name runs of one seed; each is kept in a folder of its own, and hours are drawn if asked for."""
    envs = ("CartPole-v1", "Acrobot-v1")
    a, b = (write_run(tmp_path / env, 0, last, env) for env, last in zip(envs, (3, 5), strict=True))
    output = tmp_path / "out"
    assert curves.main(["curves", f"--runs=ours={a},{b}", f"--output={output}", "--hours"]) == 0
    rows = list(csv.reader((output / "table.csv").open()))[1:]
    assert [[row[0], row[-1]] for row in rows] == [["CartPole-v1", "3.00"], ["Acrobot-v1", "5.00"]]
    for env, run in zip(envs, (a, b), strict=True):
        kept = output / "runs" / f"ours_{env.lower().replace('-', '_')}-seed0"
        assert (kept / "progress.csv").read_bytes() == (run / "progress.csv").read_bytes()
    for name, axis in (("figure", "environment steps (agent decisions)"), ("hours", "hours")):
        assert (output / f"{name}.png").exists()
        drawn = (output / f"{name}.svg").read_text()
        assert drawn.count(f">{axis}<") == 2 and all(f">{env}<" in drawn for env in envs)
    assert list(read_evidence(output).figures) == ["figure", "hours"]
    assert curves.main(["curves", f"--runs=ours={a},{b}", f"--output={output}", "--hours", "--title=Two"]) == 0
    assert all((output / f"{name}.svg").read_text().count(">Two<") == 1 for name in ("figure", "hours"))
    (output / "mine.png").touch()
    assert curves.main(["curves", f"--runs=ours={a},{b}", f"--output={output}"]) == 0
    assert {path.name for path in output.glob("*.[ps][nv]g")} == {"figure.png", "figure.svg", "mine.png"}


def test_hours_are_refused_where_no_log_has_them(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("steps,return\n100,1\n")
    flags = [f"--runs=ours={tmp_path / 'log.csv'}", "--columns=steps:return", "--env=CartPole-v1", "--hours"]
    assert curves.main(["curves", *flags, f"--output={tmp_path / 'out'}"]) == 2
    assert capsys.readouterr().err.startswith("error: --hours: no log of these --runs says how long it took")
    assert curves.main(["curves", *flags[:-1], "--tag=other", f"--output={tmp_path / 'out'}"]) == 2
    assert capsys.readouterr().err.startswith("error: --tag=other: has no effect on these --runs")
    assert not (tmp_path / "out").exists()


def test_a_log_gives_way_only_to_itself_continued(tmp_path, capsys):
    first, second = (tmp_path / name for name in ("a.csv", "b.csv"))
    first.write_text("steps,return\n100,1\n")
    second.write_text("steps,return\n100,2\n200,3\n")
    flags = ["--columns=steps:return", "--env=CartPole-v1", f"--output={tmp_path / 'out'}"]
    assert curves.main(["curves", f"--runs=x={first}", *flags]) == 0
    assert curves.main(["curves", f"--runs=x={second}", *flags]) == 2
    assert "holds another run (other rows) than --runs=x=...:" in capsys.readouterr().err
    first.write_text("steps,return\n100,1\n200,5\n")
    assert curves.main(["curves", f"--runs=x={first}", *flags]) == 0


def test_one_log_is_not_two_seeds(tmp_path, capsys):
    log, copy = (tmp_path / name for name in ("a.csv", "copy.csv"))
    for path in (log, copy):
        path.write_text("steps,return\n100,1\n")
    flags = ["--columns=steps:return", "--env=CartPole-v1", f"--output={tmp_path / 'out'}"]
    for twice in (log, copy):
        assert curves.main(["curves", f"--runs=x={log},{twice}", *flags]) == 2
        assert f"--runs=x=...: {log} and {twice} have the same rows" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_log_is_said_to_have_none(tmp_path, capsys):
    (tmp_path / "nolog").mkdir()
    for flags in ([], ["--env=CartPole-v1"]):
        assert curves.main(["curves", f"--runs=x={tmp_path / 'nolog'}", f"--output={tmp_path / 'out'}", *flags]) == 2
        assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'nolog'} holds no log: ")


def test_a_step_beyond_the_runs_leaves_its_own_column_empty(tmp_path):
    runs = [write_run(tmp_path / f"run{seed}", seed, 3 + seed) for seed in range(2)]
    flags = ["--at_steps=100", "--at_steps=100_000", f"--output={tmp_path / 'out'}"]
    assert curves.main(["curves", f"--runs=x={runs[0]},{runs[1]}", *flags]) == 0
    with (tmp_path / "out" / "table.csv").open() as file:
        (middles,) = (row for row in csv.DictReader(file) if "IQM" in row["seed"])
    assert middles["return at 100"] and middles["return at the end"] and not middles["return at 100,000"]


def test_nothing_is_copied_if_a_later_record_cannot_be_read(tmp_path, capsys):
    first, second = (write_run(tmp_path / f"run{seed}", seed, 3) for seed in (0, 1))
    record = json.loads((second / "run.json").read_text())
    record["settings"]["total_steps"] = "many"
    (second / "run.json").write_text(json.dumps(record))
    assert curves.main(["curves", f"--runs=ours={first},{second}", f"--output={tmp_path / 'out'}"]) == 2
    assert str(second) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_that_continues_with_another_evaluation_is_the_same_run(tmp_path):
    evaluated = {"evaluate_every": 100, "evaluate_episodes": 30}
    run = write_run(tmp_path / "run", 0, 3, **evaluated)
    arguments = ["curves", f"--runs=ours={run}", f"--output={tmp_path / 'out'}"]
    assert curves.main(arguments) == 0
    record = json.loads((run / "run.json").read_text())
    record["settings"] |= {"evaluate_episodes": 50, "total_steps": 400}
    (run / "run.json").write_text(json.dumps(record))
    assert curves.main(arguments) == 0


@pytest.mark.parametrize("flag", ["--runs=\udce9={}", "--title=\udce9", "--text=\udce9"])
def test_bytes_that_are_no_text_are_refused_before_anything_is_copied(flag, tmp_path, capsys):
    run = write_run(tmp_path / "run", 0, 3)
    flags = [f"--runs=ours={run}", flag.format(run), f"--output={tmp_path / 'out'}"]
    assert curves.main(["curves", *flags]) == 2
    assert capsys.readouterr().err.endswith("'\\udce9': must be text in UTF-8\n")
    assert not (tmp_path / "out").exists()


def test_a_record_gives_way_only_to_the_same_run_that_came_as_far(tmp_path, capsys):
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "out"
    arguments = ["curves", f"--runs=ours={run}", f"--output={output}"]
    assert curves.main(arguments) == 0
    kept = output / "runs" / "ours-seed0"
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    curve, record = (run / "progress.csv").read_text(), json.loads((run / "run.json").read_text())
    (run / "progress.csv").write_text("".join(curve.splitlines(keepends=True)[:-1]))
    assert curves.main(arguments) == 2
    assert f"{kept} holds another run (200 steps there, 100 here)" in capsys.readouterr().err
    (run / "progress.csv").write_text(curve + "300,5400,12,9,9\n")
    record["settings"]["learning_rate"] = 0.5
    (run / "run.json").write_text(json.dumps(record))
    assert curves.main(arguments) == 2
    assert f"{kept} holds another run (learning_rate: 0.0007 there, 0.5 here)" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    del record["settings"]["learning_rate"]
    record["settings"]["total_steps"] = 400  # the run was extended
    (run / "run.json").write_text(json.dumps(record))
    assert curves.main(arguments) == 0
    assert (kept / "progress.csv").read_text().endswith("300,5400,12,9,9\n")


@pytest.mark.parametrize(
    "runs", ["no label", "label=", "=run", " =run", "label=nowhere", "l" * 400 + "=run", "label=" + "x" * 400]
)
def test_bad_runs_are_named(tmp_path, capsys, runs):
    assert curves.main(["curves", f"--runs={runs}", f"--output={tmp_path / 'out'}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def _a_file(output):
    output.touch()


def _a_circle(output):
    output.symlink_to(output)


def _of_another_experiment(output):
    write_evidence(output, Evidence("figure1", "", (), ""))


def _beside_another_page(output):
    (output.parent / "index.html").write_text("my notes")


@pytest.mark.parametrize("prepare", [_a_file, _a_circle, _of_another_experiment, _beside_another_page])
def test_an_output_that_cannot_be_used_is_refused_in_a_line(tmp_path, capsys, prepare):
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "page" / "out"
    output.parent.mkdir()
    prepare(output)
    before = sorted(tmp_path.rglob("*"))
    arguments = [f"--runs=label={run}", f"--output={output}", f"--page={output.parent}"]
    try:
        status: object = curves.main(["curves", *arguments])
    except SystemExit as ended:
        status = ended.code
    err = capsys.readouterr().err
    assert status == 2 and err.count("\n") == 1 and str(output.parent) in err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_written_is_a_failure_in_a_line(tmp_path, capsys):
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "out"
    arguments = ["curves", f"--runs=label={run}", "--hours", f"--output={output}"]
    (output / "hours.png").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    assert curves.main(arguments) == 2
    assert "has a hours.png but no experiment.json" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
    (output / "hours.png").rmdir()
    assert curves.main(arguments) == 0
    (output / "hours.png").unlink()
    (output / "hours.png").mkdir()
    capsys.readouterr()
    assert curves.main(arguments) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: [Errno 21] Is a directory: '{output}/hours.png")
    assert err.count("\n") == 1


def test_a_label_is_text_and_not_a_formula(tmp_path):
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "out"
    arguments = [rf"--runs=$\bad$={run}", r"--title=$\worse$ $", f"--output={output}"]
    assert curves.main(["curves", *arguments]) == 0
    drawn = (output / "figure.svg").read_text()
    assert r">$\bad$<" in drawn and r">$\worse$ $<" in drawn


@pytest.mark.parametrize("step", [-5, 10**400])
def test_a_step_that_no_run_can_have_is_refused(step, tmp_path, capsys):
    run, output = write_run(tmp_path / "a", 0, 3), tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        curves.main(["curves", f"--runs=a={run}", f"--output={output}", f"--at_steps={step}"])
    assert ended.value.code == 2 and f"--at_steps={step}" in capsys.readouterr().err and not output.exists()


def test_runs_are_required():
    with pytest.raises(SystemExit) as ended:
        curves.main(["curves", "--output=out"])
    assert ended.value.code == 2


def test_the_table_and_the_figure_show_one_quantity(tmp_path, monkeypatch):
    """Of a short run the mean of the last 100 episodes is far from that of its last rows."""
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "out"
    (run / "progress.csv").write_text(
        "steps,seconds,episodes,mean_return,interval_return\n100,1,4,1,1\n200,2,8,91,220\n"
    )
    drawn, draw = {}, curves.learning_curves
    look = lambda by_env, *rest, **of: drawn.update(by_env) or draw(by_env, *rest, **of)  # noqa: E731
    monkeypatch.setattr(curves, "learning_curves", look)
    assert curves.main(["curves", f"--runs=ours={run}", f"--output={output}"]) == 0
    ((row),) = list(csv.DictReader((output / "table.csv").open()))
    assert row["return at the end"] == "91.00" == f"{drawn['CartPole-v1']['ours'][0].mean_return[-1]:.2f}"
    assert "220" not in row.values()


def test_logs_of_other_libraries_stand_beside_runs_with_their_protocol(tmp_path):
    run, output = write_run(tmp_path / "run", 0, 3), tmp_path / "page" / "out"
    logs = []
    for seed in (0, 1):
        logs.append(tmp_path / f"{seed}.csv")
        logs[-1].write_text(f"t,score\n100,{seed}\n200,{seed + 2}\n")
    arguments = [f"--runs=ours={run}", f"--runs=theirs={logs[0]},{logs[1]}", "--columns=t:score"]
    arguments += [f"--output={output}", f"--page={output.parent}", "--hours"]
    assert curves.main(["curves", *arguments]) == 0
    rows = [[*row[:3], row[4], row[-1]] for row in csv.reader((output / "table.csv").open())][1:]
    theirs = "theirs (CSV, score)"
    assert rows == [
        ["CartPole-v1", "ours", "0", "1.00", "3.00"],
        ["CartPole-v1", theirs, "0", "", "2.00"],
        ["CartPole-v1", theirs, "1", "", "3.00"],
        ["CartPole-v1", theirs, "2 seeds, mean", "", "2.50 ± 0.50"],
        ["CartPole-v1", theirs, "2 seeds, IQM [range]", "", "2.50 [2.00, 3.00]"],
    ]
    assert f"{theirs[:-1]}) (2 seeds)" in (output / "figure.svg").read_text()
    assert theirs in (output.parent / "index.html").read_text()
    kept = [output / "runs" / f"theirs-seed{seed}" for seed in (0, 1)]
    again = ["curves", f"--runs=theirs={kept[0]},{kept[1]}", f"--output={tmp_path / 'again'}"]
    assert curves.main(again) == 0
    assert theirs in (tmp_path / "again" / "table.md").read_text(), "the records keep the protocol"


def test_bad_logs_are_refused_in_a_line(tmp_path, capsys):
    log, output, run = tmp_path / "log.csv", tmp_path / "out", write_run(tmp_path / "run", 0, 3)
    log.write_text("a,b\n1,2\n")
    (tmp_path / "monitor.csv").write_text('#{"t_start": 0, "env_id": "CartPole-v1"}\nr,l,t\n1,1,1\n')
    for flags, wanted in (
        ([f"--runs=x={log}"], str(log)),
        ([f"--runs=x={log}", "--columns=a:b"], "--env"),
        ([f"--runs=x={log}", "--columns=a"], "--columns=a"),
        ([f"--runs=x={tmp_path / 'monitor.csv'}", "--columns=a:b"], "--columns=a:b: has no effect"),
        ([f"--runs=x={tmp_path / 'monitor.csv'}", "--tag=a"], "--tag=a: has no effect"),
        ([f"--runs=x={run}", "--env=CartPole-v1"], "--env=CartPole-v1: has no effect"),
        ([f"--runs=x={run}", f"--page={tmp_path / 'page'}"], "--page="),
        ([f"--runs=x={log},{tmp_path / 'monitor.csv'}", "--columns=a:b", "--env=CartPole-v1"], "--runs=x"),
    ):
        assert curves.main(["curves", *flags, f"--output={output}"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and wanted in err
    assert not output.exists()
