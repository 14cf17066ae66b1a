"""Whatever it is given, no export answers with an action that the space does not hold; `Policy` says what is wrong."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from acer_tf.errors import PolicyError
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import Dense
from acer_tf.policies import export
from acer_tf.policies.export import export_policy
from acer_tf.policies.formats import convert
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.types import EnvironmentSpec
from tests.policies.test_export import make_metadata, set_policy
from tests.policies.test_formats import RUNNERS, Runner

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
VALUES = (float("nan"), float("inf"), -float("inf"), 3.4e38, -3.4e38, 1e38, -1e38, 1e-45, 0.0, 1.0)
BEYOND = 1e300  # what float32 holds

COUNTED = EnvironmentSpec((3,), "float32", 1, 2, action_start=-5)
FAR = dataclasses.replace(COUNTED, action_start=2**40)
BITS = dataclasses.replace(COUNTED, observation_dtype="bool")
# Bounds that float32 does not hold, and some whose distance it does not reach.
ARM = EnvironmentSpec((3,), "float32", 1, 0, action_low=(-0.1, -BEYOND), action_high=(0.7, BEYOND))

Made = Network | ContinuousNetwork
KINDS: dict[str, Callable[[], Made]] = {
    "softmax": lambda: Network(COUNTED, architecture="mlp"),
    "recurrent": lambda: Network(COUNTED, architecture="mlp", lstm_units=256),
    "epsilon_greedy": lambda: Network(COUNTED, architecture="mlp", policy="epsilon_greedy", evaluation_epsilon=0.05),
    "numbered_far": lambda: Network(FAR, architecture="mlp"),
    "bits": lambda: Network(BITS, architecture="mlp"),
    "continuous": lambda: ContinuousNetwork(ARM, critic="none"),
    "continuous_unnormalized": lambda: ContinuousNetwork(ARM, critic="none", dense=Dense((256, 256))),
    "continuous_recurrent": lambda: ContinuousNetwork(ARM, critic="none", lstm_units=8),
}


def made(kind: str, folder: Path, *, diverged: bool = False) -> Policy:
    network, rng = KINDS[kind](), np.random.default_rng(1)
    for variable in network.trainable_variables:
        scale = np.nan if diverged else 1.0
        variable.assign(scale * rng.normal(size=variable.shape))
    export_policy(network, folder / "policy", make_metadata("Any-v0"))
    return load_policy(folder / "policy")


def runners(policy: Policy, folder: Path) -> dict[str, Runner]:
    """Functions from inputs to answers by name: the graph of the SavedModel, without `Policy`, and of each format."""

    def graph(**inputs: np.ndarray) -> dict[str, np.ndarray]:
        given = {name: tf.constant(value) for name, value in inputs.items()}
        return {name: tensor.numpy() for name, tensor in policy.signature(**given).items()}

    made: dict[str, Runner] = {"savedmodel": graph}
    for name, runner in RUNNERS.items():
        convert(policy, folder / f"policy.{name}", name)
        made[name] = runner(folder / f"policy.{name}")
    return made


def space_of(spec: EnvironmentSpec) -> gymnasium.spaces.Space:
    if spec.continuous:
        return gymnasium.spaces.Box(np.array(spec.action_low), np.array(spec.action_high), dtype=np.float64)
    return gymnasium.spaces.Discrete(spec.num_actions, start=spec.action_start)


def page_function() -> Callable[..., np.ndarray]:
    """`sampled`, which docs/policies.md gives to users of the formats."""
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "def " in block)
    namespace: dict[str, Any] = {"np": np}
    exec(block.partition("\nprint")[0], namespace)
    function: Callable[..., np.ndarray] = namespace["sampled"]
    return function


@pytest.mark.parametrize(
    ("kind", "diverged"),
    [("softmax", False), ("continuous", False)]
    + [pytest.param(kind, True, marks=pytest.mark.slow) for kind in ("bits", "continuous")]
    + [pytest.param(kind, False, marks=pytest.mark.slow) for kind in sorted(KINDS.keys() - {"softmax", "continuous"})],
)
def test_every_action_is_one_of_the_space(kind: str, diverged: bool, tmp_path: Path) -> None:
    policy = made(kind, tmp_path, diverged=diverged)
    spec, space, rng = policy.spec, space_of(policy.spec), np.random.default_rng(2)
    for name, run in runners(policy, tmp_path).items():
        for count in (1, 7) if name == "tflite" and policy.state_size else (0, 1, 7):
            for some in (1, 3, len(VALUES)) * 3:
                values = rng.choice(VALUES, some)
                inputs = {"observation": rng.choice(values, (count, 3)).astype(spec.observation_dtype)}
                if policy.state_size:
                    inputs["state"] = rng.choice(values, (count, policy.state_size)).astype(np.float32)
                answer = run(**inputs)
                actions = {key: value for key, value in answer.items() if key in ("action", "greedy_action")}
                assert len(actions) == 1 + (name == "savedmodel")
                with np.errstate(invalid="ignore", over="ignore"):
                    actions["sampled"] = page_function()(answer, policy.metadata, rng)
                for key, action in actions.items():
                    wrong = [a for a in action if not space.contains(a.astype(space.dtype))]
                    assert (wrong, action.shape) == ([], (count, *spec.action_shape)), (name, key, inputs)


def test_bounds_further_apart_than_float32_reaches_are_scaled_to(tmp_path: Path) -> None:
    network = ContinuousNetwork(ARM, critic="none")
    mean = network.heads.get_layer("mean")
    for share, wanted in ((0.0, (0.3, 0.0)), (0.5, (0.5, 1.7014118e38)), (9.0, (0.7, 3.4028235e38))):
        mean.kernel.assign(tf.zeros_like(mean.kernel))
        mean.bias.assign([share] * 2)
        answer = export._continuous(network)(tf.zeros((1, 3)))
        np.testing.assert_allclose(answer["greedy_action"], [wanted], rtol=1e-6)


def test_a_policy_says_which_number_it_cannot_read(tmp_path: Path) -> None:
    policy = made("recurrent", tmp_path)
    fine, state = np.zeros((2, 3)), policy.initial_state(2).astype(np.float64)
    policy.answer(fine, state)
    for value in (*VALUES[:3], BEYOND):
        bad, bad_state = fine.copy(), state.copy()
        bad[1, 2] = bad_state[1, 5] = value
        for given, name in (((bad, state), "observations"), ((fine, bad_state), "states")):
            with pytest.raises(ValueError, match=re.escape(f"expected finite float32 {name}, got {value}")):
                policy.answer(*given)


@pytest.mark.parametrize(("kind", "name"), [("bits", "probabilities"), ("epsilon_greedy", "q"), ("continuous", "mean")])
def test_a_policy_that_is_not_finite_gives_no_actions(kind: str, name: str, tmp_path: Path) -> None:
    policy = made(kind, tmp_path, diverged=True)
    observation = np.zeros((2, 3), policy.spec.observation_dtype)
    for greedy in (False, True):
        with pytest.raises(PolicyError, match=r"the policy's \w+ is not finite"):
            policy(observation, greedy=greedy)
    assert np.isnan(policy.answer(observation)[name]).all()


def test_the_pages_function_samples_as_the_saved_model_does(tmp_path: Path) -> None:
    count, rng = 20_000, np.random.default_rng(3)
    network = Network(dataclasses.replace(COUNTED, num_actions=3), architecture="mlp")
    set_policy(network, [0.5, 0.0, 0.5])
    export_policy(network, tmp_path / "discrete", make_metadata("Any-v0"))
    policy = load_policy(tmp_path / "discrete")
    answer = policy.answer(np.zeros((count, 3), np.float32))
    ours = page_function()(answer, policy.metadata, rng)
    assert set(ours) == set(answer["action"]) == {-5, -3}
    assert (ours == -5).mean() == pytest.approx(0.5, abs=0.02)

    arm = dataclasses.replace(ARM, action_low=(-0.1, -7.0), action_high=(0.7, -5.0))
    export_policy(ContinuousNetwork(arm, critic="none", policy_std=0.6), tmp_path / "arm", make_metadata("Any-v0"))
    policy = load_policy(tmp_path / "arm")
    answer = policy.answer(np.ones((count, 3), np.float32))
    drawn = (answer["action"], page_function()(answer, policy.metadata, rng))
    np.testing.assert_allclose(*(np.quantile(x, np.linspace(0, 1, 21), axis=0) for x in drawn), atol=0.03)
