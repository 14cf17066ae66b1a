"""What a run begins with."""

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from acer_tf import envs
from acer_tf.policies.policy import Policy
from acer_tf.runs.records import ProgressRow, RunRecord
from acer_tf.settings import Settings
from acer_tf.training.device import Device
from acer_tf.training.logged import Log
from acer_tf.types import EnvironmentSpec


class Job(NamedTuple):
    """A run that may begin: the arguments of `train`, checked, and what they stand for."""

    settings: Settings  # resolved
    spec: EnvironmentSpec
    folder: Path
    record: RunRecord | None  # the record of the run that is continued
    device: Device
    checkpoint_minutes: float
    threads: int
    env_workers: int
    gpu_memory_gb: float
    acting_device: str
    replay_file: Path | None
    ray_address: str | None
    actor_timeout: float
    repair: Collection[str]
    quiet: bool
    env: envs.EnvFactory | None
    on_row: Callable[[ProgressRow, Policy], None] | None
    episodes: Log | None  # logged ones, which replay begins with

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)

    def note(self, step: int, notes: Sequence[str]) -> None:
        for note in notes:
            print(f"{self.folder}, step {step:,}: {note}", file=sys.stderr)
