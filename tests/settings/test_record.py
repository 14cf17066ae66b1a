"""Settings in records: how they are written and read, and how two differ."""

import json
import math

import pytest

from acer_tf.settings import Settings, make_settings
from acer_tf.settings.record import changed, differences, idle, settings_document, settings_from
from tests.settings.test_presets import BASELINES


def test_differences_name_each_setting_with_both_values():
    assert differences({"a": 1, "b": 2.0, "c": "x"}, {"a": 1.0, "b": 3.0, "d": None}) == [
        "b: 2.0 there, 3.0 here",
        "c: x there, (absent) here",
        "d: (absent) there, None here",
    ]
    assert differences({"a": None}, {}) == ["a: None there, (absent) here"]
    assert differences(BASELINES, BASELINES) == []


def test_a_record_may_be_older_than_a_setting():
    settings = make_settings({"env": "atari/Pong", "seed": 3})
    document = settings_document(settings)
    older = {name: value for name, value in document.items() if name != "burn_in"}
    assert differences(older, document) == [] == differences(document, older)
    assert differences(older, document | {"burn_in": 3}) == ["burn_in: 10 there, 3 here"]
    assert settings_from(older) == settings
    # The default, not the value of today's preset.
    preset = {"env": "atari/Pong", "agent": "dqn", "preset": "ddqn_tuned"}
    older = {n: v for n, v in settings_document(make_settings(preset)).items() if n != "num_envs"}
    assert settings_from(older).num_envs == Settings("atari/Pong").num_envs != make_settings(preset).num_envs


def test_a_record_holds_infinities_as_flags_take_them():
    settings = make_settings({"env": "CartPole-v1", "agent": "a3c"})
    document = settings_document(settings)
    assert (document["reward_clip"], document["trust_region_delta"]) == (None, "inf")
    assert settings_from(json.loads(json.dumps(document, allow_nan=False))) == settings


def test_what_differs_from_the_defaults_identifies_a_run():
    assert changed(Settings("CartPole-v1")) == {"env": "CartPole-v1"}
    assert changed(Settings("CartPole-v1", seed=2, trust_region_delta=math.inf)) == {
        "env": "CartPole-v1",
        "seed": 2,
        "trust_region_delta": "inf",
    }


@pytest.mark.parametrize(
    ("priority", "unread", "read"),
    [
        ("uniform", {"priority_exponent", "importance_exponent", "priority_epsilon"}, {"replay_batch"}),
        ("rank", {"priority_epsilon"}, {"priority_exponent", "importance_exponent"}),
        ("proportional", set(), {"priority_exponent", "importance_exponent", "priority_epsilon"}),
    ],
)
def test_the_settings_of_priorities_that_a_record_did_not_read(priority, unread, read):
    found = idle({"replay_priority": priority})
    assert unread <= found
    assert not read & found
