import hashlib
import importlib
import importlib.metadata
import os
import socket
import subprocess
import sys
import types

import pytest

from acer_tf import __version__
from acer_tf.runs import provenance


def test_it_says_where_when_and_by_which_command_and_packages():
    found = provenance.provenance()
    assert found["command"] == ["python", *sys.orig_argv[1:]]
    assert found["started"].endswith("+00:00")
    assert found["machine"]["host"] == socket.gethostname()
    assert found["machine"]["cores"] >= 1
    assert found["packages_sha256"] == hashlib.sha256(provenance.packages().encode()).hexdigest()


def test_every_installed_distribution_is_listed_once():
    lines = provenance.packages().splitlines(keepends=True)
    assert lines == sorted(lines)
    names = [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names))
    assert f"numpy=={importlib.metadata.version('numpy')}\n" in lines
    assert {"acer-tf", "dm-control", "pip", "pytest"} <= set(names)


def test_versions_are_of_what_is_declared_and_of_what_has_been_imported(tmp_path, monkeypatch):
    versions = provenance.package_versions()
    assert versions["python"] == sys.version.split()[0]
    assert versions["acer_tf"] == __version__
    assert {"tensorflow", "keras", "gymnasium", "ale-py", "numpy", "mujoco", "dm_control", "shimmy"} <= set(versions)
    assert "mypy" not in versions
    assert "A-World" not in versions
    # An environment from a package that is not listed anywhere.
    info = tmp_path / "a_world-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: A-World\nVersion: 1.5\n")
    (info / "top_level.txt").write_text("a_world\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "A-World" not in provenance.package_versions()
    monkeypatch.setitem(sys.modules, "a_world.envs", types.ModuleType("a_world.envs"))
    assert provenance.package_versions()["A-World"] == "1.5"


@pytest.mark.process
def test_gpus_and_their_driver_are_named_where_there_are_any(tmp_path, monkeypatch, capfd):
    config = types.SimpleNamespace(list_physical_devices=lambda kind: [], experimental=types.SimpleNamespace())
    config.experimental.get_device_details = {"gpu:0": {"device_name": "NVIDIA H100", "compute_capability": (9, 0)}}.get
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(config=config))
    assert "gpus" not in provenance.provenance()["machine"]
    config.list_physical_devices = lambda kind: ["gpu:0"]
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    machine = provenance.provenance()["machine"]
    assert machine["gpus"][0]["device_name"] == "NVIDIA H100"
    assert "gpu_driver" not in machine
    for script, driver in (("echo lost >&2; exit 9", None), ("echo 550.54.15; echo 550.54.15", "550.54.15")):
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        os.chmod(tmp_path / "nvidia-smi", 0o755)
        assert provenance.provenance()["machine"].get("gpu_driver") == driver
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert "gpus" not in provenance.provenance()["machine"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.process
def test_asking_loads_no_tensorflow():
    code = "import sys, acer_tf.runs.records as r; r.run_document({}, {}); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_the_files_of_imported_modules_are_known_by_their_content(tmp_path, monkeypatch):
    (tmp_path / "their_rules.py").write_text("class Rule: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("their_rules:Rule", "mlp", "their_envs:Maze-v0")
    assert provenance.user_modules(names) == {}
    importlib.import_module("their_rules")
    assert provenance.user_modules(names) == {"their_rules": hashlib.sha256(b"class Rule: ...\n").hexdigest()}
