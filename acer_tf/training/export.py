"""Policies as SavedModels: written from a network, read anywhere.

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
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from acer_tf.averaging import copy_weights
from acer_tf.envs import ATARI_PRESETS, family_of
from acer_tf.networks import ContinuousNetwork, Network
from acer_tf.recurrent import RecurrentNetwork
from acer_tf.types import EnvironmentSpec

# Raised when a reader of the old metadata would misunderstand the new.
FORMAT = 2
_METADATA = "metadata.json"
_SIGNATURE = "serving_default"
_INITIAL = "initial_state"
_GIVEN = ("env", "atari_preset", "agent", "preset", "steps", "commit", "versions")
_OF_SPEC = tuple(field.name for field in dataclasses.fields(EnvironmentSpec))
_PARTS = (_METADATA, "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")


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
        self._signature = saved_model.signatures[_SIGNATURE]
        want = _input_signature(self.spec, self.state_size)
        have = sorted(self._signature.structured_input_signature[1].values(), key=lambda tensor: tensor.name)
        if have != want:
            took, said = (", ".join(map(str, tensors)) for tensors in (have, want))
            raise PolicyError(f"the SavedModel takes {took}, but {_METADATA} says {said}")
        if self.state_size and _INITIAL not in saved_model.signatures:
            raise PolicyError(f"{_METADATA} names a state, but the SavedModel has no signature {_INITIAL!r}")

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
        return self._saved_model.signatures[_INITIAL](count=tf.constant(count, tf.int32))["state"].numpy()

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


def export_policy(network: Network | ContinuousNetwork, directory: Path, metadata: Mapping[str, Any]) -> None:
    """Writes `network` as a policy that computes in float32, whatever it was trained in.

    What is in `directory` is replaced, by rename, only when the new policy is whole: whoever opens it finds the old
    one, or (between two renames) none, or the new one, never a part.

    Args:
        network: the policy's network.
        directory: the policy's folder; parents are made.
        metadata: recorded in metadata.json, which must be able to hold it. Must have "env", "atari_preset" (its name;
            None outside Atari), "agent", "preset", "steps" (agent decisions in training), "commit" and "versions".
            "frames" (of training), "atari_preset_values", "network", "state_size" and the fields of `EnvironmentSpec`
            are added.

    Raises:
        ValueError: a missing, unknown or unwritable entry of `metadata`; nothing has been written.
        OSError: `directory` holds something that is no policy, or writing failed (disk full); `directory` is as it was.
    """
    document = _document(network, metadata)
    directory = Path(directory).resolve()
    if directory.exists() and not (directory / _METADATA).exists() and not _is_empty_folder(directory):
        raise FileExistsError(f"{directory} exists and is not a policy (no {_METADATA}): not replaced")
    # Fixed names, so that what a killed process left behind goes with the next export.
    new, old = directory.with_name(f".{directory.name}.new"), directory.with_name(f".{directory.name}.old")
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        (new / _METADATA).write_text(document, encoding="utf-8")
        module = _module(network)
        signatures = {_SIGNATURE: module.act}
        if network.state_size:
            signatures[_INITIAL] = module.initial_state
        tf.saved_model.save(module, str(new), signatures=signatures)
        _swap(new, directory, old)
    except tf.errors.OpError as error:
        raise OSError(f"policy not written to {directory}: {error.message}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def load_policy(directory: str | Path) -> Policy:
    """The policy that `export_policy` wrote to `directory`.

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


def _document(network: Network | ContinuousNetwork, metadata: Mapping[str, Any]) -> str:
    if missing := [name for name in _GIVEN if name not in metadata]:
        raise ValueError(f"the policy's metadata lacks {missing}")
    preset, values = metadata["atari_preset"], None
    if family_of(metadata["env"]).atari:
        if preset not in ATARI_PRESETS:
            raise ValueError(f"the policy's atari_preset is {preset!r}, not one of {', '.join(ATARI_PRESETS)}")
        # By value: a later version may mean something else by the name.
        values = dataclasses.asdict(ATARI_PRESETS[preset])
    document = {
        "format": FORMAT,
        **metadata,
        "frames": metadata["steps"] * network.spec.frames_per_step,
        "atari_preset_values": values,
        "network": network.architecture,
        "state_size": network.state_size,
        **dataclasses.asdict(network.spec),
    }
    try:
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"the policy's metadata cannot be written as JSON: {error}") from error


def _module(network: Network | ContinuousNetwork) -> tf.Module:
    answer = _continuous(network) if isinstance(network, ContinuousNetwork) else _discrete(network)
    size = network.state_size
    module = tf.Module()
    # The variables, and not the Keras model too: a module that holds both stores the weights twice.
    module.weights = [variable.value for variable in answer.weights]
    module.act = tf.function(answer.function, input_signature=_input_signature(network.spec, size))
    if size:

        def initial_state(count: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"state": tf.zeros([count, size])}

        module.initial_state = tf.function(initial_state, input_signature=[tf.TensorSpec([], tf.int32, name="count")])
    return module


class _Answer(NamedTuple):
    function: Callable[..., dict[str, tf.Tensor]]
    weights: list[Any]  # what it reads


def _discrete(network: Network) -> _Answer:
    # The weights come from the copy. Float32, so that it runs the same on machines without fast bfloat16.
    twin = network.twin()
    if twin.exploration is not None:
        twin.exploration.epsilon.assign(network.evaluation_epsilon)

    def answer(probabilities: tf.Tensor, q: tf.Tensor) -> dict[str, tf.Tensor]:
        # The raw operation with seeds 0 is seeded by the operating system in every process. Any other would take over
        # the training process's global seed, and then every user would see the same sequence of actions.
        action = tf.raw_ops.Multinomial(
            logits=tf.math.log(probabilities), num_samples=1, seed=0, seed2=0, output_dtype=tf.int32
        )
        return {
            "action": action[:, 0],
            "greedy_action": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
            "probabilities": probabilities,
            "q": q,
        }

    def act(observation: tf.Tensor) -> dict[str, tf.Tensor]:
        return answer(*twin.observe(observation))

    def act_on(observation: tf.Tensor, state: tf.Tensor) -> dict[str, tf.Tensor]:
        # Otherwise one state, or one observation, would silently serve all.
        tf.debugging.assert_equal(tf.shape(observation)[0], tf.shape(state)[0], "want as many states as observations")
        *outputs, state = twin.observe(observation, state)  # type: ignore[call-arg]  # it is a RecurrentNetwork
        return {**answer(*outputs), "state": state}

    return _Answer(act_on if isinstance(twin, RecurrentNetwork) else act, twin.model.weights)


def _continuous(network: ContinuousNetwork) -> _Answer:
    spec = network.spec
    twin = ContinuousNetwork(
        spec, critic="none", policy_std=network.policy_std, normalize=network.normalization is not None
    )
    copy_weights(network.state, twin.state)
    low, high = (tf.constant(bound, tf.float32) for bound in (spec.action_low, spec.action_high))

    def scaled(action: tf.Tensor) -> tf.Tensor:
        return low + (tf.clip_by_value(action, -1.0, 1.0) + 1.0) * 0.5 * (high - low)

    def act(observation: tf.Tensor) -> dict[str, tf.Tensor]:
        mean, value, _ = twin(observation)
        std = tf.fill(tf.shape(mean), tf.constant(twin.policy_std, tf.float32))
        # Raw and with seeds 0, as in `_discrete`.
        noise = tf.raw_ops.RandomStandardNormal(shape=tf.shape(mean), dtype=tf.float32, seed=0, seed2=0)
        return {
            "action": scaled(mean + std * noise),
            "greedy_action": scaled(mean),
            "mean": mean,
            "std": std,
            "value": value,
        }

    return _Answer(act, twin.state.weights)


def _input_signature(spec: EnvironmentSpec, state_size: int) -> list[tf.TensorSpec]:
    observation = tf.TensorSpec([None, *spec.observation_shape], spec.observation_dtype, name="observation")
    state = tf.TensorSpec([None, state_size], tf.float32, name="state")
    return [observation, state] if state_size else [observation]  # in the order of their names


def _swap(new: Path, directory: Path, old: Path) -> None:
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        directory.rename(old)
    try:
        new.rename(directory)
    except BaseException:
        if old.exists():
            old.rename(directory)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _read_metadata(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise PolicyError(f"{directory} is not a policy: {'a file' if directory.exists() else 'it does not exist'}")
    if missing := [name for name in _PARTS if not (directory / name).is_file()]:
        inside = [path.parent for path in sorted(directory.glob(f"*/{_METADATA}"))]
        hint = f"; did you mean {inside[0]}?" if inside else ""
        raise PolicyError(f"{directory} is not a policy: it has no {', no '.join(missing)}{hint}")
    path = directory / _METADATA
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path} cannot be read: {error}") from error
    if not isinstance(metadata, dict) or "format" not in metadata:
        raise PolicyError(f"{path} is not the metadata of a policy: it names no format")
    if metadata["format"] != FORMAT:
        raise PolicyError(f"{path} is of format {metadata['format']!r}; this version of acer_tf reads format {FORMAT}")
    if missing := [name for name in (*_GIVEN, *_OF_SPEC, "frames", "atari_preset_values") if name not in metadata]:
        raise PolicyError(f"{path} lacks {', '.join(missing)}")
    return metadata


def _is_empty_folder(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
