"""Reads, writes and renames files that may be damaged, links, or someone else's: JSON, whole files, policies."""

import contextlib
import errno
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from acer_tf.errors import Mismatch

POLICY_METADATA = "metadata.json"
POLICY_PARTS = (
    POLICY_METADATA,
    "saved_model.pb",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
)

# Numbers of the OSErrors that come from what a file holds, or from its absence. Others pass, and the file may be whole.
_DAMAGE = (None, errno.ENOENT, errno.EIO, errno.EINVAL, errno.EISDIR, errno.ENOTDIR)


def is_damage(error: BaseException) -> bool:
    """Whether `error`, raised while a saved file was read, comes from what the file holds; its causes count too.

    A lack of memory, of a permission or of a library, and a `Mismatch`, leave the file as good as it was.
    """
    if isinstance(error, OSError):
        return error.errno in _DAMAGE
    if isinstance(error, MemoryError | ImportError | Mismatch):
        return False
    return error.__cause__ is None or is_damage(error.__cause__)


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON, or nested so deeply that Python does not read it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file whole or not at all (OSError), also if the machine stops, and never through a link."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # another process may write the same file
    partial.unlink(missing_ok=True)
    try:
        # Text from elsewhere need not be valid Unicode.
        data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
        with named(path), durable(partial) as file:  # else the name may reach the disk before the content
            file.write(data)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a file of JSON, whole or not at all (OSError)."""
    write_whole(path, json.dumps(document, indent=2) + "\n")


def remove_partial(folder: Path) -> None:
    """Deletes what a killed `write_whole` left in a folder that nobody else writes to now."""
    for path in folder.glob("*.partial"):
        if path.is_file() and re.search(r"\.\d+\.partial$", path.name):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Gives an OSError of writing, which names no file, the name of this one: which disk is full is else not told."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def durable(path: Path) -> Iterator[BinaryIO]:
    """A new file to write, whose content is on the disk when the block ends. Raises FileExistsError if it exists."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Makes a file's content durable, or the names in a folder: a power failure may undo a renaming otherwise."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot do it for folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Renames a damaged `path` to the first free <name>.damaged-<n>; returns the new path."""
    names = (path.with_name(f"{path.name}.damaged-{n}") for n in itertools.count(1))
    return path.rename(next(name for name in names if not os.path.lexists(name)))


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes those of the folders, innermost first, that hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):  # not empty, or not there
            folder.rmdir()


def is_taken(policy: Path) -> bool:
    """Whether `policy`, where an export would write, is something other than a policy or an empty folder."""
    if not os.path.lexists(policy):
        return False
    if not policy.is_dir():
        return True
    return any(policy.iterdir()) and not _is_policy(policy)


def _is_policy(folder: Path) -> bool:
    """Whether it has a policy's metadata, perhaps damaged: data sets have a file of that name, too."""
    if not (folder / POLICY_METADATA).exists():
        return False
    try:
        document = read_json(folder / POLICY_METADATA)
    except ValueError:
        document = None
    if isinstance(document, dict) and document:
        return {"env", "agent", "commit"} <= document.keys()
    return (folder / "saved_model.pb").exists()


def missing_parts(policy: Path) -> list[str]:
    """The files that the folder of a policy lacks; [] if it is whole."""
    return [name for name in POLICY_PARTS if not (policy / name).is_file()]
