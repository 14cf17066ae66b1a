"""The scripts of figures and tables, from nothing to the page."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from acer_tf.__main__ import commands
from acer_tf.commands import pipeline, sweep_flags
from acer_tf.envs import spec
from acer_tf.reproduction import plan
from acer_tf.reproduction.figure import figures, make_cells
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.runs.folder import Lock
from acer_tf.settings.effect import require_effect
from acer_tf.training.device import CPU
from acer_tf.training.resolve import resolve
from tests.reproduction.report.synthetic import write_run
from tests.training.scripted import leave_policy, tree

pytestmark = pytest.mark.usefixtures("few_resamples")

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
ROOT = Path(__file__).resolve().parents[2]
DEAF = str(ROOT / "tests" / "reproduction" / "sweep" / "stand_in.py")
DQN = ("--setting=replay_capacity=1000", "--setting=replay_start=100")
# A part of each that runs in no time.
PARTS = {
    "figure1_atari57": ["--games=Pong", "--agents=replay4_trust,dqn", *DQN],
    "table_atari57": ["--games=Pong", "--agents=replay4_trust,dqn", *DQN],
    "table_atari49": ["--games=Pong,Breakout", "--seeds=2"],
    "table1_prioritized": ["--games=Pong", "--agents=ddqn_tuned,ddqn_rank", *DQN],
    "openai_baselines": ["--games=Pong,Breakout", "--agents=baselines,paper", "--seeds=2"],
    "figure1_minatar_paper": ["--games=breakout", "--agents=replay4", "--seeds=1"],
    "figure1_minatar": ["--games=breakout,freeway", "--agents=replay4,replay4_trust", "--seeds=2"],
    "figure_trust_region": ["--games=breakout", "--agents=replay4,replay4_trust", "--seeds=2"],
    "figure4_minatar": ["--games=breakout", "--agents=acer,no_retrace,no_bias_correction", "--seeds=1"],
    "table_minatar_priorities": ["--games=breakout", "--agents=acer,acer_rank", "--seeds=1"],
    "figure3_continuous": ["--tasks=reacher3", "--agents=acer_continuous,a3c", "--seeds=2"],
    "figure3_draws": ["--tasks=reacher3", "--agents=acer_continuous", "--draws=2"],
    "table_control": ["--tasks=reacher3", "--agents=acer_continuous,a3c", "--seeds=1"],
    "figure4_ablation": ["--tasks=fish", "--agents=acer_continuous,no_sdn", "--seeds=1"],
    "figure5_sensitivity": ["--tasks=cheetah", "--agents=draw0,draw1,draw2"],
    "figure_taxi": ["--agents=masked,unmasked", "--seeds=2"],
    "table_gymnasium": ["--tasks=CartPole-v1,Pendulum-v1", "--agents=acer,acer_continuous", "--seeds=2"],
}
AGAIN = ("figure1_minatar", "table_atari49", "figure3_continuous", "figure_taxi")  # a figure of each kind


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Runs a script's main on stand-ins, which count themselves; its figures are coarse, for the sake of time."""
    monkeypatch.setattr(sweep_flags, "PROGRAM", (sys.executable, STAND_IN))
    monkeypatch.setattr("acer_tf.reproduction.sweep.runner._POLL_SECONDS", 0.05)
    monkeypatch.setattr("acer_tf.reproduction.report.output._DPI", 20)

    def run(name, *arguments):
        folders = [f"--sweep_dir={tmp_path / 'sweep'}", f"--output={tmp_path / 'results' / name}"]
        return pipeline.run([name, *folders, *arguments])

    return run


def test_every_figure_is_here_and_every_command_has_a_script():
    assert set(PARTS) == {name for name, figure in figures().items() if figure.methods}
    assert set(figures()) < set(commands()) == {path.stem for path in (ROOT / "experiments").glob("[!_]*.py")}
    for name, figure in figures().items():
        assert figure.doc.partition("\n")[0] == commands()[name]
        assert f"python -m acer_tf {name} " in figure.doc


@pytest.mark.process
def test_what_a_user_makes_goes_by_default_where_no_shipped_evidence_is(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep_flags, "PROGRAM", (sys.executable, STAND_IN))
    part = ["--games=breakout", "--agents=replay4", "--seeds=1", "--total_steps=2_000"]
    assert pipeline.run(["figure1_minatar", *part]) == 0
    assert [str(path.parent) for path in Path("my_results").glob("*/table.md")] == ["my_results/figure1_minatar"]
    assert Path("my_results/index.html").is_file() and not list(Path("results").iterdir())
    for name in PARTS:
        assert pipeline.define(figures()[name])["output"].default == f"my_results/{name}"


@pytest.mark.parametrize("name", ["Parcels-v0", "acer_tf.envs.puzzles:Parcels-v0"])
def test_a_task_is_named_as_in_the_tables_or_by_its_id(name):
    assert pipeline._envs([name], figures()["table_gymnasium"]) == ("acer_tf.envs.puzzles:Parcels-v0",)


@pytest.mark.parametrize("change", [{"name": "../../secret"}, {"steps": "many"}, {"settings": {}}])
def test_hostile_evidence_is_refused_in_a_line(change, script, tmp_path, capsys):
    path = tmp_path / "results" / "figure1_minatar" / "experiment.json"
    path.parent.mkdir(parents=True)
    cell = {
        "name": "c",
        "method": "ACER",
        "settings": {"env": "minatar/breakout", "seed": 0, "total_steps": 1},
    } | change
    document = {"format": 1, "name": "figure1_minatar", "title": "", "text": [], "command": "", "cells": [cell]}
    path.write_text(json.dumps(document))
    assert script("figure1_minatar", "--report_only") == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {path} cannot be read (ValueError ") and err.count("\n") == 1
    assert [each.name for each in path.parent.parent.rglob("*")] == ["figure1_minatar", "experiment.json"]


@pytest.mark.process
@pytest.mark.parametrize("name", PARTS)
def test_a_script_runs_its_cells_once_and_makes_table_figure_and_page(name, script, tmp_path, capsys):
    arguments = [*PARTS[name], "--total_steps=2_000", "--processes=2"]
    assert script(name, *arguments) == 0
    said = capsys.readouterr().out
    output = tmp_path / "results" / name
    evidence = json.loads((output / "experiment.json").read_text())
    assert {cell["state"] for cell in evidence["cells"]} == {"finished"}
    assert all(cell["steps"] == 2000 for cell in evidence["cells"])
    for file in (*evidence["tables"], *evidence["figures"]):
        assert (output / f"{file}.{'csv' if file in evidence['tables'] else 'png'}").stat().st_size > 0
    assert {"table"} <= set(evidence["tables"]) and {"figure"} <= set(evidence["figures"])
    page = (tmp_path / "results" / "index.html").read_text()
    assert evidence["title"].replace("'", "&#39;") in page
    assert f"python -m acer_tf {name} " in evidence["command"]
    count = len(evidence["cells"])
    assert f"{count} of {count} cells are finished" in said
    if name not in AGAIN:
        return
    # Again: nothing runs anew, and all comes out the same; also where the sweep is gone.
    made = {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}
    if name == "figure1_minatar":
        attempts = sorted(tmp_path.glob("sweep/cells/*/logs/*"))
        assert script(name, *arguments) == 0
        assert sorted(tmp_path.glob("sweep/cells/*/logs/*")) == attempts
        assert {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()} == made
    (tmp_path / "sweep").rename(tmp_path / "gone")
    assert script(name, "--report_only") == 0
    changed = {path.name for path in output.iterdir() if path.is_file() and path.read_bytes() != made[path.name]}
    assert changed == set()
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("name", PARTS)
def test_no_method_has_a_setting_that_nothing_would_read(name):
    figure = figures()[name]
    for cell in {cell.method: cell for cell in make_cells(figure.methods, figure.envs[:1], 1)}.values():
        found = spec(cell.env, atari_preset=cell.train_settings.atari_preset)
        require_effect(resolve(cell.train_settings, found), found)


@pytest.mark.parametrize("name", PARTS)
def test_help_says_what_the_whole_takes(name, capsys):
    with pytest.raises(SystemExit) as ended:
        pipeline.run([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "Deviations" in said or "Nothing of this was published" in said
    assert "The whole: " in said and "report_only" in said


@pytest.mark.process
def test_figure_1_on_minatar_with_either_preset(script, tmp_path, capsys):
    part = ["--games=breakout", "--agents=replay4_trust", "--seeds=1", "--total_steps=2_000"]
    for name, preset, reduction in (
        ("figure1_minatar", "baselines", "mean"),
        ("figure1_minatar_paper", "paper", "threads"),
    ):
        assert script(name, *part) == 0
        (cell,) = json.loads((tmp_path / "results" / name / "experiment.json").read_text())["cells"]
        assert (cell["settings"]["preset"], cell["settings"]["reduction"]) == (preset, reduction)
    before = (tmp_path / "results" / "figure1_minatar_paper" / "experiment.json").read_bytes()
    there = f"--output={tmp_path / 'results' / 'figure1_minatar_paper'}"
    assert script("figure1_minatar", "--report_only", there) == 2
    assert "holds the evidence of figure1_minatar_paper" in capsys.readouterr().err
    assert (tmp_path / "results" / "figure1_minatar_paper" / "experiment.json").read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "launcher", "given", "share"),
    [
        (["--processes=3", "--threads=2", "--gpus_per_cell=0.5"], "LocalLauncher", (3, 2), 0.5),
        (
            ["--launcher=ray", "--ray_address=host:6379", "--threads=2", "--gpus_per_cell=0.2"],
            *("RayLauncher", ("host:6379",), 0.2),
        ),
        (["--launcher=ray", "--gpus_per_cell=1"], "RayLauncher", ("auto",), 1.0),
        (
            ["--launcher=slurm", "--slurm_partition=gpu", "--slurm_time=60", "--gpus_per_cell=1"],
            *("SlurmLauncher", ("gpu", 60), 1.0),
        ),
    ],
)
def test_the_flags_of_a_sweep_reach_its_launcher_and_cells(script, monkeypatch, flags, launcher, given, share):
    made, ran = [], []
    for name in ("LocalLauncher", "RayLauncher", "SlurmLauncher"):
        monkeypatch.setattr(sweep_flags, name, lambda *a, name=name, **k: made.append((name, a, k)))
    end = SimpleNamespace(given_up={}, exit_code=2)
    monkeypatch.setattr(sweep_flags, "run_sweep", lambda *_, **options: ran.append(options) or end)
    more = ["--gpu_memory_gb=3", "--retries=7", "--stall_minutes=50", "--checkpoint_minutes=5", "--progress_seconds=9"]
    assert script("figure4_ablation", *PARTS["figure4_ablation"], *flags, *more) == 2
    ((name, arguments, options),) = made
    assert (name, arguments) == (launcher, given)
    assert options["gpus_per_cell"] == share
    if launcher != "LocalLauncher":
        assert options["threads"] == (2 if "--threads=2" in flags else 0)
    assert ran[0]["program"] == [sys.executable, STAND_IN, "--gpu_memory_gb=3"]
    names = ("retries", "stall_minutes", "checkpoint_minutes", "progress_seconds")
    assert [ran[0][name] for name in names] == [7, 50, 5, 9]


SECOND = """
import sys
from acer_tf import __main__
from acer_tf.commands import sweep_flags

sweep_flags.PROGRAM = (sys.executable, *sys.argv[1:3])
sys.exit(__main__.main(["acer_tf", *sys.argv[3:]]))
"""


@pytest.mark.process
def test_a_second_ctrl_c_stops_at_once(tmp_path):
    """Also a cell that is deaf to the first; nothing is left of it, and no report is made."""
    arguments = [DEAF, "--hang=0", "figure4_ablation", *PARTS["figure4_ablation"]]
    folders = [f"--sweep_dir={tmp_path / 'sweep'}", f"--output={tmp_path / 'out'}"]
    command = [sys.executable, "-c", SECOND, *arguments, *folders]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (cells := list(tmp_path.glob("sweep/cells/*/run/steps"))):
        time.sleep(0.05)
    lock = cells[0].with_name("lock")
    pid = int(lock.read_text().split("pid ")[1])
    process.send_signal(signal.SIGINT)
    answer = "SIGINT: asking the cells for a checkpoint, then stopping\n"
    assert answer in iter(process.stderr.readline, "")  # after TensorFlow's
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, "stopped by SIGINT\n")
    assert not psutil.pid_exists(pid)
    Lock(tmp_path / "sweep", "sweep_dir").release()
    assert not (tmp_path / "out").exists()


DRAWS = ["--tasks=reacher3", "--agents=acer_continuous,tis", "--total_steps=2_000", "--processes=2"]


@pytest.mark.process
def test_figure_3_by_draws_then_the_best_of_them_for_longer(script, tmp_path, capsys):
    assert script("figure3_draws", "--draws=3", *DRAWS) == 0
    output = tmp_path / "results/figure3_draws"
    evidence = json.loads((output / "experiment.json").read_text())
    settings = {(cell["method"], cell["draw"]): cell["settings"] for cell in evidence["cells"]}
    assert list(settings) == [(method, n) for method in ("acer_continuous", "tis") for n in range(3)]
    for n in range(3):
        acer, tis = settings["acer_continuous", n], settings["tis", n]
        assert acer["seed"] == tis["seed"] == n
        assert acer["learning_rate"] == tis["learning_rate"]
        assert 1e-4 <= acer["learning_rate"] <= 10**-3.3
        assert 0.1 <= acer["trust_region_delta"] <= 2 and tis["trust_region_delta"] == "inf"
    returns = {row["draw"]: row["return"] for row in csv.DictReader((output / "draws.csv").open())}
    assert len(returns) == 6 and "ACER" in (output / "table.csv").read_text()
    longer = ["--draws=3", "--best=2", f"--best_of={output}", *DRAWS, "--total_steps=3_000"]
    assert script("figure3_draws", *longer, f"--output={tmp_path / 'best'}") == 0
    cells = json.loads((tmp_path / "best/experiment.json").read_text())["cells"]
    for method, label in (("acer_continuous", "ACER"), ("tis", "TIS")):
        by_return = sorted(range(3), key=lambda n: -float(returns[f"{label}, draw {n}"]))
        assert {cell["draw"] for cell in cells if cell["method"] == method} == set(by_return[:2])
    assert all(cell["steps"] == 3000 and cell["state"] == "finished" for cell in cells)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--draws=3", "--best=4", "--best_of=nowhere"], "--best=4: must be at most --draws=3"),
        (["--best=3"], "--best=3: it goes with --best_of"),
        (["--best_of=nowhere"], "--best_of=nowhere: holds no evidence"),
    ],
)
def test_flags_of_draws_that_cannot_be_are_refused(arguments, message, script, tmp_path, capsys):
    assert script("figure3_draws", *DRAWS, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


@pytest.mark.process
def test_the_best_of_draws_are_of_all_of_them(script, tmp_path, capsys):
    assert script("figure3_draws", "--draws=2", *DRAWS) == 0
    more = ["--draws=3", "--best=2", f"--best_of={tmp_path / 'results/figure3_draws'}", *DRAWS]
    assert script("figure3_draws", *more, f"--output={tmp_path / 'best'}") == 2
    assert "2 of 3 draws of ACER in control/reacher3 are finished there" in capsys.readouterr().err


@pytest.mark.process
def test_further_cells_join_the_evidence_and_an_unfinished_one_is_shown(script, tmp_path, capsys, monkeypatch):
    assert script("figure1_minatar", "--games=breakout", "--agents=replay4", "--seeds=1", "--total_steps=2_000") == 0
    monkeypatch.setattr(sweep_flags, "PROGRAM", (sys.executable, "-c", "import sys; sys.exit('no such game')"))
    more = ["--games=freeway", "--agents=replay4", "--seeds=1", "--total_steps=2_000", "--retries=0"]
    assert script("figure1_minatar", *more) == 1
    cells = json.loads((tmp_path / "results/figure1_minatar/experiment.json").read_text())["cells"]
    assert [(cell["settings"]["env"], cell["state"]) for cell in cells] == [
        ("minatar/breakout", "finished"),
        ("minatar/freeway", "failed"),
    ]
    assert "no such game" in cells[1]["reason"]
    page = (tmp_path / "results/index.html").read_text()
    assert "no such game" in page
    assert "1 of 2 cells are finished" in capsys.readouterr().out


@pytest.mark.process
def test_recorded_cells_are_skipped_where_that_is_asked_for(script, tmp_path, capsys):
    name, arguments = "figure1_minatar", ["--games=breakout", "--agents=replay4", "--total_steps=2_000"]
    assert script(name, *arguments, "--seeds=2", "--skip_recorded") == 0
    assert len(list(tmp_path.glob("sweep/cells/*"))) == 2
    (tmp_path / "sweep").rename(tmp_path / "another_machine")
    capsys.readouterr()
    assert script(name, *arguments, "--seeds=3", "--skip_recorded") == 0
    assert "2 of 3 cells have a finished record" in capsys.readouterr().out
    (new,) = tmp_path.glob("sweep/cells/*")
    assert "seed2" in new.name
    evidence = json.loads((tmp_path / "results" / name / "experiment.json").read_text())
    assert [(c["settings"]["seed"], c["state"]) for c in evidence["cells"]] == [(s, "finished") for s in range(3)]
    # Nothing is left, which is no error, and nothing is started.
    for further in ("--noplan", "--plan"):
        assert script(name, *arguments, "--seeds=3", "--skip_recorded", further) == 0
        assert "0 left to run" in capsys.readouterr().out
    assert list(tmp_path.glob("sweep/cells/*")) == [new]
    # Without the flag it is made again.
    assert script(name, *arguments, "--seeds=1") == 0
    assert len(list(tmp_path.glob("sweep/cells/*"))) == 2
    # So is one whose record is gone.
    shutil.rmtree(tmp_path / "results" / name / "runs" / new.name)
    capsys.readouterr()
    assert script(name, *arguments, "--seeds=3", "--skip_recorded", f"--sweep_dir={tmp_path / 'third'}") == 0
    assert "2 of 3 cells have a finished record" in capsys.readouterr().out


@pytest.mark.process
def test_runs_with_other_settings_do_not_join(script, tmp_path, capsys, monkeypatch):
    part = ["--games=breakout", "--agents=replay4", "--seeds=1"]
    assert script("figure1_minatar", *part, "--total_steps=2_000") == 0
    before = (tmp_path / "results/figure1_minatar/experiment.json").read_bytes()
    capsys.readouterr()
    assert script("figure1_minatar", *part, "--total_steps=3_000") == 2
    error = capsys.readouterr().err
    assert "holds runs of 'replay4' in minatar/breakout with other settings" in error
    assert "(log_interval: 40 there, 60 here; total_steps: 2000 there, 3000 here)" in error
    assert "choose another --output" in error
    assert script("figure1_minatar", *part, "--total_steps=2_000", "--setting=precision=float32") == 2
    assert "the same run under other settings" in capsys.readouterr().err
    other = f"--output={tmp_path / 'results/figure1_minatar'}"
    assert script("table_minatar_priorities", other, "--total_steps=2_000") == 2
    assert "holds the evidence of figure1_minatar" in capsys.readouterr().err
    assert (tmp_path / "results/figure1_minatar/experiment.json").read_bytes() == before
    assert len(list((tmp_path / "sweep/cells").iterdir())) == 1
    # A plan has no output that they could join.
    monkeypatch.setattr(plan, "measured", lambda *_: plan.Measured(0.01, 0.02, 1_000_000, 100.0))
    assert script("figure1_minatar", *part, "--total_steps=4_000", "--plan") == 0


def test_a_setting_without_effect_is_refused_before_any_cell_starts(script, tmp_path, capsys):
    part = ["--games=breakout", "--seeds=1", "--total_steps=2_000", "--setting=average_decay=0.995"]
    for further in ("--noplan", "--plan"):
        assert script("figure1_minatar", *part, "--agents=replay4_trust,replay4", further) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: 'replay4, minatar/breakout, seed 0' cannot be run: ")
        assert "--average_decay=0.995" in error and error.count("\n") == 1
        assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--games=tetris"], "--games=tetris"),
        (["--agents=replay5"], "--agents=replay5"),
        (["--setting=gamma"], "--setting=gamma"),
        (["--setting=seed=3"], "--setting=seed=3"),
        (["--setting=gamma=high"], "--setting=gamma=high"),
        (["--setting=gamma=2"], "--gamma=2.0"),
        (["--setting=gamma=0.9", "--setting=gamma=0.8"], "--setting=gamma=...: names gamma a second time"),
        (["--plan", "--report_only"], "--plan with --report_only"),
        (["--setting=replay_ratio=2"], "--setting=replay_ratio=2.0"),
        (["--games="], "--games="),
        (["--plan", "--launcher=ray"], "--plan with --launcher=ray: plans are of this machine alone"),
        (["--stall_minutes=1"], "--stall_minutes=1.0: must be above --checkpoint_minutes=10.0"),
        (["--plan", "--stall_minutes=1"], "--stall_minutes=1.0: must be above --checkpoint_minutes=10.0"),
        (["--plan", "--slurm_time=30"], "--slurm_time=30: it goes with --launcher=slurm"),
        (["--plan", "--gpu_memory_gb=4"], "--gpu_memory_gb=4 with --plan: cells are timed without; leave it out"),
        (["--plan", "--gpus_per_cell=0.5"], "--gpus_per_cell=0.5 with --plan: cells are timed without"),
        (["--report_only", "--slurm_time=30"], "--slurm_time=30: it goes with --launcher=slurm"),
        (["--setting=env_workers=2"], "--setting=env_workers=2: must be NAME=VALUE, where NAME is a setting"),
    ],
)
def test_bad_flags_are_named_and_nothing_is_written(script, tmp_path, capsys, arguments, complaint):
    assert script("figure1_minatar", *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {complaint}")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "flags", "complaint"),
    [
        ("figure_taxi", ["--agents=masked", "--setting=action_masks=false"], "masked is defined by action_masks True"),
        ("figure4_ablation", ["--agents=acer_continuous", "--setting=dueling=false"], "is defined by dueling True"),
        ("figure4_ablation", ["--agents=no_sdn", "--setting=retrace=false"], "no_sdn is defined by retrace True"),
        ("table_minatar_priorities", ["--agents=acer", "--setting=replay_priority=rank"], "replay_priority uniform"),
        ("table1_prioritized", ["--agents=ddqn_tuned", "--setting=replay_priority=rank"], "replay_priority uniform"),
    ],
)
def test_no_setting_turns_a_method_into_another_under_its_label(script, tmp_path, capsys, name, flags, complaint):
    assert script(name, *flags) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {flags[-1].rpartition('=')[0]}=") and complaint in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_settings_of_another_agent_s_methods_are_free(script, tmp_path, capsys):
    flags = ["--agents=replay4", "--games=breakout", "--seeds=1", "--total_steps=2_000"]
    flags += ["--setting=num_envs=8", "--setting=replay_start=1e3"]  # DQN is defined by its number of environments
    assert script("figure1_minatar", *flags) == 0
    assert script("figure1_minatar", *flags, "--skip_recorded") == 0
    assert "0 left to run" in capsys.readouterr().out
    document = json.loads((tmp_path / "results/figure1_minatar/experiment.json").read_text())
    assert "--skip_recorded" not in document["command"]  # it made nothing


def test_a_network_that_cannot_read_the_observations_is_refused_before_any_cell_starts(script, tmp_path, capsys):
    assert script("figure_taxi", "--agents=masked", "--seeds=1", "--setting=network=nature") == 2
    error = capsys.readouterr().err
    assert "network 'nature' cannot read observations of shape (500,)" in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--gpu_memory_gb=2"], "--gpu_memory_gb=2: has no effect on cells that compute on the CPU; TensorFlow finds"),
        (["--gpu_memory_gb=2", "--launcher=ray"], "--gpu_memory_gb=2: has no effect on cells"),
        (["--setting=precision=tf32", "--launcher=slurm"], "--setting=precision=tf32: has no effect on cells"),
        (["--setting=initialize_from=/nowhere"], "'masked, Taxi-v4, seed 0' cannot be run: --initialize_from=/nowhere"),
    ],
)
def test_what_each_cell_would_refuse_is_refused_before(script, tmp_path, capsys, monkeypatch, flags, complaint):
    monkeypatch.setattr(sweep_flags, "find_device", lambda: CPU)
    assert script("figure_taxi", "--agents=masked", "--seeds=1", *flags) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {complaint}") and error.count("\n") == 1
    assert not (tmp_path / "sweep").exists()


def test_tables_and_figures_of_something_else_are_not_replaced(script, tmp_path, capsys):
    mine = tmp_path / "results" / "figure_taxi" / "figure.png"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    assert script("figure_taxi", "--seeds=1") == 2
    assert "has a figure.png but no experiment.json" in capsys.readouterr().err
    assert mine.read_text() == "precious" and not (tmp_path / "sweep").exists()


def test_an_unknown_game_is_named_with_the_sets(script, tmp_path, capsys):
    assert script("table_atari49", "--games=Pongg") == 2
    assert "Pong" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--setting=gamma=nan", "--gamma=nan"),
        ("--setting=critic_weight=nan", "--critic_weight=nan"),
        ("--seeds=1000000000000000000", "--seeds=1000000000000000000"),
        ("--threads=100000", "--threads=100000"),
    ],
)
def test_values_that_cannot_be_are_refused_at_once(argument, message, script, tmp_path, capsys):
    try:
        assert script("figure1_minatar", argument) == 2
    except SystemExit as stop:
        assert stop.code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_is_named_before_anything_runs(script, tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="2"):
        script("figure1_minatar", f"--output={tmp_path / 'file' / 'out'}", "--total_steps=2_000")
    assert "--output=" in capsys.readouterr().err
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("my home page")
    assert script("figure1_minatar", f"--output={tmp_path / 'site' / 'out'}", "--total_steps=2_000") == 2
    assert "index.html is not a page of results" in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def leave_cell(sweep_dir, figure, number=0):
    """The finished run of one of a figure's cells, as a sweep leaves it; returns its folder."""
    cell = list(figure.whole.values())[number]
    run_dir = write_run(CellFolder(sweep_dir, cell).run_dir, dict(cell.settings), [1.0, 2.0])
    leave_policy(run_dir / "policy")
    return run_dir


def refused_without_a_change(script, name, tmp_path, capsys):
    before = tree(tmp_path)
    assert script(name, "--report_only") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: --report_only: ") and err.count("\n") == 1
    assert f"--output={tmp_path / 'results' / name}" in err and f"--sweep_dir={tmp_path / 'sweep'}" in err
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", PARTS)
def test_a_report_of_nothing_is_refused(script, name, tmp_path, capsys):
    refused_without_a_change(script, name, tmp_path, capsys)


@pytest.mark.parametrize("there", ["damaged", "no row", "another figure's", "no record is left"])
def test_a_report_of_what_cannot_be_read_is_refused(script, tmp_path, capsys, there):
    name = "table_minatar_priorities"
    run_dir = leave_cell(tmp_path / "sweep", figures()["figure3_continuous" if there == "another figure's" else name])
    if there == "damaged":
        (run_dir / "run.json").write_text("{")
    elif there == "no row":
        (run_dir / "progress.csv").unlink()
    elif there == "no record is left":
        assert script(name, "--report_only") == 0
        capsys.readouterr()
        shutil.rmtree(tmp_path / "sweep")
        shutil.rmtree(tmp_path / "results" / name / "runs")
    refused_without_a_change(script, name, tmp_path, capsys)


def test_a_report_reads_the_sweep_and_changes_nothing_there(script, tmp_path, capsys):
    name = "table_minatar_priorities"
    damaged, _ = (leave_cell(tmp_path / "sweep", figures()[name], number) for number in range(2))
    (damaged / "progress.csv").write_text("{")
    before = tree(tmp_path / "sweep")
    assert script(name, "--report_only") == 0
    assert str(damaged / "progress.csv") in capsys.readouterr().err
    assert tree(tmp_path / "sweep") == before
    kept = tmp_path / "results" / name / "runs"
    assert [path.name for path in kept.iterdir()] != [damaged.parent.name]
    (record,) = kept.glob("*/run.json")
    record.write_text("{")
    before = tree(tmp_path)
    assert script(name, "--report_only") == 2
    err = capsys.readouterr().err
    assert str(record) in err and "move it away" in err and tree(tmp_path) == before


@pytest.mark.process
def test_a_cell_that_was_only_asked_for_gives_way(script, tmp_path, monkeypatch):
    part = ["--games=breakout", "--agents=replay4", "--seeds=1"]
    with monkeypatch.context() as patch:  # interrupted before the cell began
        patch.setattr(sweep_flags, "run", lambda *_: (130, {}))
        assert script("figure1_minatar", *part) == 130
    assert script("figure1_minatar", *part, "--total_steps=2_000") == 0
    (cell,) = json.loads((tmp_path / "results/figure1_minatar/experiment.json").read_text())["cells"]
    assert (cell["state"], cell["settings"]["total_steps"]) == ("finished", 2000)


@pytest.mark.process
def test_experiments_of_one_sweep_share_the_cells_that_they_share(script, tmp_path):
    part = ["--games=breakout", "--seeds=1", "--total_steps=2_000"]
    assert script("figure1_minatar", *part, "--agents=replay4_trust") == 0
    assert script("table_minatar_priorities", *part, "--agents=acer") == 0
    assert len(list((tmp_path / "sweep/cells").iterdir())) == 1


@pytest.mark.process
def test_a_script_trains_for_real(tmp_path, capsys):
    """figure1_minatar does so in tests/test_wheel.py."""
    name, part = "figure3_continuous", ["--tasks=reacher3", "--agents=acer_continuous"]
    folders = [f"--sweep_dir={tmp_path / 'sweep'}", f"--output={tmp_path / 'results' / name}"]
    assert pipeline.run([name, *folders, *part, "--seeds=1", "--total_steps=1_200", "--threads=1"]) == 0
    (cell,) = json.loads((tmp_path / "results" / name / "experiment.json").read_text())["cells"]
    assert cell["state"] == "finished" and cell["steps"] >= 1200
    assert (Path(cell["policy"]) / "saved_model.pb").is_file()
