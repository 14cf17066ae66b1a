"""The notice of rewards too large for the critic, by rows that runs have logged."""

import csv
import json
from pathlib import Path

import pytest

from acer_tf.settings import make_settings
from acer_tf.training.reach import Reach
from acer_tf.training.train import train
from tests.training.scripted import LightAgent, small_settings, use_light_agents

RESULTS = Path(__file__).parents[2] / "results"
# Updates, values and targets in the first rows of runs of preset classic without its normalization of rewards, and of
# classic_continuous for Pendulum, at intervals of 1,000, 2,000 and 10,000 steps.
RAW = {
    "Acrobot": [(7, -0.3, -10.2), (30, -1.1, -11.2), (97, -5.0, -14.3), (181, -10.8, -19.2), (217, -13.1, -21.5)],
    "LunarLander": [(30, -0.25, -19.0), (97, -0.9, -17.8), (151, -2.3, -22.6), (217, -4.4, -22.0)],
    "Pendulum": [(1005, -37.0, -84.0), (2050, -170.0, -202.0)],
}
WELL = {
    "near at once": [(7, -0.1, -0.9), (300, -0.5, -0.9)],
    "large values that are reached": [(837, -25.8, -75.5), (1651, -109.4, -114.6)],
    "far again later": [(100, 0.1, 9.0), (190, 4.0, 8.5), (400, 20.0, 40.0), (500, 20.0, 40.0)],
}


def row(updates, value, target, kind="on_policy", of="q_retrace"):
    return {"on_policy_updates": updates, "replay_updates": 0, f"{kind}/value": value, f"{kind}/{of}": target}


def notices(rows, **given):
    reach = Reach(make_settings(env="CartPole-v1", **given))
    return [found for each in rows if (found := reach.notice(each)) is not None]


@pytest.mark.parametrize("rows", RAW.values(), ids=RAW)
@pytest.mark.parametrize(("kind", "of"), [("on_policy", "q_retrace"), ("replay", "q_retrace"), ("on_policy", "return")])
def test_large_rewards_are_noticed_once_and_what_to_do(rows, kind, of):
    (said,) = notices([row(*each, kind, of) for each in rows * 2], normalize_rewards=False)
    assert "--normalize_rewards" in said and "--reward_scale" in said
    (said,) = notices([row(*each, kind, of) for each in rows], normalize_rewards=True, reward_scale=10.0)
    assert "--normalize_rewards" not in said and "--reward_scale below 10" in said


@pytest.mark.parametrize("rows", WELL.values(), ids=WELL)
def test_values_that_come_near_are_not(rows):
    assert notices([row(*each) for each in rows], normalize_rewards=False) == []


def test_rows_without_updates_or_targets_decide_nothing():
    late = [{"on_policy_updates": 0, "replay_updates": 0, "replay/value": None, "replay/q_retrace": None}]
    assert len(notices([*late, *(row(*each, "replay") for each in RAW["Pendulum"])])) == 1
    assert notices([{"on_policy_updates": 0, "replay_updates": n, "replay/value": 1.0} for n in (300, 600)]) == []


def test_no_recorded_run_has_the_notice_but_those_that_fail_for_its_reason():
    settings = make_settings(env="CartPole-v1")
    count, noticed = 0, set()
    for path in RESULTS.rglob("progress.csv"):
        reach = Reach(settings)
        with path.open(newline="") as file:
            for each in csv.DictReader(file):
                if "replay_updates" not in each or reach.rows is None:  # of another program, or decided
                    break
                count += 1
                numbers = {name: float(cell) if cell else None for name, cell in each.items()}
                if reach.notice(numbers):
                    noticed.add(path.parent.name)
                    break
    assert count > 800
    tasks = ("acrobot_v1", "lunarlander_v3", "mountaincar_v0")
    raw = {f"rewards_as_they_are_{task}-seed{seed}" for task in tasks for seed in (0, 1)}
    assert noticed == raw, "of results/classic_preset, which learn least of all there"


def test_it_is_said_and_recorded_once_also_if_the_run_is_stopped_meanwhile(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(LightAgent, "prepare", lambda *_: ["value", "q_retrace"])
    use_light_agents(monkeypatch, lambda update: {"value": 1.0, "q_retrace": 30.0})

    def stop(row, policy):
        if row["steps"] in (200, 400):
            raise InterruptedError

    for stopped in (True, True, False):
        try:
            train(small_settings(replay_ratio=4.0), tmp_path / "run", quiet=True, on_row=stop)
        except InterruptedError:
            assert stopped
    history = json.loads((tmp_path / "run/run.json").read_text())["history"]
    (noted,) = [note for entry in history for note in entry["notes"] if "--reward_scale" in note]
    err = capsys.readouterr().err
    assert err.count(noted) == 1 and str(tmp_path / "run") in err


@pytest.mark.training
@pytest.mark.parametrize("scale", [0.1, 100.0])
def test_in_real_runs_the_scale_of_rewards_decides(tmp_path, capsys, scale):
    given = {"reward_scale": scale, "normalize_rewards": False, "preset": "classic", "replay_ratio": 8.0}
    train(small_settings(**given), tmp_path / "run", quiet=True)
    assert ("--normalize_rewards" in capsys.readouterr().err) == (scale == 100.0)
