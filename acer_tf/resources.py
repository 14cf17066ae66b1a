"""The memory and the cores that a run may take on this machine."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

# The files of a control group that hold its limit of memory and its memory in use, and the entry of memory.stat for the
# pages that can be reclaimed.
_LIMITS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),  # version 1
)
PROCESS_BYTES = 1_500_000_000  # what a run takes besides its replay: TensorFlow, networks, 16 environments and batches

# What an actor on Ray takes: read off were 0.85 GB, and 1 MB (Pong) to 1.7 MB (cheetah) for each environment.
ACTOR_BYTES, ENVIRONMENT_BYTES = 1_000_000_000, 2_000_000


def available_memory(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes of memory that this process and its children may still take, by the machine and by their control groups."""
    available = psutil.virtual_memory().available
    for group in _control_groups("memory", root, own):
        for limit, used, cache in _LIMITS:
            if not (group / limit).exists() or (most := (group / limit).read_text().strip()) == "max":
                continue
            # The page cache counts as used, but it is reclaimable; the checkpoints of a run fill it. Sandboxes such as
            # gVisor do not tell how large it is.
            stat = group / "memory.stat"
            pages = dict(line.split() for line in stat.read_text().splitlines()) if stat.exists() else {}
            available = min(available, int(most) - int((group / used).read_text()) + int(pages.get(cache, 0)))
    return available


def available_cores(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Cores that this process may use at once, by its affinity and by the quotas of its control groups, rounded up."""
    cores = len(os.sched_getaffinity(0))
    for group in _control_groups("cpu", root, own):
        quota = ["max"]
        with contextlib.suppress(OSError):
            quota = (group / "cpu.max").read_text().split()
        with contextlib.suppress(OSError):  # version 1
            quota = [(group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]
        if quota[0] != "max" and int(quota[0]) > 0:  # -1 in version 1: none
            cores = min(cores, math.ceil(int(quota[0]) / int(quota[1])))
    return cores


def in_bytes(size: int) -> str:
    """A size as text: "1.2 GB", "3.5 kB"."""
    unit, name = (1e9, "GB") if size >= 1e8 else (1e6, "MB") if size >= 1e5 else (1e3, "kB")
    return f"{size / unit:,.1f} {name}"


def _control_groups(controller: str, root: Path, own: Path) -> Iterator[Path]:
    """The folders of this process's control groups for a controller, in both versions, each with its parents."""
    lines = own.read_text().splitlines() if own.exists() else []
    for line in ["0::/", *lines]:  # a container may see its own group as the root
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = root / controller if controllers else root
            group = top / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))
