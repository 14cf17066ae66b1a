"""What this machine takes for a kind of cell: the real objects with a small replay, in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from acer_tf.reproduction.sweep.cells import SweepError
from acer_tf.settings import Settings, settings_document


class Measured(NamedTuple):
    """Of one process."""

    before: float  # seconds per step while nothing is replayed
    after: float  # and from where replay has begun; the same in a run without replay
    checkpoint: int  # bytes, without replay
    policy: int  # bytes


def measured(settings: Settings, threads: int, copies: int) -> Measured:
    """Measures `settings` now, in `copies` processes at once, as a sweep would run them; the median of these.

    Takes about half a minute, and writes to the temporary folder alone. Left out, because each is a few percent at
    most: the time of checkpoints, and what a full replay costs beyond a small one.

    Args:
        settings: resolved.
        threads: of each process.
        copies: at least 1.

    Raises:
        SweepError: a process failed; says with what.
    """
    command = [sys.executable, "-m", "acer_tf.reproduction.plan"]
    request = json.dumps({"settings": settings_document(settings), "threads": threads}) + "\n"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes: list[Any] = []
    with tempfile.TemporaryFile("w+") as errors:
        try:
            for _ in range(copies):
                processes.append(subprocess.Popen(command, stderr=errors, **pipes))
            # All warm up first, so that each is timed beside the others, and not beside their compilation.
            for line in (request, "go\n"):
                for process in processes:
                    process.stdin.write(line)
                    process.stdin.flush()
                answers = [process.stdout.readline() for process in processes]
                if not all(answers):
                    raise BrokenPipeError
        except BrokenPipeError as error:
            errors.seek(0)
            said = [text.strip() for text in errors.read().splitlines() if text.strip()]
            raise SweepError(
                f"the speed of {settings.agent} on {settings.env} cannot be measured: {said[-1] if said else 'killed'}"
            ) from error
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    found = [Measured(**json.loads(answer)) for answer in answers]
    return Measured(*(statistics.median_high(values) for values in zip(*found, strict=True)))


def bytes_in(folder: Path) -> int:
    """That the files under a folder take; 0 where there is none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a run at work drops checkpoints
                total += Path(place, name).stat().st_size
    return total
