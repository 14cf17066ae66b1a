"""Policies as SavedModels: what they hold, and `load_policy`, which needs NumPy and TensorFlow alone.

    <directory>/saved_model.pb, variables/, ...   a SavedModel: `tf.saved_model.load` alone runs it, without acer_tf
    <directory>/metadata.json                     what it acts in, how that is preprocessed, and where it comes from

The signature `serving_default` takes `observation` [N, *observation_shape] for any N, as the environment shows it, and
answers, where actions are discrete, `action` [N] int32 (sampled), `greedy_action` [N] int32, `probabilities` [N, A]
float32 and `q` [N, A] float32; where they are continuous, `action` [N, d] float32 (sampled) and `greedy_action` [N, d]
float32, both cut and scaled to the environment's own bounds, and in the policy's units, where these bounds are [-1, 1],
`mean` [N, d] float32 and `std` [N, d] float32, with `value` [N] float32.

A recurrent policy also takes `state` [N, U] float32, and answers the next `state`. Its signature `initial_state` takes
`count` (int32) and answers the `state` [count, U] with which an episode begins. A lost life begins none.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from acer_tf.types import EnvironmentSpec

# Raised when a reader of the old metadata would misunderstand the new.
FORMAT = 2
METADATA = "metadata.json"
SIGNATURE = "serving_default"
INITIAL_STATE = "initial_state"
GIVEN = ("env", "atari_preset", "agent", "preset", "steps", "commit", "versions")  # that only the exporter knows
_OF_SPEC = tuple(field.name for field in dataclasses.fields(EnvironmentSpec))
_PARTS = (METADATA, "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")


class PolicyError(ValueError):
    """A directory holds no usable policy: the message says what is missing or wrong."""


class Policy:
    """An exported policy f(·|φ(x)) with its critic.

    Methods take observations [N, *observation_shape] as the environment shows them, for any N, and raise ValueError for
    another shape or a dtype that would lose values. A recurrent policy is asked by `answer`, with the state that it
    answered before.

    Attributes:
        metadata: metadata.json.
        spec: the observations and actions of its environment, from the metadata.
        state_size: U of a recurrent policy's state; 0 for others.
    """

    def __init__(self, metadata: Mapping[str, Any], saved_model: Any) -> None:
        self.metadata = metadata
        of_spec: dict[str, Any] = {}
        for name in _OF_SPEC:
            of_spec[name] = tuple(metadata[name]) if isinstance(metadata[name], list) else metadata[name]
        self.spec = EnvironmentSpec(**of_spec)
        self.state_size = int(metadata.get("state_size", 0))  # which policies of earlier versions do not name
        # A signature does not keep its variables alive; the object that it was loaded with does.
        self._saved_model = saved_model
        self._signature = saved_model.signatures[SIGNATURE]
        want = input_signature(self.spec, self.state_size)
        have = sorted(self._signature.structured_input_signature[1].values(), key=lambda tensor: tensor.name)
        if have != want:
            took, said = (", ".join(map(str, tensors)) for tensors in (have, want))
            raise PolicyError(f"the SavedModel takes {took}, but {METADATA} says {said}")
        if self.state_size and INITIAL_STATE not in saved_model.signatures:
            raise PolicyError(f"{METADATA} names a state, but the SavedModel has no signature {INITIAL_STATE!r}")

    def __call__(self, observation: np.ndarray, greedy: bool = False) -> np.ndarray:
        """Actions as the environment takes them: sampled, differently at every call, or the most probable.

        [N] int32 (of equals the first), or [N, d] float32 within the environment's bounds.
        """
        return self.answer(observation)["greedy_action" if greedy else "action"]

    def probabilities(self, observation: np.ndarray) -> np.ndarray:
        """f(·|φ(x)) [N, A] float32, where actions are discrete."""
        return self.answer(observation)["probabilities"]

    def q(self, observation: np.ndarray) -> np.ndarray:
        """Q(x, ·) [N, A] float32, where actions are discrete, in units of the (for Atari clipped) discounted return."""
        return self.answer(observation)["q"]

    def initial_state(self, count: int) -> np.ndarray:
        """[count, U] float32: the state in which an episode begins, for so many environments."""
        if not self.state_size:
            return np.zeros((count, 0), np.float32)
        return self._saved_model.signatures[INITIAL_STATE](count=tf.constant(count, tf.int32))["state"].numpy()

    def answer(self, observation: np.ndarray, state: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """All that the signature answers, by name; see the module.

        Args:
            observation: [N, *observation_shape].
            state: [N, U] that `initial_state` gave, or the answer to each one's observation before. Not looked at where
                the policy is not recurrent.

        Raises:
            ValueError: see the class; or the policy is recurrent, and the state is missing or of another shape.
        """
        observation = np.asarray(observation)
        shape, dtype = self.spec.observation_shape, self.spec.observation_dtype
        if observation.shape[1:] != shape or observation.ndim == 0:
            raise ValueError(f"want observations of shape {('N', *shape)}, got {observation.shape}")
        if not np.can_cast(observation.dtype, dtype, "same_kind"):
            raise ValueError(f"want {dtype} observations, got {observation.dtype}")
        inputs = {"observation": tf.constant(observation, dtype)}
        if self.state_size:
            shape = (len(observation), self.state_size)
            if state is None or np.shape(state) != shape:
                got = "none" if state is None else f"shape {np.shape(state)}"
                raise ValueError(
                    f"this policy is recurrent: want its state of shape {shape}, got {got}; `initial_state` gives the "
                    "first, `answer` each next one"
                )
            inputs["state"] = tf.constant(state, tf.float32)
        answers = self._signature(**inputs)
        return {name: tensor.numpy() for name, tensor in answers.items()}


def load_policy(directory: str | Path) -> Policy:
    """The policy in `directory`, as a run, `acer_tf export` or `export_policy` wrote it.

    >>> policy = acer_tf.load_policy("results/policies/pong")
    >>> policy.spec.observation_shape
    (4, 84, 84)
    >>> policy(np.zeros((2, 4, 84, 84), np.uint8)).shape  # actions for two observations
    (2,)

    Raises:
        PolicyError: `directory` is not a policy, is damaged, or is of a format that this version does not know.
    """
    directory = Path(directory)
    metadata = _read_metadata(directory)
    try:
        return Policy(metadata, tf.saved_model.load(str(directory)))
    except PolicyError as error:
        raise PolicyError(f"{directory} is not a usable policy: {error}") from error
    except Exception as error:  # damaged bytes fail in any way: no list of exceptions would be complete
        raise PolicyError(f"the policy in {directory} is damaged: {_first_line(error)}") from error


def input_signature(spec: EnvironmentSpec, state_size: int) -> list[tf.TensorSpec]:
    observation = tf.TensorSpec([None, *spec.observation_shape], spec.observation_dtype, name="observation")
    state = tf.TensorSpec([None, state_size], tf.float32, name="state")
    return [observation, state] if state_size else [observation]  # in the order of their names


def _read_metadata(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise PolicyError(f"{directory} is not a policy: {'a file' if directory.exists() else 'it does not exist'}")
    if missing := [name for name in _PARTS if not (directory / name).is_file()]:
        inside = [path.parent for path in sorted(directory.glob(f"*/{METADATA}"))]
        hint = f"; did you mean {inside[0]}?" if inside else ""
        raise PolicyError(f"{directory} is not a policy: it has no {', no '.join(missing)}{hint}")
    path = directory / METADATA
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path} cannot be read: {error}") from error
    if not isinstance(metadata, dict) or "format" not in metadata:
        raise PolicyError(f"{path} is not the metadata of a policy: it names no format")
    if metadata["format"] != FORMAT:
        raise PolicyError(f"{path} is of format {metadata['format']!r}; this version of acer_tf reads format {FORMAT}")
    if missing := [name for name in (*GIVEN, *_OF_SPEC, "frames", "atari_preset_values") if name not in metadata]:
        raise PolicyError(f"{path} lacks {', '.join(missing)}")
    return metadata


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
