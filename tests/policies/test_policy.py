"""Loading a policy: with TensorFlow alone, and never a damaged one. training/test_export.py tests its outputs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from acer_tf.errors import PolicyError
from acer_tf.files import POLICY_PARTS
from acer_tf.policies.export import export_policy
from acer_tf.policies.policy import load_policy
from tests.policies.test_export import make_metadata, make_network

ROOT = Path(__file__).resolve().parents[2]
PONG = ROOT / "results/policies/pong"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid policy, which tests only read or copy."""
    directory = tmp_path_factory.mktemp("exported") / "policy"
    export_policy(make_network("CartPole-v1"), directory, make_metadata("CartPole-v1"))
    return directory


@pytest.fixture
def cartpole(exported: Path, tmp_path: Path) -> Path:
    """A policy that a test may damage."""
    return Path(shutil.copytree(exported, tmp_path / "policy"))


# `import tensorflow` itself imports Keras if installed, so looking at the imported modules is not enough.
WITHOUT_THE_REST = """
import sys
for name in ("keras", "tf_keras", "tensorflow_probability", "tensorboard", "gymnasium", "ale_py", "minatar", "mujoco"):
    sys.modules[name] = None  # any import of it now fails
import numpy as np
from acer_tf import load_policy
policy = load_policy(sys.argv[1])
print(*policy(np.zeros((3, *policy.spec.observation_shape), policy.spec.observation_dtype)).shape)
print(*sorted(name for name in sys.modules if name.startswith("acer_tf")))
"""


@pytest.mark.process
def test_it_needs_neither_keras_nor_tensorflow_probability_nor_a_simulator() -> None:
    command = [sys.executable, "-c", WITHOUT_THE_REST, str(PONG)]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    parts = ("errors", "files", "importing", "policies", "policies.metadata", "policies.policy", "types")
    modules = ["acer_tf", *(f"acer_tf.{name}" for name in parts)]
    assert said.splitlines() == ["3", " ".join(modules)]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="nowhere"):
        load_policy(tmp_path / "nowhere")


def test_a_file_is_not_a_policy(cartpole: Path) -> None:
    with pytest.raises(PolicyError, match="a file"):
        load_policy(cartpole / "metadata.json")


def test_for_the_parent_folder_of_a_policy_the_message_names_it(cartpole: Path) -> None:
    with pytest.raises(PolicyError, match=f"metadata.json.*{cartpole}"):
        load_policy(cartpole.parent)


@pytest.mark.parametrize("part", POLICY_PARTS)
def test_a_missing_part_is_named(cartpole: Path, part: str) -> None:
    (cartpole / part).unlink()
    with pytest.raises(PolicyError, match=f"{part}$"):
        load_policy(cartpole)


@pytest.mark.parametrize("part", POLICY_PARTS)
def test_a_truncated_part_is_refused(cartpole: Path, part: str) -> None:
    content = (cartpole / part).read_bytes()
    (cartpole / part).write_bytes(content[: len(content) // 2])
    with pytest.raises(PolicyError, match="damaged|cannot be read"):
        load_policy(cartpole)


def test_a_damaged_fingerprint_is_nothing_to_speak_of(
    cartpole: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = cartpole / "fingerprint.pb"
    path.write_bytes(path.read_bytes()[:36])
    load_policy(cartpole)
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_a_flipped_bit_of_the_weights_is_refused(cartpole: Path) -> None:
    path = cartpole / "variables/variables.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(PolicyError, match="damaged"):
        load_policy(cartpole)


def test_a_path_that_tensorflow_takes_for_a_pattern_is_no_damage(cartpole: Path) -> None:
    with pytest.raises(PolicyError, match="takes .* in its path for a pattern: rename the folder"):
        load_policy(cartpole.rename(cartpole.with_name("a [1]")))


def rewrite(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = directory / "metadata.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda metadata: metadata | {"format": 1}, "of format 1; this version of acer_tf reads format 2"),
        (lambda metadata: {"steps": 1}, "has no format"),
        (lambda metadata: ["format"], "has no format"),
        (lambda metadata: {k: v for k, v in metadata.items() if k not in ("env", "stack")}, "lacks env, stack"),
        (lambda metadata: metadata | {"observation_shape": [5]}, "takes TensorSpec.*4.*says TensorSpec.*5"),
        (lambda metadata: metadata | {"observation_dtype": "uint8"}, "takes TensorSpec.*float32.*says.*uint8"),
        (lambda metadata: metadata | {"observation_shape": 4}, "damaged"),
        (lambda metadata: metadata | {"env": 5}, "has env=5, which is of another type"),
        (lambda metadata: metadata | {"env": None}, "has env=None"),
        (lambda metadata: metadata | {"env": ["CartPole-v1"]}, r"has env=\['CartPole-v1'\]"),
        (lambda metadata: metadata | {"steps": float("nan")}, "has steps=nan"),
        (lambda metadata: metadata | {"atari_preset_values": [1]}, r"has atari_preset_values=\[1\]"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(
    cartpole: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    rewrite(cartpole, change)
    with pytest.raises(PolicyError, match=message):
        load_policy(cartpole)


def test_metadata_nested_too_deeply_is_refused(cartpole: Path) -> None:
    (cartpole / "metadata.json").write_text("[" * 100_000)
    with pytest.raises(PolicyError, match="metadata.json"):
        load_policy(cartpole)


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="File name too long"):
        load_policy(tmp_path / ("a" * 300))


def test_a_saved_model_of_something_else_is_refused(cartpole: Path, tmp_path: Path) -> None:
    other = tf.Module()
    other.v = tf.Variable(1.0)
    tf.saved_model.save(other, str(tmp_path / "other"))
    shutil.copy(cartpole / "metadata.json", tmp_path / "other")
    with pytest.raises(PolicyError, match="other"):
        load_policy(tmp_path / "other")


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(4, np.float32), r"of shape \('N', 4\), got \(4,\): a single one needs an axis, observation\[None\]"),
        (np.zeros((1, 3), np.float32), r"got \(1, 3\)"),
        (np.float32(0), r"got \(\)"),
        (np.zeros((1, 4), np.complex64), "expected float32 observations, got complex64"),
        (np.array([[0, 0, np.nan, 0]], np.float32), "expected finite float32 observations, got nan"),
        (np.full((3, 4), -1e300), r"expected finite float32 observations, got -1e\+300"),
        (np.full((3, 4), np.inf, np.float16), "expected finite float32 observations, got inf"),
    ],
)
def test_an_observation_of_another_kind_is_refused(exported: Path, observation: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(exported).probabilities(observation)


def test_pixels_as_floats_are_refused() -> None:
    """They are often scaled to [0, 1] already, and a cast would silently make them 0."""
    with pytest.raises(ValueError, match="uint8.*float32"):
        load_policy(PONG)(np.zeros((1, 4, 84, 84), np.float32))


@pytest.mark.parametrize(("dtype", "value"), [(np.uint16, 300), (np.int64, 300), (np.int8, -1), (np.float64, 0.5)])
def test_pixels_as_larger_numbers_are_refused(dtype: type, value: float) -> None:
    """300 would be read as 44, -1 as 255."""
    with pytest.raises(ValueError, match=f"uint8.*{np.dtype(dtype)}"):
        load_policy(PONG)(np.full((1, 4, 84, 84), value, dtype))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64])
def test_pixels_of_another_integer_type_are_read_by_their_values(dtype: type) -> None:
    """gymnasium's MultiBinary gives int8."""
    pixels = np.random.default_rng(0).integers(0, 2, (2, 4, 84, 84), np.uint8)
    policy = load_policy(PONG)
    np.testing.assert_array_equal(policy.probabilities(pixels.astype(dtype)), policy.probabilities(pixels))
