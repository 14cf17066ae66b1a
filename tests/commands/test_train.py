import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from absl.testing import flagsaver

from acer_tf import load_policy
from acer_tf.commands import train
from acer_tf.errors import NonFiniteError
from acer_tf.settings import Settings, make_settings
from tests.processes import answers_of
from tests.training.scripted import timeless

ROOT = Path(__file__).resolve().parents[2]


WHERE = {
    "device": "auto",
    "gpu_memory_gb": 0.0,
    "acting_device": "same",
    "ray_address": None,
    "actor_timeout": None,
    "env_workers": 1,
}  # defaults


@pytest.fixture(autouse=True)
def _flags_as_they_were():
    saved = flagsaver.save_flag_values(train.FLAGS)
    yield
    flagsaver.restore_flag_values(saved, train.FLAGS)


@pytest.fixture
def ran(monkeypatch):
    """What main asks `run` for, instead of running it."""
    calls = []
    monkeypatch.setattr(train, "run", lambda *arguments, **options: calls.append((*arguments, options)) or 0)
    return calls


def main(*flags):
    return train.main(["train", *flags])


def refused(capsys, *flags):
    """The one line that bad flags give."""
    try:
        status = main(*flags)
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


KEPT = ("agent", "preset", "total_steps", "log_interval")


def test_every_setting_has_a_flag_with_help_and_every_flag_a_purpose():
    settings = {field.name for field in dataclasses.fields(Settings)}
    others = {"run_dir", "checkpoint_minutes", "threads", "device", "gpu_memory_gb", "replay_file", "repair", "help"}
    others |= {"ray_address", "actor_timeout", "env_workers", "acting_device"}
    assert set(train.FLAGS) == settings | others
    for name in train.FLAGS:
        assert len(train.FLAGS[name].help) >= 10, name


def test_the_line_of_a_run_that_diverged_ends_as_searches_know_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train, "train", Mock(side_effect=NonFiniteError("critic_loss is nan, at step 8")))
    assert train.main(["train", "--env=CartPole-v1", f"--run_dir={tmp_path / 'run'}"]) == 1
    assert capsys.readouterr().err.endswith(f"{NonFiniteError.left}\n")


def test_the_help_of_a_flag_says_its_default_and_what_a_preset_changes():
    ddqn = "ddqn_tuned or ddqn_rank or ddqn_proportional or minatar_dqn or classic_dqn"
    expected = f"(at least 1; default: 20; preset paper_continuous: 50; preset dqn or dqn_rank or {ddqn}: 4)"
    assert train.FLAGS["unroll_length"].help.endswith(expected)
    preset = "preset classic_continuous or paper_continuous"
    assert train.FLAGS["average_decay"].help.endswith(f"(in [0, 1); default: 0.99; {preset}: 0.995)")
    assert train.FLAGS["env"].help.endswith("as in FrozenLake-v1,is_slippery=false")


@pytest.mark.process
def test_help_is_answered_at_once_and_without_tensorflow():
    command = [sys.executable, "-X", "importtime", "-m", "acer_tf", "train", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Trains one agent in one environment")
    for name in train.FLAGS:
        assert f"  --{name}=" in done.stdout or f"  --[no]{name}: " in done.stdout or name == "help", name
    headings = [line for line in done.stdout.splitlines()[3:] if line.endswith(":") and not line.startswith(" ")]
    assert headings[0] == "Run:" and headings[-2:] == ["DQN:", "Machine:"], "in the order of `Settings`"
    first = [line.split("=")[0] for line in done.stdout.splitlines() if line.startswith("  --")][:2]
    assert first == ["  --run_dir", "  --env"], "what must be given comes first"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "numpy" in imported
    assert "tensorflow" not in imported


@pytest.mark.process
def test_a_bad_flag_ends_the_process_with_status_2_and_one_line(tmp_path):
    command = [sys.executable, "-m", "acer_tf", "train", f"--run_dir={tmp_path}/run", "--env=atari/Pong"]
    done = subprocess.run([*command, "--unroll_length=0"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --unroll_length=0") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--unroll_length=abc"], "--unroll_length=abc"),
        (["--num_envs=2.5"], "--num_envs=2.5"),
        (["--num_envs=inf"], "--num_envs=inf"),
        (["--total_timesteps=5"], "there is no flag --total_timesteps: use --total_steps\n"),
        (["--env=control/reacher3"], "--agent=acer: control/reacher3 has continuous actions, for which it must be of"),
        (["--gamma=high"], "--gamma=high"),
        (["--entropy_in_trust_region=maybe"], "entropy_in_trust_region"),
        (["--learning_rat=1"], "Unknown command line flag 'learning_rat'"),
        (["--lr=1e-3"], "there is no flag --lr: use --learning_rate"),
        (["--n_envs=4"], "there is no flag --n_envs: use --num_envs"),
        (["replay_ratio=4"], "not a flag: replay_ratio=4"),
        (["--replay_ratio=-1"], "--replay_ratio=-1.0"),
        (["--trust_region_delta=0"], "--trust_region_delta=0.0"),
        (["--average_decay=1"], "--average_decay=1.0"),
        (["--importance_truncation=-1"], "--importance_truncation=-1.0"),
        (["--gamma=nan"], "--gamma=nan"),
        (["--preset=papers"], "--preset=papers"),
        (["--agent=ddqn"], "--agent=ddqn"),
        (["--agent=a3c", "--replay_ratio=4"], "use another agent, such as acer"),
        (["--replay_start=60000"], "--replay_capacity=50000"),
        (["--flagfile=nowhere"], "error: Unable to open flagfile"),
        (["--checkpoint_minutes=-1"], "--checkpoint_minutes=-1"),
        (["--checkpoint_minutes=nan"], "--checkpoint_minutes=nan"),
        (["--threads=-1"], "--threads=-1"),
        (["--replay_file=~/replay"], "--replay_file=~/replay"),
        (["--threads=100000"], "--threads=100000"),
        (["--replay_ratio=1e12"], "--replay_ratio=1000000000000.0"),
    ],
)
def test_bad_flags_are_refused_in_one_line(flags, message, ran, capsys, tmp_path):
    assert message in refused(capsys, "--env=CartPole-v1", f"--run_dir={tmp_path}/run", *flags)
    assert ran == []


def test_what_is_required_is_named(ran, capsys, tmp_path):
    assert "--run_dir is required" in refused(capsys, "--env=CartPole-v1")
    train.FLAGS["run_dir"].unparse()
    assert "--env is required, such as --env=atari/Pong" in refused(capsys, f"--run_dir={tmp_path}")
    assert ran == []


def test_the_flags_become_the_settings(ran):
    given = {
        "env": "atari/Breakout",
        "agent": "acer",
        "preset": "paper",
        "seed": 7,
        "total_steps": 1_000_000,
        "log_interval": 500,
        "evaluate_every": 1_000,
        "evaluate_episodes": 7,
        "evaluate_greedy": True,
        "evaluate_max_episode_steps": 99,
        "stop_at_return": 100.0,
        "atari_preset": "machado2018",
        "action_masks": False,
        "num_envs": 8,
        "actors": 4,
        "unroll_length": 50,
        "replay_ratio": 8.0,
        "replay_start": 100,
        "replay_capacity": 5_000,
        "replay_segments_only": True,
        "burn_in": 7,
        "network": "nature",
        "dense_units": "128,32",
        "dense_activation": "gelu",
        "dense_normalization": True,
        "lstm_units": 0,  # no LSTM goes with priorities
        "precision": "float32",
        "initialization": "orthogonal",
        "initialize_from": "runs/source",
        "reset_heads": "policy,q",
        "optimizer": "adam",
        "learning_rate": 0.001,
        "learning_rate_final": 0.0,
        "rmsprop_decay": 0.9,
        "rmsprop_epsilon": 0.01,
        "rmsprop_initial_accumulator": 0.5,
        "max_gradient_norm": 30.0,
        "gamma": 0.995,
        "retrace_lambda": 0.9,
        "bias_correction": False,
        "importance_truncation": math.inf,
        "trust_region_delta": 0.5,
        "average_decay": 0.995,
        "entropy_weight": 0.1,
        "entropy_weight_final": 0.01,
        "entropy_in_trust_region": False,
        "critic_weight": 0.25,
        "reduction": "mean",
        "reward_scale": 0.5,
        "normalize_rewards": True,
        "reward_clip": 2.0,
        "on_policy_updates": False,
        "trajectories_per_update": 8,
        "policy_std": 0.2,
        "shared_torso": False,
        "advantage_samples": 3,
        "normalize_observations": True,
        "dueling": False,
        "retrace": False,
        "replay_poisson": False,
        "replay_priority": "rank",
        "replay_batch": 16,
        "priority_exponent": 0.7,
        "priority_exponent_final": 0.5,
        "priority_epsilon": 0.01,
        "importance_exponent": 0.5,
        "importance_exponent_final": 0.9,
        "weights_by_batch": False,
        "rmsprop_centered": True,
        "double_q": False,
        "shared_bias": False,
        "error_clip": 2.0,
        "target_period": 100,
        "exploration_final": 0.2,
        "exploration_steps": 50,
        "evaluation_epsilon": 0.1,
    }
    assert set(given) == {field.name for field in dataclasses.fields(Settings)}
    plain = make_settings({"env": "atari/Pong", "preset": "paper"})
    assert [n for n, v in given.items() if getattr(plain, n) == v] == ["agent", "preset", "lstm_units"]
    flags = [f"--{name}={value}" for name, value in given.items()]
    assert main(*flags, "--run_dir=runs/x", "--checkpoint_minutes=2.5", "--threads=3", "--replay_file=/x/y") == 0
    options = {"checkpoint_minutes": 2.5, "threads": 3, "replay_file": "/x/y", "repair": []} | WHERE
    assert ran == [(Settings(**given), Path("runs/x"), options)]


def test_whole_numbers_may_be_written_with_an_exponent(ran):
    assert main("--env=atari/Pong", "--run_dir=r", "--total_steps=1e6") == 0
    assert ran[0][0].total_steps == 1_000_000


def test_help_has_a_short_name(capsys):
    with pytest.raises(SystemExit) as ended:
        train.main(["train", "-h"])
    assert ended.value.code == 0 and "--total_steps" in capsys.readouterr().out


def test_what_no_flag_gives_comes_from_the_preset_and_the_agent(ran):
    flags = ("--env=atari/Pong", "--run_dir=r", "--preset=paper", "--agent=a3c", "--total_steps=10_000_000")
    assert main(*flags, "--noentropy_in_trust_region", "--gamma=0.9") == 0
    given = {"env": "atari/Pong", "preset": "paper", "agent": "a3c", "entropy_in_trust_region": False, "gamma": 0.9}
    options = {"checkpoint_minutes": 10.0, "threads": 0, "replay_file": None, "repair": []} | WHERE
    assert ran == [(make_settings(given), Path("r"), options)]


def test_a_timeout_of_actors_that_are_not_on_ray_is_refused(capsys, tmp_path):
    assert main("--env=CartPole-v1", "--actors=2", "--actor_timeout=20", f"--run_dir={tmp_path}/run") == 2
    assert "--actor_timeout=20.0: has no effect without --ray_address" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_an_empty_address_of_ray_as_from_an_unset_variable_is_refused(capsys, tmp_path):
    assert main("--env=CartPole-v1", "--actors=2", "--ray_address=", f"--run_dir={tmp_path}/run") == 2
    assert "--ray_address=" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.training
def test_a_run_is_continued_with_its_agent_preset_length_and_interval(capsys, tmp_path):
    flags = ("--env=CartPole-v1", "--replay_start=0", "--replay_capacity=100", f"--run_dir={tmp_path}/run")
    others = ("--agent=dqn", "--preset=ddqn_rank", "--total_steps=20", "--log_interval=7")
    assert main(*flags, *others) == 0
    assert main(*flags) == 0
    assert "already finished" in capsys.readouterr().out
    kept = {name: json.loads((tmp_path / "run" / "run.json").read_text())["settings"][name] for name in KEPT}
    assert kept == {"agent": "dqn", "preset": "ddqn_rank", "total_steps": 20, "log_interval": 7}
    assert main(*flags, "--agent=acer") == 2
    assert "agent: dqn there, acer here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "messages"),
    [
        ("atari/Pongg", ["there is no environment 'atari/Pongg'; did you mean atari/Pong"]),
        ("minatar/brekout", ["did you mean minatar/breakout"]),
        ("CartPole", ["did you mean CartPole-v"]),
        ("Pendulum-v1", ["continuous action space", "it takes --agent=acer_continuous"]),
    ],
)
def test_an_environment_that_cannot_be_is_refused_with_what_could(env, messages, capsys, tmp_path):
    err = refused(capsys, f"--env={env}", f"--run_dir={tmp_path}/run")
    assert all(message in err for message in messages)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.training
def test_a_small_run_trains_and_says_where_the_policy_is(capsys, tmp_path):
    flags = ("--env=CartPole-v1", "--num_envs=2", "--unroll_length=5", "--total_steps=100", "--log_interval=50")
    assert main(*flags, "--replay_start=0", f"--run_dir={tmp_path}/run") == 0
    begin, first, *_, last = capsys.readouterr().out.splitlines()
    assert begin == f"acer on CartPole-v1, preset classic, network mlp, precision float32, on cpu, in {tmp_path}/run"
    assert 50 <= float(first.split("%")[0]) < 70  # the first iteration beyond 50 steps
    assert last == f"finished: policy in {tmp_path}/run/policy"
    assert load_policy(tmp_path / "run" / "policy").metadata["env"] == "CartPole-v1"
    # What is the environment's, the agent's and the preset's need not be said again.
    assert main("--num_envs=2", "--unroll_length=5", "--replay_start=0", f"--run_dir={tmp_path}/run") == 0
    assert "already finished" in capsys.readouterr().out


EARLY = """
import os, signal, gymnasium

def stop(where):
    if where == {where!r}:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("as numpy's C code turns it") if where == "import" else KeyboardInterrupt

stop("import")

class Early(gymnasium.Env):
    def __init__(self):
        stop("constructor")
        raise RuntimeError("boom")

gymnasium.register("Early-v0", Early)
"""


@pytest.mark.process
def test_the_first_line_says_what_runs_before_tensorflow_is_imported(tmp_path):
    flags = f"'--env=CartPole-v1', '--run_dir={tmp_path}/run'"
    code = (
        f"import sys; sys.modules['tensorflow'] = None; from acer_tf.commands import train; train.main(['', {flags}])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (
        done.stdout
        == f"acer on CartPole-v1, preset classic, network mlp, precision float32, on cpu, in {tmp_path}/run\n"
    )
    assert "tensorflow" in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.training
@pytest.mark.parametrize("continuous", [False, True])
def test_a_mistake_in_a_rule_of_the_user_s_is_named_after_its_traceback(tmp_path, monkeypatch, capsys, continuous):
    base, env = ("AcerContinuous", "Pendulum-v1") if continuous else ("Acer", "CartPole-v1")
    module = "acer_continuous" if continuous else "acer"
    (tmp_path / f"bad_{module}.py").write_text(
        f"from acer_tf.agents.{module} import {base}\n\n\nclass Bad({base}):\n"
        "    def parameter_gradients(self, trajectory, weight=None):\n        return self.nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    small = ("--num_envs=2", "--unroll_length=5", "--trajectories_per_update=0", "--replay_start=0")
    agent = f"--agent=bad_{module}:Bad"
    assert main(f"--env={env}", agent, f"--run_dir={tmp_path}/run", "--total_steps=100", *small) == 1
    *traceback, line = capsys.readouterr().err.splitlines()
    assert line == f"error: stopped: {agent} failed: AttributeError: 'Bad' object has no attribute 'nothing'"
    assert any(f"bad_{module}.py" in said for said in traceback)


@pytest.mark.training
def test_a_mistake_in_an_optimizer_of_the_user_s_is_named_after_its_traceback(tmp_path, monkeypatch, capsys):
    (tmp_path / "bad_optimizer.py").write_text(
        "import keras\n\n\nclass Bad(keras.optimizers.SGD):\n"
        "    def update_step(self, *given):\n        return self.nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    flags = (
        "--env=CartPole-v1",
        "--num_envs=2",
        "--unroll_length=5",
        "--trajectories_per_update=0",
        "--replay_start=0",
    )
    given = "--optimizer=bad_optimizer:Bad"
    assert main(given, f"--run_dir={tmp_path}/run", "--total_steps=100", *flags) == 1
    *traceback, line = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: stopped: {given} failed: AttributeError: ") and "nothing" in line
    assert any("bad_optimizer.py" in said for said in traceback)


def early(where, tmp_path):
    (tmp_path / "early.py").write_text(EARLY.format(where=where))
    command = [sys.executable, "-m", "acer_tf", "train", "--env=early:Early-v0", f"--run_dir={tmp_path}/run"]
    paths = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True)
    assert not (tmp_path / "run").exists()
    return done.returncode, done.stderr


@pytest.mark.process
@pytest.mark.parametrize("where", ["import", "constructor"])
def test_ctrl_c_before_the_run_begins_is_one_line_and_status_130(where, tmp_path):
    assert early(where, tmp_path) == (130, "stopped by SIGINT\n")


@pytest.mark.process
def test_an_environment_that_cannot_be_made_is_named_after_its_traceback(tmp_path):
    code, said = early("nowhere", tmp_path)
    *shown, line = said.splitlines()
    assert (code, line) == (1, "error: early:Early-v0 failed when it was made: RuntimeError: boom")
    assert shown[0].startswith("Traceback") and shown[-1] == "RuntimeError: boom"


@pytest.mark.xla
@pytest.mark.process
def test_one_seed_on_one_thread_gives_one_progress_file(tmp_path):
    """In two processes, of which one has the replay in a file."""
    flags = ["--seed=5", "--threads=1", "--num_envs=2", "--total_steps=240", "--trajectories_per_update=0"]
    flags += ["--log_interval=50", "--replay_start=20", "--replay_capacity=100"]
    # bfloat16 takes minutes with Nature's network on processors that do not have it.
    runs = [("atari/Pong", "float32"), ("minatar/breakout", "bfloat16")]
    found = []
    for name in ("one", "two"):
        commands = []
        for number, (env, precision) in enumerate(runs):
            place = [f"--run_dir={tmp_path}/{name}{number}"]
            place += [f"--replay_file={tmp_path}/replay{number}"] if name == "two" else []
            commands.append(["train", f"--env={env}", f"--precision={precision}", *flags, *place])
        assert [done.status for done in answers_of(commands, ROOT)] == [0] * len(runs)
        found.append([timeless(tmp_path / f"{name}{number}") for number in range(len(runs))])
    assert found[0] == found[1]
    for rows in found[0]:
        assert int(rows[-1]["replay_updates"]) > 10
        assert float(rows[-1]["replay/gradient_norm"]) > 0
