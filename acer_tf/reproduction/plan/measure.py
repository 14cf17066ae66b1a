"""Measures the speed of a kind of cell on this machine: the real objects with a small replay, in new processes."""

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
from acer_tf.settings import Settings
from acer_tf.settings_record import settings_document


class Measured(NamedTuple):
    """Measurements of one process."""

    before: float  # seconds per step before replay starts
    after: float  # seconds per step with replay; the same in a run without replay
    checkpoint: int  # bytes, without replay
    policy: int  # bytes


def measured(settings: Settings, threads: int, copies: int) -> Measured:
    """Measures `settings` in `copies` processes at once, as in a sweep; returns the medians.

    Takes about half a minute, and writes only to the temporary folder. Ignores the time of checkpoints, and of a full
    replay compared with a small one, each a few percent at most.

    Args:
        settings: resolved.
        threads: of each process.
        copies: at least 1.

    Raises:
        SweepError: a process failed; with its last line on standard error.
    """
    command = [sys.executable, "-m", "acer_tf.reproduction.plan"]
    request = json.dumps({"settings": settings_document(settings), "threads": threads}) + "\n"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes: list[Any] = []
    with tempfile.TemporaryFile("w+") as errors:
        try:
            for _ in range(copies):
                processes.append(subprocess.Popen(command, stderr=errors, **pipes))
            # All compile and warm up first, so that they are timed together.
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
    """The total size of the files under a folder; 0 if it does not exist."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # an active run deletes checkpoints
                total += Path(place, name).stat().st_size
    return total
