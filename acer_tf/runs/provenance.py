"""Provenance: the time, machine, command, code and packages that made a result."""

import collections
import contextlib
import datetime
import email
import functools
import hashlib
import importlib.metadata
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from acer_tf import __version__
from acer_tf.resources import available_cores
from acer_tf.runs.commit import code_version

_TOP_LEVEL = re.compile(r"^([^/,]+?)(?:/.*)?\.py,", re.MULTILINE)  # the module of each file that RECORD names


def provenance() -> dict[str, Any]:
    """The provenance of what this process makes, JSON-able. Call it after importing what the process needs."""
    return {
        "command": command_line(),
        **code_version(),
        "started": now(),
        "versions": package_versions(),
        "packages_sha256": hashlib.sha256(packages().encode()).hexdigest(),
        "machine": {
            "host": socket.gethostname(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": available_cores(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
            **_gpus(),
        },
    }


def user_modules(names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of the file of each imported module that a name of the form "module:Name" begins with."""
    modules = {name.partition(":")[0]: sys.modules.get(name.partition(":")[0]) for name in names if ":" in name}
    files = {name: getattr(module, "__file__", None) for name, module in modules.items()}
    return {name: hashlib.sha256(Path(file).read_bytes()).hexdigest() for name, file in files.items() if file}


def command_line() -> list[str]:
    """The command line that started this process, without the path of its Python."""
    return ["python", *sys.orig_argv[1:]]


def now() -> str:
    """The time in UTC, as ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def packages() -> str:
    """Every installed distribution, one name==version per line, sorted."""
    return "".join(sorted(f"{name}=={version}\n" for name, version in _installed(tuple(sys.path))[0].items()))


def package_versions() -> dict[str, str]:
    """Versions of Python, this package, its declared requirements, and everything else that has been imported."""
    installed, top_level = _installed(tuple(sys.path))
    loaded = {module.partition(".")[0] for module in list(sys.modules)}
    names = sorted({name for module in loaded & top_level.keys() for name in top_level[module]})
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        requirements = importlib.metadata.requires("acer_tf") or []
        names = [re.split(r"[^\w.-]", text)[0] for text in requirements if 'extra == "dev"' not in text] + names
    named = {_canonical(name): name for name in reversed(names)}
    versions = {name: installed[key] for key, name in named.items() if key in installed}
    # An editable installation's metadata may be older than its code.
    return {"python": platform.python_version(), **versions, "acer_tf": __version__}


@functools.cache  # reading the metadata of every package takes time
def _installed(path: tuple[str, ...]) -> tuple[Mapping[str, str], Mapping[str, list[str]]]:
    """Versions by canonical name, and the distributions by module. `path`, the process's, is the cache's key."""
    found: dict[str, str] = {}
    top_level = collections.defaultdict[str, list[str]](list)
    for distribution in importlib.metadata.distributions():
        metadata = next(filter(None, map(distribution.read_text, ("METADATA", "PKG-INFO", ""))), "")
        # Without the long texts after the fields: `importlib.metadata` parses all, which takes four times as long.
        fields = email.message_from_string(metadata.partition("\n\n")[0])
        if name := fields["Name"]:
            # Python imports the first on the path.
            found.setdefault(_canonical(name), fields["Version"])
            declared = (distribution.read_text("top_level.txt") or "").split()
            for module in declared or set(_TOP_LEVEL.findall(distribution.read_text("RECORD") or "")):
                top_level[module].append(name)
    return found, top_level


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _gpus() -> dict[str, Any]:
    """The GPUs that TensorFlow sees and their driver; empty without GPUs, or if TensorFlow is not loaded."""
    config: Any = getattr(sys.modules.get("tensorflow"), "config", None)
    gpus = config.list_physical_devices("GPU") if config else []
    if not gpus:
        return {}
    found = [config.experimental.get_device_details(gpu) for gpu in gpus]
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return {"gpus": found}
    return {"gpus": found, "gpu_driver": driver}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.*\S)", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1] if found else platform.processor()
