"""Exported policies of environments with action masks: the answers, and what is no mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from acer_tf.networks.discrete import Network
from acer_tf.policies.export import export_policy
from acer_tf.policies.formats import FORMATS, convert
from acer_tf.policies.policy import UNMASKED, Policy, load_policy
from acer_tf.types import EnvironmentSpec
from tests.core import first_in_core
from tests.policies.test_export import make_metadata
from tests.policies.test_formats import RUNNERS, difference, renamed

A, COUNT = 6, 40
SPEC = EnvironmentSpec((3,), "float32", 1, A, action_start=10, action_masks=True)
COMPOSITE = EnvironmentSpec((3,), "float32", 1, A, action_sizes=(2, 3), action_masks=True)
KINDS = {
    "softmax": lambda: Network(SPEC, architecture="mlp"),
    "epsilon_greedy": lambda: Network(SPEC, architecture="mlp", policy="epsilon_greedy", evaluation_epsilon=0.3),
    "recurrent": lambda: Network(SPEC, architecture="mlp", lstm_units=256),
    "composite": lambda: Network(COMPOSITE, architecture="mlp"),
}


def made(kind: str, folder: Path, scale: float = 0.5) -> tuple[Network, Policy]:
    network, rng = KINDS[kind](), np.random.default_rng(1)
    for variable in network.trainable_variables:
        variable.assign(scale * rng.normal(size=variable.shape))
    export_policy(network, folder / "policy", make_metadata("Any-v0"))
    return network, load_policy(folder / "policy")


def masks_of(rng: np.random.Generator, count: int = COUNT) -> np.ndarray:
    masks = rng.random((count, A)) < 0.4
    masks[np.arange(count), rng.integers(0, A, count)] = True
    return masks


def numbers(spec: EnvironmentSpec, actions: np.ndarray) -> np.ndarray:
    """The agent's numbers of the environment's actions."""
    if not spec.action_sizes:
        return actions - spec.action_start
    return np.ravel_multi_index(tuple(actions.T), spec.action_sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_is_the_network_s_and_its_actions_are_valid(kind: str, tmp_path: Path) -> None:
    network, policy = made(kind, tmp_path)
    rng = np.random.default_rng(0)
    observation, masks = rng.normal(size=(COUNT, 3)).astype(np.float32), masks_of(rng)
    state = policy.initial_state(COUNT)
    answer = policy.answer(observation, state, masks)
    if network.exploration is not None:
        network.exploration.epsilon.assign(0.3)
    probabilities, q, _ = network(observation, tf.constant(state), masks)
    np.testing.assert_allclose(answer["probabilities"], probabilities, atol=1e-6)
    np.testing.assert_allclose(answer["q"], q, rtol=1e-5, atol=1e-5)
    assert not answer["probabilities"][~masks].any()
    np.testing.assert_allclose(answer["probabilities"].sum(axis=1), 1, atol=1e-5)
    rows = np.arange(COUNT)
    for name in ("action", "greedy_action"):
        assert masks[rows, numbers(policy.spec, answer[name])].all()
    np.testing.assert_array_equal(numbers(policy.spec, answer["greedy_action"]), probabilities.numpy().argmax(axis=1))
    everything = policy.answer(observation, state)["probabilities"]
    np.testing.assert_array_equal(everything, policy.answer(observation, state, np.ones((COUNT, A)))["probabilities"])
    assert (everything > 0).all() or kind == "epsilon_greedy"
    served = tf.saved_model.load(str(tmp_path / "policy")).signatures[UNMASKED]
    inputs = {"observation": observation} | ({"state": state} if policy.state_size else {})
    assert served.structured_input_signature[1].keys() == inputs.keys()
    unmasked = served(**{name: tf.constant(value) for name, value in inputs.items()})
    np.testing.assert_array_equal(unmasked["probabilities"], everything)
    np.testing.assert_array_equal(unmasked["greedy_action"], policy.answer(observation, state)["greedy_action"])


@pytest.mark.parametrize("kind", first_in_core(KINDS))
def test_the_formats_take_masks_too(kind: str, tmp_path: Path) -> None:
    _, policy = made(kind, tmp_path)
    rng = np.random.default_rng(2)
    inputs = {"observation": rng.normal(size=(COUNT, 3)).astype(np.float32), "action_mask": masks_of(rng)}
    if policy.state_size:
        inputs["state"] = rng.normal(size=(COUNT, policy.state_size)).astype(np.float32)
    wanted = renamed(policy.answer(inputs["observation"], inputs.get("state"), inputs["action_mask"]))
    for name in FORMATS:
        convert(policy, tmp_path / f"policy.{name}", name)
        got = RUNNERS[name](tmp_path / f"policy.{name}")(**inputs)
        assert got.keys() == wanted.keys()
        for answer, value in got.items():
            assert difference(answer, wanted[answer], value) < 1e-5, (name, answer)
        assert not got["probabilities"][~inputs["action_mask"]].any()


def test_actions_of_a_policy_that_diverged_are_valid_too(tmp_path: Path) -> None:
    _, policy = made("softmax", tmp_path, scale=np.nan)
    rng = np.random.default_rng(3)
    observation, masks = rng.normal(size=(COUNT, 3)).astype(np.float32), masks_of(rng)
    answer = policy.answer(observation, None, masks)
    assert np.isnan(answer["q"]).all()
    for name in ("action", "greedy_action"):
        assert masks[np.arange(COUNT), numbers(policy.spec, answer[name])].all()


@pytest.mark.parametrize(
    "mask", [np.ones(A), np.ones((2, A)), np.ones((3, A + 1)), np.zeros((3, A)), np.full((3, A), 2), [["a"] * A] * 3]
)
def test_what_is_no_mask_is_refused(mask: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    _, policy = made("softmax", tmp_path_factory.mktemp("policy"))
    with pytest.raises(ValueError, match=r"action_mask.*\(3, 6\)"):
        policy(np.zeros((3, 3), np.float32), action_mask=mask)


def test_a_policy_without_masks_takes_none(tmp_path: Path) -> None:
    spec = EnvironmentSpec((3,), "float32", 1, A)
    export_policy(Network(spec, architecture="mlp"), tmp_path / "policy", make_metadata("Any-v0"))
    policy = load_policy(tmp_path / "policy")
    assert [tensor.name for tensor in policy.signature.structured_input_signature[1].values()] == ["observation"]
    with pytest.raises(ValueError, match="takes no action_mask"):
        policy(np.zeros((3, 3), np.float32), action_mask=np.ones((3, A)))
