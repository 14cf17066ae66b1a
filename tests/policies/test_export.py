from __future__ import annotations

import logging
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from acer_tf.errors import PolicyFolderError
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.torsos import default_network
from acer_tf.policies import export
from acer_tf.policies.export import export_policy, exporting
from acer_tf.policies.policy import load_policy
from acer_tf.types import EnvironmentSpec
from tests.training.scripted import tree

SPECS = {
    "atari/Pong": EnvironmentSpec((4, 84, 84), "uint8", 4, 6, 4, observation_scale=255.0),
    "minatar/breakout": EnvironmentSpec((10, 10, 4), "bool", 1, 3),
    "CartPole-v1": EnvironmentSpec((4,), "float32", 1, 2),
    "Camera-v0": EnvironmentSpec((40, 36, 3), "float32", 1, 2, observation_scale=255.0),
    "Maze-v0": EnvironmentSpec((7, 7, 3), "uint8", 1, 3, observation_scale=10.0),
}


def make_network(env: str, **arguments: Any) -> Network:
    return Network(SPECS[env], architecture=default_network(SPECS[env]), seed=1, **arguments)


def make_metadata(env: str, **changes: Any) -> dict[str, Any]:
    preset = "acer2016" if env.startswith("atari/") else None
    given = {"agent": "acer", "preset": "baselines", "steps": 1000, "commit": "0a1b2c3", "versions": {"numpy": "2"}}
    return {"env": env, "atari_preset": preset, **given, **changes}


def make_observations(env: str, count: int) -> np.ndarray:
    spec, random = SPECS[env], np.random.default_rng(count)
    high = int(spec.observation_scale or 1)
    return random.integers(0, high + 1, (count, *spec.observation_shape)).astype(spec.observation_dtype)


def set_policy(network: Network, probabilities: list[float]) -> None:
    """Makes the policy the same in every state."""
    head = network.heads.get_layer("policy")
    head.kernel.assign(tf.zeros_like(head.kernel))
    with np.errstate(divide="ignore"):
        head.bias.assign(np.log(np.array(probabilities, np.float32)))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A policy per environment; tests read or copy them."""
    directories = {}
    for env in SPECS:
        directories[env] = tmp_path_factory.mktemp("exported") / "policy"
        export_policy(make_network(env), directories[env], make_metadata(env))
    return directories


@pytest.fixture
def cartpole(exported: dict[str, Path], tmp_path: Path) -> Path:
    """A policy that a test may damage."""
    return Path(shutil.copytree(exported["CartPole-v1"], tmp_path / "policy"))


def saved_model_cli(*arguments: str, cwd: Path) -> str:
    """Its standard output."""
    command = [str(Path(sys.executable).with_name("saved_model_cli")), *arguments]
    return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout


# What is computed


@pytest.mark.parametrize("env", SPECS)
def test_it_computes_what_the_network_does_for_any_batch_size(exported: dict[str, Path], env: str) -> None:
    network, policy = make_network(env), load_policy(exported[env])
    assert policy.spec == network.spec
    for count in (1, 3, 17):
        observation = make_observations(env, count)
        probabilities, q, _ = (tensor.numpy() for tensor in network(tf.constant(observation)))
        np.testing.assert_allclose(policy.probabilities(observation), probabilities, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(policy.q(observation), q, rtol=1e-4, atol=1e-5)
        greedy = policy(observation, greedy=True)
        np.testing.assert_array_equal(greedy, policy.probabilities(observation).argmax(axis=1))
        assert greedy.dtype == policy(observation).dtype == np.int32
        assert policy(observation).shape == (count,)


@pytest.mark.parametrize("env", SPECS)
def test_a_network_trained_in_bfloat16_is_exported_in_float32(tmp_path: Path, env: str) -> None:
    trained, twin = make_network(env, precision="bfloat16"), make_network(env, precision="float32")
    twin.set_weights(trained.get_weights())
    export_policy(trained, tmp_path / "policy", make_metadata(env))
    policy, observation = load_policy(tmp_path / "policy"), make_observations(env, 8)
    np.testing.assert_allclose(policy.q(observation), twin(tf.constant(observation))[1], rtol=1e-4, atol=1e-5)
    assert np.abs(policy.q(observation) - trained(tf.constant(observation))[1]).max() > 1e-4
    assert policy.q(observation).dtype == policy.probabilities(observation).dtype == np.float32


def test_actions_are_sampled_from_the_probabilities(tmp_path: Path) -> None:
    network = Network(EnvironmentSpec((2,), "float32", 1, 4), architecture="mlp")
    set_policy(network, [0.5, 0.3, 0.2, 0.0])
    export_policy(network, tmp_path / "policy", make_metadata("Any-v0"))
    policy, observation = load_policy(tmp_path / "policy"), np.zeros((40_000, 2), np.float32)
    share = np.bincount(policy(observation), minlength=4) / len(observation)
    np.testing.assert_allclose(share, [0.5, 0.3, 0.2, 0.0], atol=0.0125)  # 5 standard errors
    assert share[3] == 0
    assert (policy(observation, greedy=True) == 0).all()


def test_actions_are_numbered_as_the_environment_does(tmp_path: Path) -> None:
    network = Network(EnvironmentSpec((2,), "float32", 1, 3, action_start=-1), architecture="mlp")
    set_policy(network, [0.0, 0.4, 0.6])
    export_policy(network, tmp_path / "policy", make_metadata("Any-v0"))
    policy, observation = load_policy(tmp_path / "policy"), np.zeros((100, 2), np.float32)
    assert set(policy(observation)) == {0, 1}
    assert (policy(observation, greedy=True) == 1).all()
    assert policy.spec.action_start == -1


def test_the_sampled_sequence_is_not_that_of_the_exporting_process_seed(tmp_path: Path) -> None:
    """An operation that stores the global seed would sample the same actions in every process."""
    observation, drawn = np.zeros((200, 4), np.float32), []
    for _ in range(2):
        tf.random.set_seed(1)
        export_policy(make_network("CartPole-v1"), tmp_path / "policy", make_metadata("CartPole-v1"))
        drawn.append(load_policy(tmp_path / "policy")(observation))
    assert not np.array_equal(drawn[0], drawn[1])


def test_actions_stay_within_bounds_that_rounding_would_leave() -> None:
    spec = EnvironmentSpec((3,), "float32", 1, 0, action_low=(-math.pi, -1.0), action_high=(0.1, 0.7))
    network = ContinuousNetwork(spec, critic="none")
    for value in (-100.0, 100.0):
        network.heads.get_layer("mean").bias.assign([value] * 2)
        answers = export._continuous(network)(tf.zeros((4, 3)))
        assert (np.abs(answers["mean"]) > 50).all()
        for name in ("action", "greedy_action"):
            assert (answers[name].numpy().astype(float) >= spec.action_low).all()
            assert (answers[name].numpy().astype(float) <= spec.action_high).all()


def test_the_weights_are_stored_once(exported: dict[str, Path]) -> None:
    weights = sum(4 * int(np.prod(v.shape)) for v in make_network("atari/Pong").variables)
    stored = sum(path.stat().st_size for path in exported["atari/Pong"].rglob("*") if path.is_file())
    assert weights < stored < 1.02 * weights


# Where it runs

WITHOUT_ACER_TF = """
import sys
sys.modules["acer_tf"] = None  # any import of it now fails
import numpy as np, tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
observation = np.load(sys.argv[2])
for count in (1, 5):
    out = loaded.signatures["serving_default"](observation=tf.constant(observation[:count]))
    assert set(out) == {"action", "greedy_action", "probabilities", "q"}
    assert out["action"].shape == out["greedy_action"].shape == (count,)
np.save(sys.argv[3], out["probabilities"].numpy())
"""


@pytest.mark.process
def test_tensorflow_alone_runs_it(exported: dict[str, Path], tmp_path: Path) -> None:
    observation = make_observations("atari/Pong", 5)
    np.save(tmp_path / "observation.npy", observation)
    policy = exported["atari/Pong"]
    command = [sys.executable, "-c", WITHOUT_ACER_TF, str(policy), "observation.npy", "probabilities.npy"]
    subprocess.run(command, cwd=tmp_path, check=True)
    probabilities = np.load(tmp_path / "probabilities.npy", allow_pickle=False)
    np.testing.assert_allclose(probabilities, load_policy(policy).probabilities(observation), rtol=1e-5)


@pytest.mark.process
def test_saved_model_cli_runs_it(exported: dict[str, Path], tmp_path: Path) -> None:
    np.save(tmp_path / "observation.npy", make_observations("minatar/breakout", 3))
    what = ("--dir", str(exported["minatar/breakout"]), "--tag_set", "serve", "--signature_def", "serving_default")
    saved_model_cli("run", *what, "--inputs", "observation=observation.npy", "--outdir", ".", cwd=tmp_path)
    shapes = {
        name: np.load(tmp_path / f"{name}.npy", allow_pickle=False).shape
        for name in ("action", "greedy_action", "probabilities", "q")
    }
    assert shapes == {"action": (3,), "greedy_action": (3,), "probabilities": (3, 3), "q": (3, 3)}


@pytest.mark.parametrize("env", SPECS)
def test_a_request_of_another_shape_is_an_error_of_the_graph(exported: dict[str, Path], env: str) -> None:
    """Without acer_tf, whose `Policy` checks before; a convolution may end the process on another rank, or take it."""
    served, spec = tf.saved_model.load(str(exported[env])), SPECS[env]
    shape = spec.observation_shape
    for wrong in (shape, (), (7,), (2, 1, *shape), (2, *shape[:-1], shape[-1] + 1)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Shape of tensor observation .* is not compatible"):
            served.signatures["serving_default"](observation=tf.zeros(wrong, spec.observation_dtype))


@pytest.mark.slow
def test_saved_model_cli_shows_it(exported: dict[str, Path], tmp_path: Path) -> None:
    shown = saved_model_cli("show", "--dir", str(exported["atari/Pong"]), "--all", cwd=tmp_path)
    for line in ("inputs['observation'] tensor_info", "dtype: DT_UINT8", "shape: (-1, 4, 84, 84)", "shape: (-1, 6)"):
        assert line in shown
    assert "dtype: DT_BFLOAT16" not in shown


# Metadata


def test_metadata_says_what_evaluation_needs(exported: dict[str, Path]) -> None:
    metadata = dict(load_policy(exported["atari/Pong"]).metadata)
    values = metadata.pop("atari_preset_values")
    assert (values["frame_skip"], values["sticky_probability"], values["full_action_set"]) == (4, 0.0, False)
    assert metadata == make_metadata("atari/Pong") | {
        "format": 2,
        "frames": 4000,
        "network": "nature",
        "state_size": 0,
        "observation_shape": [4, 84, 84],
        "observation_dtype": "uint8",
        "stack": 4,
        "num_actions": 6,
        "frames_per_step": 4,
        "action_low": [],
        "action_start": 0,
        "action_high": [],
        "observation_scale": 255.0,
        "action_sizes": [],
        "action_masks": False,
    }
    assert load_policy(exported["CartPole-v1"]).metadata["atari_preset_values"] is None


@pytest.mark.parametrize("name", make_metadata("CartPole-v1"))
def test_metadata_must_be_complete(tmp_path: Path, name: str) -> None:
    metadata = make_metadata("CartPole-v1")
    del metadata[name]
    with pytest.raises(ValueError, match=name):
        export_policy(make_network("CartPole-v1"), tmp_path / "policy", metadata)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "changes", "message"),
    [
        ("atari/Pong", {"atari_preset": "acer2017"}, "'acer2017', not one of acer2016, machado2018"),
        ("atari/Pong", {"atari_preset": None}, "None, not one of"),
        ("CartPole-v1", {"settings": {"learning_rate": float("nan")}}, "cannot be written as JSON"),
        ("CartPole-v1", {"settings": {"path": Path()}}, "cannot be written as JSON"),
    ],
)
def test_metadata_must_be_usable(tmp_path: Path, env: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export_policy(make_network(env), tmp_path / "policy", make_metadata(env, **changes))
    assert list(tmp_path.iterdir()) == []


# Whole or not at all


def test_a_new_policy_replaces_the_old_and_leaves_nothing_else(cartpole: Path) -> None:
    (work_of(cartpole) / "new" / "variables").mkdir(parents=True)  # of an export that was killed
    before = load_policy(cartpole)
    network, observation = make_network("CartPole-v1"), np.zeros((1, 4), np.float32)
    set_policy(network, [0.9, 0.1])
    export_policy(network, cartpole, make_metadata("CartPole-v1", steps=2000))
    after = load_policy(cartpole)
    np.testing.assert_allclose(after.probabilities(observation), [[0.9, 0.1]], rtol=1e-5)
    assert (before.metadata["steps"], after.metadata["steps"]) == (1000, 2000)
    assert before.probabilities(observation).shape == (1, 2)  # what was loaded goes on
    assert os.listdir(cartpole.parent) == ["policy"]


def test_a_policy_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[Path, bool]] = []
    monkeypatch.setattr(export, "sync", lambda path: synced.append((path, (tmp_path / "policy").exists())))
    export_policy(make_network("CartPole-v1"), tmp_path / "policy", make_metadata("CartPole-v1"))
    new = work_of(tmp_path / "policy") / "new"
    parts = {path.relative_to(new) for path, named in synced if not named and path.is_relative_to(new)}
    assert parts == {path.relative_to(tmp_path / "policy") for path in (tmp_path / "policy").rglob("*")} | {Path()}
    assert synced[-1] == (tmp_path, True)


def work_of(policy: Path) -> Path:
    return policy.with_name(f".policy.{socket.gethostname()}.export")


def test_what_a_killed_export_had_moved_aside_is_put_back(cartpole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_of(cartpole).mkdir()
    cartpole.rename(work_of(cartpole) / "old")
    monkeypatch.setattr(tf.saved_model, "save", half_a_save)
    with pytest.raises(OSError, match="No space left"):
        export_policy(make_network("CartPole-v1"), cartpole, make_metadata("CartPole-v1", steps=2000))
    assert load_policy(cartpole).metadata["steps"] == 1000
    assert os.listdir(cartpole.parent) == ["policy"]


def test_what_others_put_beside_a_policy_stays_there(cartpole: Path) -> None:
    (cartpole / "notes").mkdir()
    (cartpole / "notes" / "mine.txt").write_text("mine")
    for killed in (False, True):
        if killed:  # between the two renames and the end
            work_of(cartpole).mkdir()
            cartpole.rename(work_of(cartpole) / "old")
            shutil.copytree(work_of(cartpole) / "old", cartpole, ignore=shutil.ignore_patterns("notes"))
        export_policy(make_network("CartPole-v1"), cartpole, make_metadata("CartPole-v1", steps=2000))
        assert (cartpole / "notes" / "mine.txt").read_text() == "mine"
        assert load_policy(cartpole).metadata["steps"] == 2000
        assert os.listdir(cartpole.parent) == ["policy"]


def test_exports_to_one_folder_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They all report success, so that the policy must be one of theirs, and whole."""
    inside, save = [], tf.saved_model.save

    def slow(*arguments: Any, **options: Any) -> None:
        inside.append(1)
        assert len(inside) == 1
        save(*arguments, **options)
        time.sleep(0.3)
        inside.pop()

    monkeypatch.setattr(tf.saved_model, "save", slow)
    network = make_network("CartPole-v1")
    with ThreadPoolExecutor(3) as pool:
        exports = [
            pool.submit(export_policy, network, tmp_path / "policy", make_metadata("CartPole-v1", steps=steps))
            for steps in (1, 2, 3)
        ]
    assert [export.result() for export in exports] == [None] * 3
    assert load_policy(tmp_path / "policy").metadata["steps"] in (1, 2, 3)
    assert os.listdir(tmp_path) == ["policy"]


def test_the_wait_for_another_export_ends(cartpole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_PATIENCE_SECONDS", 0.2)
    with (
        exporting(cartpole),
        pytest.raises(PolicyFolderError, match=f"{cartpole.parent}"),
        exporting(cartpole),
    ):
        pass
    assert load_policy(cartpole).metadata["steps"] == 1000


def half_a_save(module: Any, directory: str, **_: Any) -> None:
    (Path(directory) / "saved_model.pb").write_bytes(b"half")
    raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")


def no_rename_to_policy(rename: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
    def fail(source: Path, target: Path) -> Path:
        if source.name == "new":
            raise OSError("No space left on device")
        return rename(source, target)

    return fail


@pytest.mark.parametrize("stage", ["save", "rename"])
def test_a_failed_export_leaves_the_old_policy(cartpole: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        if stage == "save":
            patch.setattr(tf.saved_model, "save", half_a_save)
        else:
            patch.setattr(Path, "rename", no_rename_to_policy(Path.rename))
        export_policy(make_network("CartPole-v1"), cartpole, make_metadata("CartPole-v1", steps=2000))
    assert load_policy(cartpole).metadata["steps"] == 1000
    assert os.listdir(cartpole.parent) == ["policy"]


def test_an_interrupted_export_leaves_the_old_policy(cartpole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tf.saved_model, "save", interrupt)
        export_policy(make_network("CartPole-v1"), cartpole, make_metadata("CartPole-v1", steps=2000))
    assert load_policy(cartpole).metadata["steps"] == 1000
    assert os.listdir(cartpole.parent) == ["policy"]


@pytest.mark.parametrize(
    "files",
    [
        {"": "five years"},
        {"thesis.tex": "five years"},
        {"metadata.json": '{"author": "me"}', "variables/a.csv": "1,2", "assets/photo.png": ""},
        {"metadata.json": '{"author": "me"}', "saved_model.pb": "mine"},
        {"metadata.json": "[]"},
    ],
)
def test_what_is_not_a_policy_is_not_replaced(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = tmp_path / "policy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = tree(tmp_path)
    with pytest.raises(PolicyFolderError, match=f"^{re.escape(str(tmp_path / 'policy'))} exists and is not a policy"):
        export_policy(make_network("CartPole-v1"), tmp_path / "policy", make_metadata("CartPole-v1"))
    assert tree(tmp_path) == before


def test_an_empty_folder_and_missing_parents_are_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "empty", tmp_path / "a" / "b" / "policy"):
        export_policy(make_network("CartPole-v1"), directory, make_metadata("CartPole-v1"))
        assert load_policy(directory).metadata["steps"] == 1000


def test_a_failed_export_leaves_no_parents(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lacks"):
        export_policy(make_network("CartPole-v1"), tmp_path / "a" / "b" / "policy", {})
    assert os.listdir(tmp_path) == []


def loop(folder: Path) -> Path:
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (lambda folder: Path("/"), "is the root of all folders"),
        (loop, "exists and is not a policy"),
        (lambda folder: loop(folder) / "policy", "Too many levels of symbolic links"),
        (lambda folder: folder / ("a" * 300), "File name too long"),
        (lambda folder: folder / "file" / "policy", "Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, where: Callable[[Path], Path], reason: str) -> None:
    (tmp_path / "file").touch()
    directory = where(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(PolicyFolderError, match=f"{directory}.*{reason}"):
        export_policy(make_network("CartPole-v1"), directory, make_metadata("CartPole-v1"))
    assert sorted(tmp_path.iterdir()) == before


def test_tensorflow_says_nothing_in_an_interactive_python(tmp_path, caplog):
    """There its logger shows notices: "Assets written to ..."."""
    caplog.set_level("INFO", "tensorflow")
    export_policy(make_network("CartPole-v1"), tmp_path / "policy", make_metadata("CartPole-v1"))
    assert [record.message for record in caplog.records if record.name == "tensorflow"] == []
    assert logging.getLogger("tensorflow").level == logging.INFO
