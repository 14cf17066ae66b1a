"""Policies as ONNX and TFLite files, run by onnxruntime and the TFLite interpreter, compared with the SavedModel."""

from __future__ import annotations

import itertools
import json
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from acer_tf import envs
from acer_tf.errors import FormatError
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.policies import formats
from acer_tf.policies.export import export_policy
from acer_tf.policies.formats import FORMATS, convert, require_convertible
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.types import EnvironmentSpec
from tests.core import first_in_core
from tests.networks.test_networks import SPECS, frames_of
from tests.policies.test_export import make_metadata
from tests.policies.test_shipped_policies import SHIPPED

Runner = Callable[..., dict[str, np.ndarray]]
SIZES = (1, 7, 64, 928)  # of the batches: 1,000 observations
TOLERANCE = 1e-5


def run_onnx(file: Path) -> Runner:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would spin beside other tests
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(None, inputs), strict=True))


def run_tflite(file: Path) -> Runner:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the interpreter is moving to a package of its own
        return tf.lite.Interpreter(str(file), num_threads=1).get_signature_runner()


RUNNERS = {"onnx": run_onnx, "tflite": run_tflite}


def test_every_format_is_tested() -> None:
    assert RUNNERS.keys() == FORMATS.keys()


def difference(name: str, wanted: np.ndarray, got: np.ndarray) -> float:
    """The largest; Q and V, which are in units of the return, relative to the value where that is above 1."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    scale = np.maximum(np.abs(wanted), 1.0) if name in ("q", "value") else 1.0
    return float(np.max(np.abs(wanted - got) / scale))


def renamed(answer: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a file is to answer where the SavedModel answers this."""
    names = {"state": "next_state"}
    return {names.get(name, name): value for name, value in answer.items() if name != "action"}


def differences(policy: Policy, run: Runner, observations: np.ndarray) -> dict[str, float]:
    """Per answer, over batches of `SIZES`; the recurrent state, where there is one, is random."""
    rng = np.random.default_rng(0)
    largest: dict[str, float] = {}
    for end, size in zip(itertools.accumulate(SIZES), SIZES, strict=True):
        inputs = {"observation": observations[end - size : end]}
        if policy.state_size:
            inputs["state"] = rng.uniform(-1.0, 1.0, (size, policy.state_size)).astype(np.float32)
        wanted, got = renamed(policy.answer(*inputs.values())), run(**inputs)
        assert got.keys() == wanted.keys()
        if "probabilities" in wanted:
            # Which of two equal actions is the greedy one may differ.
            best = np.sort(wanted["probabilities"])[:, -2:]
            clear = best[:, 1] - best[:, 0] > TOLERANCE
            wanted, got = ({**answer, "greedy_action": answer["greedy_action"][clear]} for answer in (wanted, got))
        for name, value in got.items():
            largest[name] = max(largest.get(name, 0.0), difference(name, wanted[name], value))
    return largest


def assert_equal(policy: Policy, file: Path, observations: np.ndarray) -> None:
    assert len(observations) == sum(SIZES) == 1000
    found = differences(policy, RUNNERS[file.suffix[1:]](file), observations)
    assert {name: value for name, value in found.items() if value > TOLERANCE} == {}


def metadata_of(file: Path) -> Any:
    if file.suffix == ".tflite":
        with zipfile.ZipFile(file) as archive:
            return json.loads(archive.read("metadata.json"))
    return json.loads(onnxruntime.InferenceSession(file).get_modelmeta().custom_metadata_map["metadata.json"])


# Shipped policies


def played(policy: Policy) -> np.ndarray:
    """1,000 observations of the policy's own play, with some random actions: the same in every run, and different."""
    made, rng = policy.metadata, np.random.default_rng(4)
    world = envs.make(made["env"], 8, seed=1, atari_preset=made["atari_preset"] or "acer2016", threads=1)
    try:
        observations = [world.reset().observation]
        while len(observations) < 125:
            action = policy(observations[-1], greedy=True)
            if not policy.spec.continuous:
                random = rng.integers(policy.spec.num_actions, size=8, dtype=np.int32)
                action = np.where(rng.random(8) < 0.5, random, action)
            observations.append(world.step(action).observation)
    finally:
        world.close()
    # MinAtar's short episodes begin alike: 529 of Breakout's are different.
    assert len({observation.tobytes() for observation in np.concatenate(observations)}) > 500
    return np.concatenate(observations)


@pytest.mark.slow
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_policy_answers_as_its_saved_model(folder: Path, tmp_path: Path) -> None:
    policy = load_policy(folder)
    observations = played(policy)
    for name in FORMATS:
        file = tmp_path / f"policy.{name}"
        convert(policy, file, name)
        assert_equal(policy, file, observations)
        assert metadata_of(file) == json.loads((folder / "metadata.json").read_text())
    assert len(list(tmp_path.iterdir())) == len(FORMATS)


# New policies of every kind

FRAMES = EnvironmentSpec((4, 40, 36), "uint8", 4, 6, observation_scale=255.0)
ARM = EnvironmentSpec((6,), "float32", 1, 0, action_low=(-2.0, 0.0), action_high=(2.0, 5.0))
CAMERA = EnvironmentSpec((40, 36, 3), "float32", 1, 6, observation_scale=255.0)
MAZE = EnvironmentSpec((7, 7, 3), "uint8", 1, 6, observation_scale=10.0)


def dqn(spec: EnvironmentSpec) -> Network:
    return Network(spec, architecture="mlp", policy="epsilon_greedy", evaluation_epsilon=0.05, shared_bias=True)


KINDS: dict[str, tuple[EnvironmentSpec, Callable[[EnvironmentSpec], Network | ContinuousNetwork]]] = {
    "small": (SPECS["small"], lambda spec: Network(spec, architecture="small", precision="bfloat16")),
    "image": (SPECS["image"], lambda spec: Network(spec, architecture="image")),
    "camera": (CAMERA, lambda spec: Network(spec, architecture="image")),
    "maze": (MAZE, lambda spec: Network(spec, architecture="small", seed=3)),
    "mlp": (SPECS["mlp"], lambda spec: Network(spec, architecture="mlp")),
    "dqn": (SPECS["mlp"], dqn),
    "mlp_lstm": (SPECS["mlp"], lambda spec: Network(spec, architecture="mlp", lstm_units=256)),
    "nature_lstm": (FRAMES, lambda spec: Network(spec, architecture="nature", lstm_units=256)),
    "continuous": (ARM, lambda spec: ContinuousNetwork(spec, critic="dueling")),
    "continuous_lstm": (ARM, lambda spec: ContinuousNetwork(spec, critic="none", lstm_units=8, shared_torso=False)),
}


def exported(kind: str, folder: Path) -> Policy:
    """A policy with random weights, large enough for answers that differ from one observation to the next."""
    spec, make = KINDS[kind]
    network, rng = make(spec), np.random.default_rng(1)
    heads = tuple(f"{head}/kernel" for head in ("policy", "mean", "q", "value"))
    for variable in network.trainable_variables:
        if variable.path.endswith(heads):
            variable.assign(rng.normal(scale=0.1, size=variable.shape))
    if network.normalization is not None:
        network.normalization.update(tf.constant(rng.normal(2.0, 3.0, (100, 6)), tf.float32))
    export_policy(network, folder, make_metadata("Any-v0"))
    return load_policy(folder)


@pytest.mark.parametrize("kind", first_in_core(KINDS))
def test_a_new_policy_answers_as_its_saved_model(kind: str, tmp_path: Path) -> None:
    policy = exported(kind, tmp_path / "policy")
    spec = policy.spec
    observations = frames_of(np.random.default_rng(2), spec, 1000, spec.stack).reshape(1000, *spec.observation_shape)
    for name in FORMATS:
        file = tmp_path / "made" / f"policy.{name}"
        convert(policy, file, name)
        assert_equal(policy, file, observations)
        assert metadata_of(file) == policy.metadata
    answer = policy.answer(observations[:64], policy.initial_state(64))
    assert len(np.unique(answer["greedy_action"])) > 1  # or the comparison above would say little


@pytest.mark.parametrize(
    ("kind", "answers"),
    first_in_core([("mlp_lstm", ("probabilities", "q")), ("continuous_lstm", ("mean", "value"))]),
)
def test_a_recurrent_policy_goes_on_from_its_own_state(kind: str, answers: tuple[str, ...], tmp_path: Path) -> None:
    policy, rng = exported(kind, tmp_path / "policy"), np.random.default_rng(3)
    for name in FORMATS:
        convert(policy, tmp_path / f"policy.{name}", name)
        run = RUNNERS[name](tmp_path / f"policy.{name}")
        state = ours = policy.initial_state(100)
        assert (state == 0).all()  # as docs/policies.md says, for callers without the SavedModel
        for _ in range(10):
            observation = rng.normal(size=(100, *policy.spec.observation_shape)).astype(np.float32)
            wanted, got = renamed(policy.answer(observation, state)), run(observation=observation, state=ours)
            state, ours = wanted["next_state"], got["next_state"]
            for answer in (*answers, "next_state"):
                assert difference(answer, wanted[answer], got[answer]) <= TOLERANCE


# Errors


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return exported("mlp", tmp_path_factory.mktemp("policy") / "policy")


@pytest.mark.parametrize("name", FORMATS)
def test_an_existing_output_is_not_replaced(policy: Policy, name: str, tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    (tmp_path / "link").symlink_to("nowhere")
    for taken in (tmp_path / "thesis", tmp_path / "link", tmp_path):
        with pytest.raises(FormatError, match=f"--output={taken} exists: not replaced"):
            convert(policy, taken, name)
    assert (tmp_path / "thesis").read_text() == "years of work"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", FORMATS)
def test_a_place_that_cannot_be_written_is_refused_before_the_conversion(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match=f"--output={tmp_path}/file/policy cannot be written: "):
        require_convertible(tmp_path / "file/policy", name)
    require_convertible(tmp_path / "new/folder/policy", name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("package", ["onnx", "tf2onnx"])
def test_a_missing_package_is_named_with_its_extra(
    policy: Policy, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FormatError, match=rf"--format=onnx needs {package}, .*pip install 'acer_tf\[formats\]'"):
        convert(policy, tmp_path / "policy.onnx", "onnx")
    convert(policy, tmp_path / "policy.tflite", "tflite")


@pytest.mark.parametrize(
    ("name", "operation"),
    [("onnx", lambda x: tf.bitcast(x, tf.int32)), ("tflite", tf.math.igammac)],
)
def test_an_operation_that_the_format_lacks_is_named(
    policy: Policy, name: str, operation: Callable[..., tf.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a user's torso, say."""

    def act(observation: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"q": operation(observation) if name == "onnx" else operation(observation, observation)}

    signature = [tf.TensorSpec([None, 5], tf.float32, "observation")]
    monkeypatch.setattr(formats, "_plain", lambda _: tf.function(act, input_signature=signature))
    with pytest.raises(FormatError, match=f"cannot be converted to {name}: .*(Bitcast|Igammac)") as error:
        convert(policy, tmp_path / "file", name)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_no_file(policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        convert(policy, tmp_path / "policy.tflite", "tflite")
    assert list(tmp_path.iterdir()) == []
