"""Videos of evaluations: what they show, and that they are whole or not there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pytest

from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.policies import evaluation
from acer_tf.policies.evaluation import evaluate
from acer_tf.types import EnvironmentSpec, TimeStep
from tests.policies.conftest import FakePolicy, ScriptedEnvironment, real_policy, run


def pictures(path: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    reader: Any
    with imageio.get_reader(path) as reader:
        return list(reader.iter_data()), reader.get_meta_data()


@pytest.mark.process
def test_atari_video_shows_the_first_episode_of_the_first_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MAX_FRAMES", 120)
    policy = real_policy(tmp_path, "atari/Pong", "acer2016")
    result = evaluate(policy, episodes=3, num_envs=2, video=tmp_path / "pong.mp4")
    frames, about = pictures(tmp_path / "pong.mp4")
    assert len(frames) == result.steps[0] + 1
    assert (about["fps"], about["size"]) == (15, (160, 210))
    assert np.ptp(frames[0].astype(int), axis=2).max() > 50  # in colour
    assert result == evaluate(policy, episodes=3, num_envs=2)


@pytest.mark.process
def test_minatar_video(tmp_path: Path) -> None:
    policy = real_policy(tmp_path, "minatar/breakout")
    result = evaluate(policy, episodes=3, num_envs=2, video=tmp_path / "film.MP4")
    frames, about = pictures(tmp_path / "film.MP4")
    assert (len(frames), about["fps"], about["size"]) == (result.steps[0] + 1, 10, (160, 160))
    assert result == evaluate(policy, episodes=3, num_envs=2)


@pytest.mark.process
def test_gymnasium_video(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    policy = real_policy(tmp_path, "CartPole-v1")
    result = evaluate(policy, episodes=3, num_envs=2, video=tmp_path / "film.mp4")
    frames, about = pictures(tmp_path / "film.mp4")
    assert (len(frames), about["fps"], about["size"]) == (result.steps[0] + 1, 50, (600, 400))
    assert result == evaluate(policy, episodes=3, num_envs=2)


def test_an_environment_that_cannot_render_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(InvalidEnvironment, match=r"pygame.*acer_tf\[classic\]"):
        run(FakePolicy("CartPole-v1", EnvironmentSpec((4,), "float32", 1, 2)), video=tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_video_has_every_picture_once_and_even_sides(scripted: list[ScriptedEnvironment], tmp_path: Path) -> None:
    run(FakePolicy("Any-v0"), episodes=4, num_envs=2, video=tmp_path / "film.mp4")
    frames, about = pictures(tmp_path / "film.mp4")
    assert (len(frames), about["size"]) == (2, (212, 162))
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("film.gif", "must be an .mp4 file"),
        ("film", "must be an .mp4 file"),
        ("folder.mp4", "is a folder"),
        ("missing/film.mp4", "cannot be written: No such file"),
        ("file/film.mp4", "cannot be written: Not a directory"),
    ],
)
def test_a_video_that_cannot_be_written_is_refused_before_anything_starts(
    scripted: list[ScriptedEnvironment], tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "file").touch()
    policy = FakePolicy("Any-v0")
    with pytest.raises(SettingsError, match=f"--video=.*{name}: {message}"):
        run(policy, video=tmp_path / name)
    assert (scripted, policy.calls) == ([], 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.mp4"]


@pytest.mark.process
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupted_evaluation_leaves_a_whole_video_or_none(
    scripted: list[ScriptedEnvironment],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    calls: int,
) -> None:
    """Environment 0's episode, the one in the video, ends with the first step."""
    video, policy, step = tmp_path / "film.mp4", FakePolicy("Any-v0"), ScriptedEnvironment.step

    def stop(self: ScriptedEnvironment, action: np.ndarray) -> TimeStep:
        if policy.calls == calls:
            raise error("stop")
        return step(self, action)

    monkeypatch.setattr(ScriptedEnvironment, "step", stop)
    video.write_text("an earlier one")
    with pytest.raises(error):
        run(policy, episodes=2, num_envs=2, video=video)
    assert scripted[0].closed
    assert list(tmp_path.iterdir()) == [video]
    if calls == 1:
        assert video.read_text() == "an earlier one"
    else:
        assert len(pictures(video)[0]) == 2


def test_a_video_that_ffmpeg_cannot_finish_is_one_line(
    scripted: list[ScriptedEnvironment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def append_data(self, _: np.ndarray) -> None:
            raise OSError("[Errno 32] Broken pipe\n\nFFMPEG COMMAND:\nffmpeg -y\n\nFFMPEG STDERR OUTPUT:\n")

        def close(self) -> None:
            pass

    monkeypatch.setattr("imageio.v2.get_writer", lambda *_, **__: Full())
    video = tmp_path / "film.mp4"
    with pytest.raises(OSError, match=f"^--video={video} "):
        run(FakePolicy("Any-v0"), episodes=1, num_envs=1, video=video)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "env_id, clock, fps",
    [("control/cheetah", 100.0, 100), ("dm_control/fish-swim-v0", 25.0, 25), ("minatar/breakout", None, 10)]
    + [("Pendulum-v1", None, 30), ("atari/Pong", None, 15)],
)
def test_a_video_runs_in_simulated_time(env_id, clock, fps):
    world: Any = SimpleNamespace(steps_per_second=clock)
    assert evaluation._video_fps(env_id, world) == fps
