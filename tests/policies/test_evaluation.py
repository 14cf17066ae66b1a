"""Evaluations: their episodes and scores, actions, protocol on Atari, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from acer_tf import envs, resources
from acer_tf.envs.families import ATARI_PRESETS
from acer_tf.errors import InvalidEnvironment, NonFinitePolicy, PolicyError, SettingsError
from acer_tf.policies import evaluation
from acer_tf.policies.evaluation import EvaluationResult, evaluate
from acer_tf.settings import make_settings
from acer_tf.training.build import make_actor
from tests.core import first_in_core
from tests.policies.conftest import SPEC, FakePolicy, ScriptedEnvironment, real_policy, run

# Episodes and scores


def test_each_environment_runs_a_fixed_share_of_whole_episodes(scripted: list[ScriptedEnvironment]) -> None:
    """Environment 0 could finish 7 episodes while environment 2 finishes 2: the mean would be far too low."""
    result = run(FakePolicy("Any-v0"), episodes=7, num_envs=3)
    assert result.returns == (1, 1, 1, 22, 22, 63, 63)
    assert result.steps == (1, 1, 1, 2, 2, 3, 3)
    assert result.frames == (3, 3, 3, 6, 6, 9, 9)
    assert (result.env, result.episodes, result.num_envs) == ("Any-v0", 7, 3)
    assert scripted[0].closed


def test_what_was_evaluated_stands_where_environments_cannot_be_closed(
    scripted: list[ScriptedEnvironment], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def close(self: ScriptedEnvironment) -> None:
        raise BrokenPipeError("its program has ended")

    monkeypatch.setattr(ScriptedEnvironment, "close", close)
    assert run(FakePolicy("Any-v0"), episodes=2, num_envs=2, env_workers=10**10).returns == (1, 22)
    assert capsys.readouterr().err == "warning: BrokenPipeError: its program has ended\n"


def test_no_more_environments_than_episodes(scripted: list[ScriptedEnvironment]) -> None:
    assert run(FakePolicy("Any-v0"), episodes=2, num_envs=16).num_envs == scripted[0].num_envs == 2


def test_statistics() -> None:
    returns = (1.0, 2.0, 3.0, 10.0)
    result = EvaluationResult("Any-v0", False, 0, 1, returns, (1,) * 4, (1,) * 4)
    assert (result.mean, result.median) == (4.0, 2.5)
    assert result.standard_error == pytest.approx((50 / 3) ** 0.5 / 2)  # 50 = 9 + 4 + 1 + 36
    assert dataclasses.replace(result, returns=(5.0,)).standard_error is None


def test_real_episodes_are_reproducible(tmp_path: Path) -> None:
    policy = real_policy(tmp_path, "CartPole-v1")
    first, again, other, greedy = (
        evaluate(policy, episodes=5, num_envs=2, seed=seed, greedy=greedy)
        for seed, greedy in ((0, False), (0, False), (1, False), (0, True))
    )
    assert first == again
    assert first.returns == first.steps == first.frames  # 1 a step
    assert len({first.returns, other.returns, greedy.returns}) == 3
    assert evaluate(policy, episodes=5, num_envs=2, greedy=True) == greedy


def test_minatar(tmp_path: Path) -> None:
    result = evaluate(real_policy(tmp_path, "minatar/breakout"), episodes=3)
    assert all(r >= 0 for r in result.returns) and all(n > 1 for n in result.steps)


class Endless(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 1.0, False, False, {}


def test_episodes_without_end_are_cut_where_the_caller_says() -> None:
    policy = FakePolicy("Endless-v0", dataclasses.replace(SPEC, frames_per_step=1))
    result = run(policy, episodes=3, num_envs=2, max_episode_steps=7, env=Endless)
    assert result.steps == result.returns == (7, 7, 7) and result.max_episode_steps == 7


def test_episodes_that_stay_behind_are_named_although_others_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two environments is endless; the other one goes on after its share."""
    monkeypatch.setattr(evaluation, "_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(evaluation, "_ENDLESS_SECONDS", 0.05)
    made = itertools.count()
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if "--max_episode_steps" in line or len(lines) > 100_000:
            raise KeyboardInterrupt

    def make() -> Any:
        return TimeLimit(Endless(), 1) if next(made) % 2 else Endless()

    with pytest.raises(KeyboardInterrupt):
        run(FakePolicy("Endless-v0", dataclasses.replace(SPEC, frames_per_step=1)), env=make, report=report)
    assert "--max_episode_steps" in lines[-1] and not lines[-2].startswith("0/")


@pytest.mark.parametrize("limited", [False, True])
def test_an_environment_without_a_time_limit_is_said_to_be_so_while_no_episode_ends(
    limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_REPORT_SECONDS", 0.0)
    policy = FakePolicy("Endless-v0", dataclasses.replace(SPEC, frames_per_step=1))
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if len(lines) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(policy, env=lambda: TimeLimit(Endless(), 9) if limited else Endless(), report=report)
    hints = [line for line in lines if "--max_episode_steps" in line and "Endless-v0" in line]
    assert hints == ([] if limited else lines[1:2])


@pytest.mark.parametrize("steps", first_in_core([5, 10**6]))
def test_the_limit_of_an_environment_s_own_stays(steps: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(evaluation, "MAX_FRAMES", 120)
    result = evaluate(real_policy(tmp_path, "atari/Pong", "acer2016"), episodes=2, max_episode_steps=steps)
    assert result.steps == (min(steps, 30),) * 2


# Actions


def test_actions_are_drawn_from_the_probabilities() -> None:
    random = np.random.default_rng(0)
    probabilities = np.tile(np.array([0, 0.5, 0, 0.3, 0.2, 0], np.float32), (40_000, 1))
    share = np.bincount(evaluation._choose({"probabilities": probabilities}, random), minlength=6) / 40_000
    np.testing.assert_allclose(share, probabilities[0], atol=0.0125)  # 5 standard errors
    assert (share[[0, 2, 5]] == 0).all()


def test_a_sum_just_below_one_needs_no_care() -> None:
    class Highest(np.random.Generator):
        def random(self, *_: Any, **__: Any) -> Any:
            return np.array([np.nextafter(1.0, 0.0)])

    random = Highest(np.random.PCG64(0))
    assert evaluation._choose({"probabilities": np.array([[0.3333, 0.3333, 0.3333, 0.0]], np.float32)}, random) == [2]


def test_greedy_takes_the_first_of_the_most_probable() -> None:
    assert evaluation._choose({"probabilities": np.array([[0.2, 0.4, 0.4], [1, 0, 0]], np.float32)}, None).tolist() == [
        1,
        0,
    ]


def test_a_policy_that_is_not_finite_is_refused(scripted: list[ScriptedEnvironment]) -> None:
    policy = FakePolicy("Any-v0")
    policy.shares = np.array([np.nan, 1.0], np.float32)
    for greedy in (False, True):
        with pytest.raises(NonFinitePolicy, match="not finite"):
            run(policy, greedy=greedy)
    assert all(env.closed for env in scripted)


# Atari


@pytest.mark.parametrize("name", ATARI_PRESETS)
def test_atari_runs_as_trained_but_under_the_evaluation_protocol(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen: dict[str, Any] = {}

    def make(
        env_id: str, num_envs: int, seed: Any, *, atari_preset: Any, render: bool, **_: Any
    ) -> ScriptedEnvironment:
        seen.update(env=env_id, preset=atari_preset, render=render, seed=seed)
        return ScriptedEnvironment([1])

    monkeypatch.setattr(envs, "make", make)
    trained = dataclasses.replace(ATARI_PRESETS[name], max_frames=1000, life_loss_ends_return=True)
    run(FakePolicy("atari/Pong", preset=trained), episodes=1, seed=5)
    expected = dataclasses.replace(trained, max_no_ops=30, max_frames=108_000, life_loss_ends_return=False)
    assert seen["preset"] == expected
    assert (seen["env"], seen["render"]) == ("atari/Pong", False)
    # Training's seeds are (seed, steps), which NumPy pads with zeros.
    assert seen["seed"][0] == 5 and any(seen["seed"][2:])


@pytest.mark.parametrize("preset", first_in_core(ATARI_PRESETS))
def test_a_long_episode_is_truncated_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str) -> None:
    monkeypatch.setattr(evaluation, "MAX_FRAMES", 120)
    policy = real_policy(tmp_path, "atari/Pong", preset)
    result = evaluate(policy, episodes=3, num_envs=2)
    assert result.frames == (120,) * 3 and result.steps == (30,) * 3
    assert policy.spec.num_actions == (18 if preset == "machado2018" else 6)


def test_a_policy_of_another_environment_is_refused_for_what_it_sees() -> None:
    with pytest.raises(PolicyError, match=r"^the policy does not fit the installed atari/Pong: observation_shape"):
        run(FakePolicy("Any-v0"), env="atari/Pong")


def test_an_atari_policy_that_lost_its_preset_is_damaged() -> None:
    with pytest.raises(PolicyError, match="^the policy's atari_preset_values are not those of an Atari preset"):
        run(FakePolicy("atari/Pong"))


def test_processes_for_what_threads_step_are_refused_as_they_were_asked_for() -> None:
    policy = FakePolicy("atari/Pong", preset=ATARI_PRESETS["acer2016"])
    with pytest.raises(InvalidEnvironment, match="^--env_workers=5: atari/Pong is stepped by threads of one process$"):
        run(policy, episodes=7, env_workers=5)


def test_a_preset_of_other_fields_is_refused() -> None:
    policy = FakePolicy("atari/Pong", preset=ATARI_PRESETS["acer2016"])
    policy.metadata["atari_preset_values"] = {"frame_skip": 4, "colour": True}
    with pytest.raises(PolicyError, match="colour, fire_at_start"):
        run(policy)


@pytest.mark.parametrize(
    ("name", "value"),
    [("height", 0), ("stack", "4"), ("frame_skip", -1), ("sticky_probability", 5.0), ("grayscale", 1), ("width", None)],
)
def test_values_that_no_preset_can_have_are_refused(name: str, value: Any) -> None:
    """ALE would wait forever, or raise something of its own."""
    policy = FakePolicy("atari/Pong", preset=ATARI_PRESETS["acer2016"])
    policy.metadata["atari_preset_values"][name] = value
    with pytest.raises(PolicyError, match=f"{name}$"):
        run(policy)


# What cannot be evaluated


@pytest.mark.parametrize("name", ["episodes", "num_envs"])
def test_a_number_that_no_machine_can_hold_is_refused(scripted: list[ScriptedEnvironment], name: str) -> None:
    with pytest.raises(SettingsError, match=f"--{name}={10**18}: .*at most"):
        run(FakePolicy("Any-v0"), **{name: 10**18})
    assert scripted == []


def test_a_module_that_only_the_metadata_names_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evilmod.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    for env in ("evilmod:x-v0", "dm_control/evilmod:x-v0"):
        with pytest.raises(InvalidEnvironment, match=f"--env={env}"):
            run(FakePolicy(env))
    assert not (tmp_path / "imported").exists()
    with pytest.raises(InvalidEnvironment):
        run(FakePolicy("Any-v0"), env="evilmod:x-v0")
    assert (tmp_path / "imported").exists()


def test_a_colon_in_an_argument_names_no_module(scripted: list[ScriptedEnvironment]) -> None:
    assert run(FakePolicy("Any-v0,start=10:30"), episodes=1).env == "Any-v0,start=10:30"


def test_the_environment_that_the_caller_names_is_used(tmp_path: Path) -> None:
    policy = real_policy(tmp_path, "CartPole-v1")
    assert evaluate(policy, episodes=1, env="CartPole-v0").env == "CartPole-v0"


@pytest.mark.parametrize(("name", "value"), [("episodes", 0), ("num_envs", 0), ("seed", -1), ("max_episode_steps", 0)])
def test_a_number_out_of_range_is_refused(scripted: list[ScriptedEnvironment], name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=f"--{name}={value}: .*{value + 1}"):
        run(FakePolicy("Any-v0"), **{name: value})
    assert scripted == []


@pytest.mark.parametrize("name", ["episodes", "num_envs", "seed", "max_episode_steps", "env_workers", "threads"])
def test_a_number_that_is_not_whole_is_refused(scripted: list[ScriptedEnvironment], name: str) -> None:
    with pytest.raises(SettingsError, match=f"--{name}=1.5: must be a whole number"):
        run(FakePolicy("Any-v0"), **{name: 1.5})
    assert scripted == []


@pytest.mark.parametrize("env_id", ["atari/Pong", "dm_control/fish-swim-v0"])
def test_more_environments_than_memory_holds_are_refused(
    env_id: str, scripted: list[ScriptedEnvironment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 10**9)
    with pytest.raises(SettingsError, match=f"--num_envs=1000: .*{env_id}.* 1.0 GB"):
        run(FakePolicy(env_id), episodes=1000, num_envs=1000)
    assert scripted == []


def test_an_environment_other_than_the_trained_one_is_refused(scripted: list[ScriptedEnvironment]) -> None:
    policy = FakePolicy("Any-v0", dataclasses.replace(SPEC, num_actions=3))
    with pytest.raises(PolicyError, match="Any-v0.*num_actions: 3 there, 2 here$"):
        run(policy)
    assert scripted[0].closed


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(InvalidEnvironment, match="CartPole"):
        run(FakePolicy("CartPool-v1"))


def test_progress_is_reported(scripted: list[ScriptedEnvironment], monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    run(FakePolicy("Any-v0"), episodes=2, num_envs=2, report=lines.append)
    assert lines == []  # it took less than 10 seconds
    monkeypatch.setattr(evaluation, "_REPORT_SECONDS", 0.0)
    run(FakePolicy("Any-v0"), episodes=2, num_envs=2, report=lines.append)
    assert [line.rpartition(", ")[0] for line in lines] == ["1/2 episodes, 2 steps", "2/2 episodes, 3 steps"]


def test_continuous_actions_are_drawn_around_the_mean_or_are_it() -> None:
    mean, std = np.tile(np.array([0.5, -2.0], np.float32), (20_000, 1)), np.full((20_000, 2), 0.3, np.float32)
    answer = {"mean": mean, "std": std, "action": mean + 9}
    drawn = evaluation._choose(answer, np.random.default_rng(0))
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(axis=0), mean[0], atol=0.012)
    np.testing.assert_allclose(drawn.std(axis=0), 0.3, rtol=0.03)
    assert np.array_equal(evaluation._choose(answer, None), mean)
    with pytest.raises(PolicyError, match="not finite"):
        evaluation._choose({"mean": mean * np.nan, "std": std}, None)


def test_no_actor_plays_the_episodes_of_an_evaluation_by_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    made, spec = list[int](), envs.spec("CartPole-v1")

    def make(env_id: str, num_envs: int, seed: Any, *, first: int, **options: Any) -> Any:
        made.extend(np.random.SeedSequence(seed).generate_state(first + num_envs)[first:])
        return SimpleNamespace(num_envs=num_envs, pauses=False, spec=spec)

    monkeypatch.setattr(envs, "make", make)
    settings = make_settings(env="CartPole-v1", num_envs=8, actors=4, network="mlp")
    for steps in range(3):
        for group in range(4):
            make_actor(settings, lambda *_: None, steps, group)
    assert len(set(made)) == len(made) == 3 * 8
    assert not set(made) & set(np.random.SeedSequence((0, 0, 1)).generate_state(100))


def test_the_folder_of_a_policy_may_stand_for_it():
    folder = Path(__file__).parents[2] / "results" / "policies"
    with pytest.raises(PolicyError, match="nowhere is not a policy"):
        evaluate(str(folder / "nowhere"))
