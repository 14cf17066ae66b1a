"""Which code runs: the commit of this project's checkout, or the one that a wheel was built from.

Imports only the standard library, because setup.py runs this file too.
"""

import hashlib
import os
import subprocess
from pathlib import Path

_PARTS = ("acer_tf", "experiments", "benchmarks")
_PACKAGE = Path(__file__).resolve().parents[1]
COMMIT_FILE = "_commit.txt"  # in the package of a wheel or an sdist


def code_version(package: Path = _PACKAGE) -> dict[str, str | None]:
    """Where the code in the folder `package` comes from.

    Returns:
        "commit": with "+changes" appended if the folders `_PARTS` differ from it; None if unknown. "changes": SHA-256
        of the names and contents of the files that differ; None if none do.
    """
    try:
        return _checkout(package)
    except (OSError, subprocess.CalledProcessError):
        file = package / COMMIT_FILE
        known = file.read_text().split() if file.exists() else []
        return dict(zip(("commit", "changes"), [*known, None, None], strict=False))


def _checkout(package: Path) -> dict[str, str | None]:
    root = package.parent

    def git(*arguments: str) -> str:
        # Git refuses a checkout of another user, as a container mounts it. Its code runs already, so it is safe.
        command = ["git", "--no-optional-locks", "-c", f"safe.directory={root.resolve()}", *arguments]
        return os.fsdecode(subprocess.run(command, cwd=root, capture_output=True, check=True).stdout)

    if Path(git("rev-parse", "--show-toplevel").removesuffix("\n")).resolve() != root.resolve():
        raise FileNotFoundError(f"{root} is not the root of a checkout")
    # An installed package may lie untracked in another project's repository.
    git("ls-files", "--error-unmatch", "--", f"{package.name}/__init__.py")
    commit = git("rev-parse", "HEAD").strip()
    parts = ("-z", "--", *_PARTS)
    names = git("diff", "HEAD", "--name-only", "--no-renames", *parts)
    names += git("ls-files", "--others", "--exclude-standard", *parts)
    if not names:
        return {"commit": commit, "changes": None}
    digest = hashlib.sha256()
    for name in sorted(names.split("\0")[:-1]):
        path = root / name
        content = path.read_bytes() if path.is_file() else b""
        digest.update(b"%s\0%d\0%s" % (os.fsencode(name), len(content), content))
    return {"commit": f"{commit}+changes", "changes": digest.hexdigest()}
