"""The policies under results/policies load, are small, and are those named by their evaluations."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from acer_tf import load_policy

POLICIES = Path(__file__).parents[2] / "results" / "policies"
SHIPPED = sorted(path.parent for path in POLICIES.glob("*/saved_model.pb"))


def test_there_are_some():
    assert SHIPPED


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_policy_is_what_was_evaluated(folder):
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 8e6
    policy, evaluation = load_policy(folder), json.loads(folder.with_suffix(".json").read_text())
    made = policy.metadata
    assert evaluation["env"] == made["env"]
    assert evaluation["policy"] == {name: made[name] for name in ("agent", "preset", "steps", "frames", "commit")}
    assert evaluation["episodes"] == len(evaluation["returns"]) == 30
    assert evaluation["mean"] == pytest.approx(np.mean(evaluation["returns"]))
    assert folder.with_suffix(".mp4").stat().st_size > 10_000
    observation = np.zeros((2, *policy.spec.observation_shape), policy.spec.observation_dtype)
    assert all(np.isfinite(value).all() for value in policy.answer(observation, policy.initial_state(2)).values())


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_tensorflow_alone_gets_an_error_or_an_action_from_a_shipped_policy(folder):
    """As from today's exports; results/policies/export_again.py makes one of a policy that has older ones' faults."""
    spec, served = load_policy(folder).spec, tf.saved_model.load(str(folder)).signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        served(observation=tf.zeros((2, 1, *spec.observation_shape), spec.observation_dtype))
    if spec.observation_dtype == "float32":
        action = served(observation=tf.fill((2, *spec.observation_shape), np.nan))["action"]
        assert ((action >= spec.action_low) & (action <= spec.action_high)).numpy().all()
