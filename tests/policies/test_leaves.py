"""Policies of observations with leaves, and of actions that are arrays: in every format, by the names of the leaves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from acer_tf.envs.spaces import spec_of
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import Dense
from acer_tf.policies.export import export_policy
from acer_tf.policies.formats import FORMATS, convert
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.types import EnvironmentSpec
from tests.core import first_in_core
from tests.policies.test_any_input import page_function
from tests.policies.test_export import make_metadata
from tests.policies.test_formats import RUNNERS, TOLERANCE, difference, renamed

# Two leaves are called as other inputs and answers are.
SEEN = spaces.Dict(
    image=spaces.Box(0, 10, (7, 6, 2), np.uint8),
    goal=spaces.Dict({"at": spaces.Box(-np.inf, np.inf, (2,)), "which one?": spaces.Discrete(3)}),
    state=spaces.Box(-1, 1, (2, 2)),
    VALUE=spaces.MultiBinary(4),
)
INPUTS = {
    "goal/at": "observation_goal_at",
    "goal/which one?": "observation_goal_which_one_",
    "image": "observation_image",
    "state": "observation_state",
    "VALUE": "observation_value",
}
MOVES = spaces.MultiDiscrete([[2, 3], [1, 4]], start=[[-3, 0], [7, 1]])
KINDS: dict[str, tuple[spaces.Space, Any]] = {
    "combined": (MOVES, lambda spec: Network(spec, architecture="combined", precision="bfloat16")),
    "normalised": (MOVES, lambda spec: Network(spec, architecture="combined", dense=Dense(normalize_inputs=True))),
    "mlp": (spaces.MultiBinary(3), lambda spec: Network(spec, architecture="mlp", policy="epsilon_greedy")),
    "lstm": (MOVES, lambda spec: Network(spec, architecture="combined", lstm_units=256)),
    "far": (spaces.MultiDiscrete([2, 2], start=[2**40, -(2**40)]), lambda spec: Network(spec, architecture="mlp")),
    "continuous": (spaces.Box(-2, 5, (2,)), lambda spec: ContinuousNetwork(spec, critic="none")),
}


def drawn(spec: EnvironmentSpec, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    seen = {}
    for name, shape in spec.observation_shape.items():
        high = (spec.observation_scale[name] or 1) + 1
        values = rng.normal(size=(count, *shape)) if "float" in spec.observation_dtype[name] else rng.integers(high)
        seen[name] = np.broadcast_to(values, (count, *shape)).astype(spec.observation_dtype[name])
    return seen


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Policy]:
    policies = {}
    for kind, (actions, make) in KINDS.items():
        network, rng = make(spec_of("", SEEN, actions)), np.random.default_rng(1)
        for variable in network.trainable_variables:
            if variable.path.endswith(("policy/kernel", "mean/kernel", "q/kernel")):
                variable.assign(rng.normal(scale=0.2, size=variable.shape))
        if network.normalization is not None:
            network.normalization.mean.assign(rng.normal(size=network.normalization.size))
            network.normalization.variance.assign(rng.uniform(0.3, 3.0, network.normalization.size))
        folder = tmp_path_factory.mktemp(kind) / "policy"
        export_policy(network, folder, make_metadata("Any-v0"))
        policies[kind] = load_policy(folder)
        if kind == "normalised":
            seen = drawn(network.spec, 30)
            np.testing.assert_allclose(policies[kind].q(seen), network(seen)[1], rtol=1e-4, atol=1e-5)
    return policies


@pytest.mark.parametrize("kind", first_in_core(KINDS))
def test_every_format_takes_the_leaves_by_name(kind: str, exported: dict[str, Policy], tmp_path: Path) -> None:
    policy, (actions, _) = exported[kind], KINDS[kind]
    assert policy.spec == spec_of("", SEEN, actions)
    observation, state = drawn(policy.spec, 40), policy.initial_state(40)
    wanted = policy.answer(dict(reversed(observation.items())), state)
    for name in ("action", "greedy_action"):
        assert all(actions.contains(action.astype(actions.dtype)) for action in wanted[name])
    assert len(np.unique(wanted["greedy_action"], axis=0)) > 1
    inputs = {INPUTS[name]: leaf for name, leaf in observation.items()}
    inputs |= {"state": state} if policy.state_size else {}
    served = policy.signature(**{name: tf.constant(value) for name, value in inputs.items()})
    assert difference("q", wanted["greedy_action"], served["greedy_action"].numpy()) <= TOLERANCE
    for name in FORMATS:
        convert(policy, tmp_path / f"policy.{name}", name)
        got = RUNNERS[name](tmp_path / f"policy.{name}")(**inputs)
        assert got.keys() == renamed(wanted).keys()
        for answer, value in renamed(wanted).items():
            assert difference(answer, value, got[answer]) <= TOLERANCE, (name, answer)


def test_the_metadata_says_how_numbers_are_actions(exported: dict[str, Policy]) -> None:
    policy = exported["combined"]
    metadata = json.loads(json.dumps(policy.metadata))
    assert metadata["observation_shape"]["goal/at"] == [2]
    answer = policy.answer(drawn(policy.spec, 40))
    sizes = np.array(metadata["action_sizes"])
    parts = np.stack(np.unravel_index(answer["probabilities"].argmax(axis=1), sizes.ravel()), axis=1)
    native = parts.reshape(-1, *sizes.shape) + np.array(metadata["action_start"])
    np.testing.assert_array_equal(answer["greedy_action"], native)
    # As docs/policies.md samples them from the other formats' answers.
    sampled = page_function()(answer, metadata, np.random.default_rng(0))
    assert sampled.shape == answer["action"].shape and all(MOVES.contains(action) for action in sampled)
    assert len(np.unique(sampled, axis=0)) > 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": None}, "expected observation/VALUE, .*, got "),
        ({"other": np.zeros((2, 1))}, "expected observation/VALUE, .*, got .*observation/other"),
        ({"image": np.zeros((2, 6, 7, 2), np.uint8)}, r"expected observations/image of shape \('N', 7, 6, 2\), got "),
        ({"image": np.zeros((2, 7, 6, 2))}, "expected uint8 observations/image, got float64"),
        ({"goal/at": np.full((2, 2), np.nan)}, "expected finite float32 observations/goal/at, got nan"),
        ({"VALUE": np.zeros((3, 4), np.uint8)}, r"expected equally many observations of each name, got \[2, 3\]"),
    ],
)
def test_other_leaves_are_refused(changes: dict[str, Any], message: str, exported: dict[str, Policy]) -> None:
    policy = exported["mlp"]
    given = {name: leaf for name, leaf in (drawn(policy.spec, 2) | changes).items() if leaf is not None}
    with pytest.raises(ValueError, match=message):
        policy(given)
    with pytest.raises(ValueError, match="expected observation/VALUE, .*, got observation$"):
        policy(np.zeros((2, 4), np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Dimension 0 in both shapes must be equal"):
        policy.signature(
            **{INPUTS[name]: tf.constant(leaf[: 2 - (name == "image")]) for name, leaf in drawn(policy.spec, 2).items()}
        )
