"""Policies as SavedModels: their contents, and `load_policy`, which needs only NumPy and TensorFlow.

    <directory>/saved_model.pb, variables/, ...   a SavedModel, which `tf.saved_model.load` runs without acer_tf
    <directory>/metadata.json                     its environment, the preprocessing, and its origin

The signature `serving_default` takes `observation` [N, *observation_shape] for any N, unscaled, or, where observations
have leaves, each as `observation_NAME` (in lower case, with "_" for what is no letter or digit in the leaf's name); of
an environment with action masks also `action_mask` [N, A] bool, the valid actions: at least one in each row, all if
nothing is known. It returns
    for discrete actions: `action` [N] int32 (sampled) and `greedy_action` [N] int32, both the environment's own (int64
        if its numbers need it; [N, ...] if its actions are arrays); `probabilities` [N, A] float32, 0 for those that
        are not valid, and `q` [N, A] float32 of all; number a is the combination `np.unravel_index(a, action_sizes)`,
        plus `action_start`, if they are arrays;
    for continuous actions: `action` [N, d] float32 (sampled) and `greedy_action` [N, d] float32, both clipped and
        scaled to the environment's bounds; `mean` [N, d] and `std` [N, d] float32, for bounds of [-1, 1]; `value` [N]
        float32.

For inputs that are not finite, the other answers may be NaN, but `action` and `greedy_action` are actions of the space.

A recurrent policy also takes `state` [N, U] float32 and returns the next `state`. Its signature `initial_state` takes
`count` (int32) and returns the `state` [count, U] with which an episode (not a life) begins.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from acer_tf.errors import NonFinitePolicy, PolicyError
from acer_tf.files import POLICY_METADATA
from acer_tf.policies.metadata import read_metadata, recorded_spec
from acer_tf.types import EnvironmentSpec, PerLeaf, by_field, in_dtype, input_name, map_leaves

SIGNATURE = "serving_default"
INITIAL_STATE = "initial_state"
UNMASKED = "unmasked"  # the same as SIGNATURE, with every action valid


class Policy:
    """An exported policy f(·|φ(x)) with its critic.

    Methods take observations [N, *observation_shape] for any N, as the environment returns them (categories one-hot),
    or a dictionary of them by the names of the leaves. They raise ValueError for another shape, a dtype of another kind
    (float64 is rounded to float32), an integer out of range, or a number that is not finite in float32. A recurrent
    policy needs `answer`, with the state from the previous answer. Where the environment gave masks in training, they
    also take an `action_mask` [N, A] of zeros and ones, or booleans, that allows at least one action in each row; None
    allows all.

    Attributes:
        metadata: the content of metadata.json.
        spec: observations and actions of the environment, from the metadata.
        state_size: U, the length of the recurrent state; 0 if the policy is not recurrent.
        signature: the function `serving_default` of the SavedModel, from tensors to tensors by name.
    """

    def __init__(self, metadata: Mapping[str, Any], saved_model: Any) -> None:
        self.metadata = metadata
        self.spec = recorded_spec(metadata)
        self.state_size = int(metadata["state_size"])
        self._saved_model = saved_model  # a signature alone does not keep its variables alive
        self.signature = saved_model.signatures[SIGNATURE]
        want = sorted(input_signature(self.spec, self.state_size), key=lambda tensor: tensor.name)
        have = sorted(self.signature.structured_input_signature[1].values(), key=lambda tensor: tensor.name)
        if have != want:
            took, said = (", ".join(map(str, tensors)) for tensors in (have, want))
            raise PolicyError(f"the SavedModel takes {took}, but {POLICY_METADATA} says {said}")

    def __repr__(self) -> str:
        about = [self.metadata[name] for name in ("env", "agent")]
        return f"<Policy: {', '.join(about)}, {self.metadata['steps']:,} steps; {self.spec}>"

    def __call__(self, observation: PerLeaf, greedy: bool = False, action_mask: np.ndarray | None = None) -> np.ndarray:
        """Actions for the environment: sampled anew in every call, or the most probable (the first among equals).

        [N] int32 (int64 if the environment's numbers need it; [N, ...] if they are arrays), or [N, d] float32 within
        the environment's bounds.
        Raises NonFinitePolicy if an answer of the policy is not finite.
        """
        answer = self.answer(observation, action_mask=action_mask)
        for name, value in answer.items():
            if not np.isfinite(value).all():
                raise NonFinitePolicy(f"the policy's {name} is not finite")
        return answer["greedy_action" if greedy else "action"]

    def probabilities(self, observation: PerLeaf, action_mask: np.ndarray | None = None) -> np.ndarray:
        """f(·|φ(x)) [N, A] float32, for discrete actions; raises KeyError for continuous ones."""
        return _of_discrete(self.answer(observation, action_mask=action_mask), "probabilities")

    def q(self, observation: PerLeaf) -> np.ndarray:
        """Q(x, ·) [N, A] float32, for discrete actions: discounted returns of rewards as the updates used them.

        Clipped on Atari; with --normalize_rewards or --reward_scale in other units than the environment's.
        Raises KeyError for continuous actions.
        """
        return _of_discrete(self.answer(observation), "q")

    def initial_state(self, count: int) -> np.ndarray:
        """[count, U] float32: the state with which an episode begins."""
        return np.zeros((count, self.state_size), np.float32)

    def answer(
        self, observation: PerLeaf, state: np.ndarray | None = None, action_mask: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """All outputs of the signature, by name; see the module.

        Args:
            observation: [N, *observation_shape], of each leaf.
            state: [N, U] from `initial_state` or the previous answer; ignored if the policy is not recurrent.
            action_mask: [N, A], see the class.

        Raises:
            ValueError: see the class; or a recurrent policy's state is missing, has another shape, or is not finite; or
                a mask has another shape or values, forbids every action, or is given to a policy without masks.
        """
        wanted, given = _fields(self.spec), by_field({"observation": observation})
        if given.keys() != wanted.keys():
            raise ValueError(f"expected {', '.join(wanted)}, got {', '.join(given)}")
        inputs = {}
        for field, (shape, dtype) in wanted.items():
            values, what = np.asarray(given[field]), field.replace("observation", "observations", 1)
            if values.shape[1:] != shape or values.ndim == 0:
                one = ": a single one needs an axis, observation[None]" if values.shape == shape else ""
                raise ValueError(f"expected {what} of shape {('N', *shape)}, got {values.shape}{one}")
            inputs[_input(field)] = tf.constant(in_dtype(what, values, dtype))
        if len(counts := {len(value) for value in inputs.values()}) > 1:
            raise ValueError(f"expected equally many observations of each name, got {sorted(counts)}")
        if self.state_size:
            shape = (*counts, self.state_size)
            if state is None or np.shape(state) != shape:
                got = "none" if state is None else f"shape {np.shape(state)}"
                raise ValueError(
                    f"this policy is recurrent: expected its state of shape {shape}, got {got}; `initial_state` "
                    "returns the first, `answer` the next one"
                )
            inputs["state"] = tf.constant(in_dtype("states", np.asarray(state), "float32"))
        if self.spec.action_masks or action_mask is not None:
            inputs["action_mask"] = self._mask(action_mask, *counts)
        try:
            return {name: tensor.numpy() for name, tensor in self.signature(**inputs).items()}
        except tf.errors.InvalidArgumentError as error:
            if "determinism" not in str(error):
                raise
            raise PolicyError(
                "a policy draws actions without a seed, which tf.config.experimental.enable_op_determinism forbids: "
                "leave that out; `evaluate` is deterministic without it"
            ) from error

    def _mask(self, given: np.ndarray | None, count: int) -> tf.Tensor:
        if not self.spec.action_masks:
            raise ValueError("this policy takes no action_mask: there was none in its training")
        shape = (count, self.spec.num_actions)
        mask = np.ones(shape, bool) if given is None else np.asarray(given)
        if mask.shape != shape or not np.isin(mask, (0, 1)).all() or not mask.any(axis=1).all():
            raise ValueError(
                f"expected an action_mask of shape {shape} of zeros and ones, with a one in each row, got {mask!r:.200}"
            )
        return tf.constant(mask.astype(bool))


def _of_discrete(answer: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in answer:
        raise KeyError(f"a policy of continuous actions has no {name}: `answer` has {', '.join(answer)}")
    return answer[name]


def load_policy(directory: str | Path) -> Policy:
    """The policy that a run, `acer_tf export` or `export_policy` wrote to `directory`.

    >>> policy = acer_tf.load_policy("results/policies/pong")
    >>> policy.spec.observation_shape
    (4, 84, 84)
    >>> policy(np.zeros((2, 4, 84, 84), np.uint8)).shape  # actions for two observations
    (2,)

    Raises:
        PolicyError: `directory` is not a policy, is damaged, or has a format that this version does not know.
    """
    directory = Path(directory)
    metadata = read_metadata(directory)
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # TensorFlow shows a traceback for a damaged fingerprint that nothing needs
    try:
        return Policy(metadata, tf.saved_model.load(str(directory)))
    except PolicyError as error:
        raise PolicyError(f"{directory} is not a usable policy: {error}") from error
    except Exception as error:  # TensorFlow raises many types on damaged files
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        if set(str(directory)) & set("[\\"):
            reason = "TensorFlow takes [ and backslashes in its path for a pattern: rename the folder"
            raise PolicyError(f"the policy in {directory} cannot be read: {reason}") from error
        raise PolicyError(f"the policy in {directory} is damaged: {reason}") from error
    finally:
        logger.setLevel(level)


def input_signature(spec: EnvironmentSpec, state_size: int) -> list[tf.TensorSpec]:
    """The inputs of a policy's function, sorted by name.

    Observations [N, *observation_shape]; valid actions [N, A] bool, if there are masks; states [N, U] float32 if U > 0.
    """
    inputs = [tf.TensorSpec([None, *shape], dtype, _input(field)) for field, (shape, dtype) in _fields(spec).items()]
    if spec.action_masks:
        inputs.insert(0, tf.TensorSpec([None, spec.num_actions], tf.bool, name="action_mask"))
    if state_size:
        inputs.append(tf.TensorSpec([None, state_size], tf.float32, name="state"))
    return inputs


def observation_inputs(spec: EnvironmentSpec) -> list[str]:
    """The names of the inputs for an observation, in the order of its leaves."""
    return [_input(field) for field in _fields(spec)]


def _fields(spec: EnvironmentSpec) -> dict[str, tuple[tuple[int, ...], str]]:
    """The shape and dtype of an observation, or of each of its leaves."""
    return by_field({"observation": map_leaves(lambda *about: about, spec.observation_shape, spec.observation_dtype)})


def _input(field: str) -> str:
    """The input for the observation, or the one for its leaf, in the field."""
    name, leaf, entry = field.partition("/")
    return input_name(entry) if leaf else name
