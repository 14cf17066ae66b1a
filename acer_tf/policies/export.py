"""Exports a network as a policy; acer_tf/policies/policy.py documents the format, and reads it."""

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from acer_tf.envs.families import ATARI_PRESETS, family_of
from acer_tf.errors import PolicyFolderError
from acer_tf.files import POLICY_METADATA, is_taken, remove_empty, sync
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.policies.metadata import FORMAT, GIVEN
from acer_tf.policies.policy import INITIAL_STATE, SIGNATURE, UNMASKED, input_signature, observation_inputs
from acer_tf.types import PerLeaf, leaves_of, map_leaves

# The files that an export makes; all else in the folder is its owner's.
_OWN = (POLICY_METADATA, "saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra")
_PATIENCE_SECONDS = 120.0  # the longest wait for another export into the same folder, which takes seconds


def export_policy(network: PolicyNetwork, directory: Path, metadata: Mapping[str, Any]) -> None:
    """Writes `network` as a policy that computes in float32, whatever its training precision.

    An existing policy in `directory` is replaced by rename once the new one is complete: a reader finds the old one,
    the new one, or (between two renames) none, but never a part. Other files in `directory` stay there.

    Args:
        network: the policy's.
        directory: the policy's folder; parents are made.
        metadata: JSON-able, recorded in metadata.json. Must have "env", "atari_preset" (its name; None outside Atari),
            "agent", "preset", "steps" (agent decisions in training), "commit" and "versions". "frames" (of training),
            "atari_preset_values", "network", "state_size" and the fields of `EnvironmentSpec` are added.

    Raises:
        ValueError: `metadata` lacks an entry, names an unknown Atari preset, or is not JSON; nothing has been written.
        PolicyFolderError: `directory` holds something other than a policy, cannot be written, or is in use.
        OSError: writing failed (disk full); `directory` holds the old policy or, whole, the new one.
    """
    with exporting(directory) as export:
        export(network, metadata)


@contextlib.contextmanager
def exporting(directory: Path) -> Iterator[Callable[[PolicyNetwork, Mapping[str, Any]], None]]:
    """Exclusive use of a policy's folder; yields a function that exports a network with its metadata to it.

    Processes of this machine wait for each other. Whoever reads the checkpoint in this context therefore never
    replaces a policy by an older one of the same run. If the context exports nothing, it leaves nothing. Raises as
    `export_policy`.
    """
    given, directory = directory, Path(os.path.realpath(directory))
    if not directory.name:
        raise PolicyFolderError(f"{given} is the root of all folders: a policy needs one of its own")
    # A name of this machine's, because the lock may not reach others; the next export removes what a killed one left.
    work = directory.with_name(f".{directory.name}.{socket.gethostname()}.export")
    with contextlib.ExitStack() as stack:
        try:
            made = [folder for folder in directory.parents if not folder.exists()]
            stack.callback(remove_empty, made)
            if not os.path.lexists(directory.parent):
                directory.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            _lock(descriptor, directory.parent)
            _clear(work, directory)
            if is_taken(directory):
                raise PolicyFolderError(
                    f"{given} exists and is not a policy (it has no policy's {POLICY_METADATA}): not replaced"
                )
            work.mkdir()
        except PolicyFolderError:
            raise
        except OSError as error:
            raise PolicyFolderError(f"no policy can be written to {given}: {error.strerror}") from error
        stack.callback(_clear, work, directory)
        yield lambda network, metadata: _export(network, metadata, directory, work)


def _export(network: PolicyNetwork, metadata: Mapping[str, Any], directory: Path, work: Path) -> None:
    document = policy_document(network, metadata)
    new = work / "new"
    try:
        new.mkdir()
        (new / POLICY_METADATA).write_text(document, encoding="utf-8")
        with _silent():
            _archive(network).write_out(str(new), verbose=False)
    except tf.errors.OpError as error:
        raise OSError(f"policy not written to {directory}: {error.message}") from error
    for path in (*new.rglob("*"), new):
        sync(path)  # the run's record, which is synced, will say that it is finished
    if directory.exists():
        directory.rename(work / "old")
    new.rename(directory)
    sync(directory.parent)


def _lock(descriptor: int, folder: Path) -> None:
    """Excludes other exports into `folder` until its `descriptor` is closed."""
    ends = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > ends:
                raise PolicyFolderError(f"another process is exporting to {folder}: try again later") from error
        time.sleep(0.1)


def _clear(work: Path, directory: Path) -> None:
    """Removes what an export left.

    If the new policy did not take the old one's place, the old one is put back with all that lay beside it. If it did,
    only what lay beside the old one is.
    """
    old = work / "old"
    if old.exists() and not directory.exists():
        old.rename(directory)
    elif old.exists():
        for entry in set(os.listdir(old)) - set(_OWN):
            (old / entry).rename(directory / entry)
    shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keras 3.8, and TensorFlow in an interactive Python, print a notice for each SavedModel that is written."""
    logger, interactive = logging.getLogger("tensorflow"), keras.config.is_interactive_logging_enabled()
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    keras.config.disable_interactive_logging()
    try:
        yield
    finally:
        logger.setLevel(level)
        if interactive:
            keras.config.enable_interactive_logging()


def policy_document(network: PolicyNetwork, metadata: Mapping[str, Any]) -> str:
    """The metadata.json of a policy as `export_policy` writes it; raises ValueError as that does."""
    if missing := [name for name in GIVEN if name not in metadata]:
        raise ValueError(f"the policy's metadata lacks {missing}")
    preset, values = metadata["atari_preset"], None
    if family_of(metadata["env"]).atari:
        if preset not in ATARI_PRESETS:
            raise ValueError(f"the policy's atari_preset is {preset!r}, not one of {', '.join(ATARI_PRESETS)}")
        # By value, because a later version may change what the name means.
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


def serving(copy: PolicyNetwork) -> tuple[Callable[..., dict[str, tf.Tensor]], list[tf.TensorSpec]]:
    """The function of a policy that answers by `copy`, a network in float32, and the inputs that it takes."""
    answer = _discrete(copy) if isinstance(copy, Network) else _continuous(copy)
    signature = input_signature(copy.spec, copy.state_size)

    def act(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        # A caller of the signature may pass any shape, and some kernels end the process on one of another rank.
        values = {want.name: tf.ensure_shape(value, want.shape) for value, want in zip(inputs, signature, strict=True)}
        names = iter(observation_inputs(copy.spec))
        observation = map_leaves(lambda _: values.pop(next(names)), copy.spec.observation_shape)
        return answer(observation, **values)

    return act, signature


def _archive(network: PolicyNetwork) -> keras.export.ExportArchive:
    # A float32 copy, so that it runs the same on machines without fast bfloat16.
    act, signature = serving(network.in_float32())
    archive = keras.export.ExportArchive()  # stores the variables that its endpoints read, each once
    archive.add_endpoint(SIGNATURE, act, signature)
    if network.spec.action_masks:
        mask, *others = signature

        def unmasked(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return act(tf.ones([tf.shape(inputs[0])[0], *mask.shape[1:]], tf.bool), *inputs)

        archive.add_endpoint(UNMASKED, unmasked, others)
    if size := network.state_size:
        count = [tf.TensorSpec([], tf.int32, name="count")]
        archive.add_endpoint(INITIAL_STATE, lambda count: {"state": tf.zeros([count, size])}, count)
    return archive


def _discrete(network: Network) -> Callable[..., dict[str, tf.Tensor]]:
    spec, last = network.spec, network.spec.num_actions - 1
    dtype = tf.int32 if np.abs(spec.action_start).max() + last < 2**31 else tf.int64
    arrays = spec.native_action(np.arange(spec.num_actions)) if spec.action_sizes else None
    if network.exploration is not None:
        network.exploration.epsilon.assign(network.evaluation_epsilon)

    def native(number: tf.Tensor) -> tf.Tensor:
        if arrays is None:
            return spec.action_start + tf.cast(number, dtype)
        return tf.gather(tf.constant(arrays, dtype), number)

    def act(
        observation: PerLeaf, state: tf.Tensor | None = None, action_mask: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        count = tf.shape(leaves_of(observation)[0])[0]
        for name, given in {"states": state, "action masks": action_mask}.items():
            if given is not None:
                _require_count(name, given, count)
        probabilities, q, next_state = network(observation, state, action_mask)
        # The raw operation with seeds 0 is seeded by the operating system in every process. Any other would store the
        # global seed of the training process, and every user would see the same sequence of actions.
        action = tf.raw_ops.Multinomial(
            logits=tf.math.log(probabilities), num_samples=1, seed=0, seed2=0, output_dtype=tf.int32
        )
        # Of probabilities that are not numbers it draws A, which is no action.
        action, greedy = tf.minimum(action[:, 0], last), tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        if action_mask is not None:  # nor is what is drawn of them always valid
            first = tf.argmax(tf.cast(action_mask, tf.int32), axis=-1, output_type=tf.int32)
            action, greedy = (tf.where(tf.gather(action_mask, a, batch_dims=1), a, first) for a in (action, greedy))
        answers = {
            "action": native(action),
            "greedy_action": native(greedy),
            "probabilities": probabilities,
            "q": q,
        }
        return answers if state is None else {**answers, "state": next_state}

    return act


def _continuous(network: ContinuousNetwork) -> Callable[..., dict[str, tf.Tensor]]:
    spec = network.spec
    with np.errstate(over="ignore"):
        low, high = (np.asarray(bound, np.float32) for bound in (spec.action_low, spec.action_high))
    # Rounded inwards: an environment may refuse what lies beyond its bounds.
    low = np.where(low < spec.action_low, np.nextafter(low, np.float32(np.inf)), low)
    high = np.where(high > spec.action_high, np.nextafter(high, np.float32(-np.inf)), high)

    def scaled(action: tf.Tensor) -> tf.Tensor:
        # Clipping keeps NaN.
        action = tf.where(tf.math.is_nan(action), 0.0, action)
        scale = (tf.clip_by_value(action, -1.0, 1.0) + 1.0) * 0.5
        # Of half the bounds, whose distance is finite in float32 even where theirs is not.
        half = low * 0.5 + scale * (high * 0.5 - low * 0.5)
        # Again afterwards, since rounding may leave the bounds.
        return tf.clip_by_value(half * 2.0, low, high)

    def act(observation: PerLeaf, state: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        count = tf.shape(leaves_of(observation)[0])[0]
        if state is not None:
            _require_count("states", state, count)
        mean, value, next_state = network.answer(observation, tf.zeros([count, 0]) if state is None else state)
        std = tf.fill(tf.shape(mean), tf.constant(network.policy_std, tf.float32))
        # Seeds 0 as in `_discrete`.
        noise = tf.raw_ops.RandomStandardNormal(shape=tf.shape(mean), dtype=tf.float32, seed=0, seed2=0)
        action = scaled(mean + std * noise)
        answers = {"action": action, "greedy_action": scaled(mean), "mean": mean, "std": std, "value": value}
        return answers if state is None else {**answers, "state": next_state}

    return act


def _require_count(name: str, given: tf.Tensor, count: tf.Tensor) -> None:
    """Stops where one of them, or one observation, would silently be broadcast."""
    tf.debugging.assert_equal(count, tf.shape(given)[0], f"expected as many {name} as observations")
