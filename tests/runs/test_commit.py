import os
import subprocess
import sys
from pathlib import Path

import pytest

from acer_tf.runs.commit import code_version

ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = {"commit": None, "changes": None}


def git(folder, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    folder = tmp_path / "checkout" / "acer_tf"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("1")
    return folder


@pytest.fixture
def checkout(package):
    folder = package.parent
    (folder / ".gitignore").write_text("*.pyc\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@pytest.mark.process
def test_a_checkout_has_its_own_commit(package, checkout, monkeypatch):
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "notes.txt").write_text("beside the code")
    (package / "cache.pyc").write_text("")
    assert code_version(package) == {"commit": head, "changes": None}
    monkeypatch.setenv("PATH", "")
    assert code_version(package) == UNKNOWN


@pytest.mark.process
@pytest.mark.skipif(os.getuid() != 0, reason="gives the checkout to another user")
def test_a_checkout_of_another_user_has_its_commit_too(package, checkout):
    """As in a container that mounts it."""
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 1000, 1000)
    assert code_version(package) == {
        "commit": git(checkout, "-c", f"safe.directory={checkout}", "rev-parse", "HEAD"),
        "changes": None,
    }


@pytest.mark.process
def test_a_repository_without_commits_has_none(package):
    assert code_version(package) == UNKNOWN
    git(package.parent, "init", "-q")
    git(package.parent, "add", ".")
    assert code_version(package) == UNKNOWN


@pytest.mark.process
def test_changes_of_any_code_count_and_have_a_hash(package, checkout):
    head = git(checkout, "rev-parse", "HEAD")
    seen = {None}

    def changed():
        found = code_version(package)
        assert found["commit"] == f"{head}+changes"
        assert found["changes"] not in seen and code_version(package) == found
        seen.add(found["changes"])

    (package / "__init__.py").write_text("2")
    changed()
    (package / "__init__.py").write_text("3")
    changed()
    git(checkout, "add", ".")
    (package / "new.py").write_text("1")
    changed()
    (package / "new.py").write_text("2")
    changed()
    for folder in ("experiments", "benchmarks"):
        (checkout / folder).mkdir()
        (checkout / folder / "page.py").write_text("")
        changed()
    (package / "__init__.py").unlink()
    (package / "__init__.py").write_text("1")
    for path in (package / "new.py", checkout / "experiments/page.py", checkout / "benchmarks/page.py"):
        path.unlink()
    assert code_version(package) == {"commit": head, "changes": None}
    git(checkout, "mv", "acer_tf/__init__.py", "acer_tf/moved.py")
    assert code_version(package) == UNKNOWN  # no longer this project's


@pytest.mark.process
def test_a_repository_around_an_installed_package_is_not_its(package, checkout):
    installed = checkout / "lib" / "acer_tf"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert code_version(installed) == UNKNOWN
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "with its packages")
    assert code_version(installed) == UNKNOWN
    # At the root of a repository that does not track it.
    git(checkout, "rm", "-rq", "--cached", "acer_tf")
    git(checkout, "commit", "-qm", "two")
    assert code_version(package) == UNKNOWN
    (package / "_commit.txt").write_text("c0ffee\n")
    assert code_version(package) == {"commit": "c0ffee", "changes": None}


@pytest.mark.process
def test_a_built_package_knows_the_commit_that_it_was_built_from(tmp_path):
    here = code_version(ROOT / "acer_tf")
    git(tmp_path, "init", "-q")
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "build_py", "-d", str(tmp_path / "a")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert not (ROOT / "acer_tf" / "_commit.txt").exists()
    assert code_version(tmp_path / "a" / "acer_tf") == here
    # As a wheel is built from a source distribution: without a history.
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "xzf", archive.name], cwd=tmp_path, check=True)
    assert code_version(next(tmp_path.glob("acer_tf-*/acer_tf"))) == here
