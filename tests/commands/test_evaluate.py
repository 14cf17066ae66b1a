from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from absl import flags

from acer_tf import envs
from acer_tf.commands import evaluate
from acer_tf.errors import EnvironmentFailure
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import default_network
from acer_tf.policies import evaluation
from acer_tf.policies.export import export_policy
from acer_tf.policies.video import Video
from acer_tf.runs.signals import Terminated

ROOT = Path(__file__).resolve().parents[2]


def export(folder: Path, env: str, preset: str | None = None) -> Path:
    """A random network's policy."""
    spec = envs.spec(env, atari_preset=preset or "acer2016")
    given = {"agent": "acer", "preset": "baselines", "steps": 12, "commit": None, "versions": {}}
    network = Network(spec, architecture=default_network(spec))
    export_policy(network, folder / "policy", {"env": env, "atari_preset": preset, **given})
    return folder / "policy"


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("cartpole"), "CartPole-v1")


def change_metadata(policy: Path, **changes: Any) -> None:
    path = policy / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def run(*arguments: object) -> int:
    try:
        return evaluate.main(["evaluate", *map(str, arguments)])
    except SystemExit as ended:
        return int(ended.code or 0)


def expect_error(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 2) -> str:
    """Runs the script and returns the one line that it says."""
    assert run(*arguments) == status
    said = capsys.readouterr()
    assert said.out == ""
    *before, line = said.err.splitlines()
    assert before == [] and line.startswith("error: ")
    return line


def test_it_prints_the_score(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--policy={cartpole}", "--episodes=3", "--seed=4") == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "CartPole-v1, 3 episodes, sampled actions, seed 4"
    assert run(f"--policy={cartpole}", "--episodes=3", "--seed=4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["gymnasium"] == importlib.metadata.version("gymnasium")
    assert rest == [
        f"  return  {found['mean']:.2f} ± {found['standard_error']:.2f} (mean ± standard error)",
        f"          median {found['median']:.2f}, min {found['min']:.2f}, max {found['max']:.2f}",
        f"  length  {found['mean']:,.0f} steps, {found['mean']:,.0f} frames (mean)",
    ]


def test_a_time_limit_that_was_given_is_shown(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--policy={cartpole}", "--episodes=2", "--max_episode_steps=5") == 0
    assert "cut at 5 steps\n" in capsys.readouterr().out
    assert run(f"--policy={cartpole}", "--episodes=2", "--max_episode_steps=5", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["max_episode_steps"], summary["steps"]) == (5, [5, 5])


def test_cut_episodes_have_no_human_normalised_score() -> None:
    whole = evaluation.EvaluationResult("atari/Pong", False, 0, 1, (1.0,), (9,), (36,))
    cut = dataclasses.replace(whole, max_episode_steps=9)
    metadata = dict.fromkeys(("atari_preset", "agent", "preset", "steps", "frames", "commit"))
    scores = [evaluate._summary(result, metadata)["human_normalized"] for result in (whole, cut)]
    assert scores[0] is not None and scores[1] is None


def test_one_greedy_game_has_no_standard_error(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--policy={cartpole}", "--episodes=1", "--greedy") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("CartPole-v1, 1 episode, greedy actions, seed 0\n")
    assert "±" not in printed


def test_json(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--policy={cartpole}", "--episodes=3", "--json", "--num_envs=2") == 0
    summary = json.loads(capsys.readouterr().out)
    returns = summary["returns"]
    assert len(returns) == summary["episodes"] == 3
    assert summary["mean"] == pytest.approx(sum(returns) / 3)
    assert (summary["min"], summary["max"]) == (min(returns), max(returns))
    assert summary["steps"] == summary["frames"] == returns
    assert (summary["env"], summary["num_envs"], summary["greedy"]) == ("CartPole-v1", 2, False)
    assert summary["max_episode_steps"] is None
    assert (summary["atari_preset"], summary["human_normalized"]) == (None, None)
    assert summary["policy"] == {"agent": "acer", "preset": "baselines", "steps": 12, "frames": 12, "commit": None}


def test_json_of_one_game_is_strict(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"--policy={cartpole}", "--episodes=1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["standard_error"] is None


@pytest.mark.process
def test_atari_has_a_human_normalised_score_and_a_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evaluation, "MAX_FRAMES", 400)
    policy, video = export(tmp_path, "atari/Pong", "acer2016"), tmp_path / "pong.mp4"
    assert run(f"--policy={policy}", "--episodes=2", f"--video={video}") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("atari/Pong acer2016, 2 episodes,")
    assert f"video   {video}" in printed and video.stat().st_size > 1000
    assert run(f"--policy={policy}", "--episodes=2", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["human_normalized"] == pytest.approx((summary["mean"] + 20.7) / (14.6 + 20.7))
    assert summary["steps"] == [100, 100] and summary["frames"] == [400, 400]
    assert f"human-normalised  {summary['human_normalized']:.3f}" in printed


def test_help_describes_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    printed = capsys.readouterr().out
    for name in ("policy=PATH", "episodes=INTEGER", "[no]greedy", "seed=INTEGER", "video=PATH", "[no]json"):
        assert f"  --{name}: " in printed


def test_its_flags_are_its_own() -> None:
    """Another script defines --seed too, in the same process when tests import both."""
    assert "episodes" not in flags.FLAGS


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--episodes=0", "episodes"),
        ("--episodes=many", "episodes"),
        (f"--episodes={10**18}", "episodes"),
        (f"--num_envs={10**18}", "num_envs"),
        ("--seed=-1", "seed"),
        ("--policy=", "--policy="),
        ("--video=", "--video="),
        (f"--video={'a' * 300}.mp4", "File name too long"),
        ("--policy=setup.py/policy", "--policy=setup.py/policy"),
        ("--num_envs=0", "num_envs"),
        ("--greedy=perhaps", "--greedy=perhaps: must be true or false"),
        ("--device=tpu", "--device=tpu"),
        ("--device=gpu:99", "--device=gpu:99"),
        ("--episode=3", "Did you mean: episodes"),
        ("policy", "not a flag: policy"),
    ],
)
def test_a_bad_flag(cartpole: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str) -> None:
    assert message in expect_error(capsys, f"--policy={cartpole}", argument)


def test_no_policy_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--policy is required" in expect_error(capsys)


def test_a_directory_that_is_no_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere is not a policy: it does not exist" in expect_error(capsys, f"--policy={tmp_path / 'nowhere'}")
    assert "no metadata.json, no saved_model.pb" in expect_error(capsys, f"--policy={tmp_path}")
    (tmp_path / "run.json").touch()
    for name in ("policy", "."):
        said = expect_error(capsys, f"--policy={tmp_path / name}")
        assert f"acer_tf export --run_dir={tmp_path} makes a policy" in said


def test_its_bounds_are_those_of_the_evaluation() -> None:
    for name in ("episodes", "num_envs"):
        most, holds = evaluate.FLAGS[name].parser.upper_bound, evaluation.RANGES[name].holds
        assert holds(most) and not holds(most + 1)


def test_an_atari_preset_of_another_game_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = export(tmp_path, "minatar/breakout")
    change_metadata(policy, atari_preset="acer2016")
    assert run(f"--policy={policy}", "--episodes=1", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["atari_preset"], summary["human_normalized"]) == (None, None)


def test_a_module_is_imported_only_if_the_user_names_it(
    cartpole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Path(shutil.copytree(cartpole, tmp_path / "policy"))
    change_metadata(policy, env="my_cartpole:CartPole-v1")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_cartpole.py").touch()
    assert "name it: --env=my_cartpole:CartPole-v1" in expect_error(capsys, f"--policy={policy}")
    assert "my_cartpole" not in sys.modules
    assert run(f"--policy={policy}", "--env=my_cartpole:CartPole-v1", "--episodes=1") == 0
    assert capsys.readouterr().out.startswith("my_cartpole:CartPole-v1, 1 episode")


def test_an_environment_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = export(tmp_path, "minatar/breakout")
    monkeypatch.setitem(sys.modules, "minatar", None)
    assert "pip install 'acer_tf[minatar]'" in expect_error(capsys, f"--policy={policy}")


def test_an_environment_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = export(tmp_path, "CartPole-v1")
    change_metadata(policy, env="CartPool-v1")
    assert "did you mean CartPole-v1" in expect_error(capsys, f"--policy={policy}")


def test_another_environment_than_the_policy_was_made_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = export(tmp_path, "CartPole-v1")
    change_metadata(policy, env="Acrobot-v1")
    said = expect_error(capsys, f"--policy={policy}")
    assert (
        "does not fit the installed Acrobot-v1: observation_shape: (4,) there, (6,) here; num_actions: 2 there" in said
    )


def test_a_video_that_cannot_be_written(cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = tmp_path / "film.avi"
    assert "must be an .mp4 file" in expect_error(capsys, f"--policy={cartpole}", f"--video={video}")


def test_a_full_disk_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Video, "add", fail)
    policy = export(tmp_path, "minatar/breakout")
    line = expect_error(capsys, f"--policy={policy}", f"--video={tmp_path / 'film.mp4'}", status=1)
    assert "No space left on device" in line
    assert os.listdir(tmp_path) == ["policy"]


@pytest.mark.parametrize(("stop", "status"), [(KeyboardInterrupt, 130), (Terminated(signal.SIGHUP), 129)])
def test_an_interruption_gives_no_score(
    cartpole: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stop: BaseException,
    status: int,
) -> None:
    def interrupt(*_: Any) -> None:
        raise stop

    monkeypatch.setattr(evaluation, "_choose", interrupt)
    assert run(f"--policy={cartpole}") == status
    said = capsys.readouterr()
    line = f"stopped by {signal.Signals(status - 128).name} before the last episode ended: no score\n"
    assert (said.out, said.err) == ("", line)


@pytest.mark.process
@pytest.mark.parametrize("flag", ["--episodes=0", "--policy=nowhere"])
def test_a_bad_flag_is_answered_without_loading_tensorflow(flag: str) -> None:
    code = (
        f"import sys; from acer_tf.commands.evaluate import main; status = main(['evaluate', '{flag}'])\n"
        "sys.exit(3 if 'tensorflow' in sys.modules else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


@pytest.mark.process
def test_as_a_program() -> None:
    command = [sys.executable, "-m", "acer_tf", "evaluate", "--episodes=3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --policy ") and done.stderr.count("\n") == 1


def test_an_environment_that_fails_is_named_after_its_traceback(cartpole, monkeypatch, capsys):
    def fail(*_, **__):
        raise EnvironmentFailure("own failed in step(): KeyError: 'x'") from KeyError("x")

    monkeypatch.setattr(evaluation, "evaluate", fail)
    assert evaluate.main(["evaluate", f"--policy={cartpole}"]) == 1
    *shown, line = capsys.readouterr().err.splitlines()
    assert (shown, line) == (["KeyError: 'x'"], "error: own failed in step(): KeyError: 'x'")
