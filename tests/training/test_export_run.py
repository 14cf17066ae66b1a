"""`export_run` takes the environment's spec from run.json, so that the environment need not be installed."""

import json
import re
import sys

import gymnasium
import pytest

from acer_tf.envs import InvalidEnvironment
from acer_tf.settings import SettingsError
from acer_tf.training.export_run import export_run
from acer_tf.training.run import train
from acer_tf.training.run_folder import RunFolderError
from tests.training.scripted import small_settings, use_light_agents


@pytest.fixture
def made(monkeypatch):
    return use_light_agents(monkeypatch)


def forget_environment(run_dir, **changes):
    """Makes run.json one of the versions that did not record the environment, with other settings."""
    document = json.loads((run_dir / "run.json").read_text())
    del document["environment"]
    document["settings"] |= changes
    (run_dir / "run.json").write_text(json.dumps(document))


def test_a_run_in_an_environment_of_the_caller_is_exported(made, tmp_path):
    train(small_settings(env="mine"), tmp_path / "run", quiet=True, env=lambda: gymnasium.make("CartPole-v1"))
    assert export_run(tmp_path / "run", tmp_path / "policy") >= 600
    assert json.loads((tmp_path / "policy" / "metadata.json").read_text())["env"] == "mine"
    trained, exported = made
    assert exported.network.spec == trained.network.spec
    forget_environment(tmp_path / "run")
    with pytest.raises(InvalidEnvironment, match="there is no environment 'mine'"):
        export_run(tmp_path / "run", tmp_path / "policy")


def test_an_old_record_without_the_environment_is_exported(made, tmp_path):
    train(small_settings(), tmp_path / "run", quiet=True)
    forget_environment(tmp_path / "run")
    assert export_run(tmp_path / "run", tmp_path / "policy") >= 600
    assert made[1].network.spec == made[0].network.spec


def test_a_module_that_only_the_record_names_is_not_imported(made, tmp_path):
    train(small_settings(), tmp_path / "run", quiet=True)
    forget_environment(tmp_path / "run", env="this:CartPole-v1")
    with pytest.raises(InvalidEnvironment, match="this:CartPole-v1 would import a module that only a file names"):
        export_run(tmp_path / "run", tmp_path / "policy")
    assert "this" not in sys.modules


def test_a_record_of_another_version_is_named_with_its_commit(made, tmp_path):
    train(small_settings(), tmp_path / "run", quiet=True)
    path = tmp_path / "run" / "run.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "settings": document["settings"] | {"brand_new": 3}}))
    commit = re.escape(document["commit"])  # "...+changes" in a checkout with changes
    with pytest.raises(SettingsError, match=rf"^{path}, which commit {commit} wrote: .*'brand_new'"):
        export_run(tmp_path / "run", tmp_path / "policy")
    path.write_text(json.dumps({**document, "settings": {}}))
    with pytest.raises(RunFolderError, match=rf"^{path} cannot be read as a run's record \(it names no env\)"):
        export_run(tmp_path / "run", tmp_path / "policy")
