"""The interface of launchers, and what a cell needs of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from acer_tf import envs
from acer_tf.errors import InvalidEnvironment, SettingsError, SweepError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from acer_tf.resources import PROCESS_BYTES
from acer_tf.settings import Settings
from acer_tf.training.device import CPU, Device
from acer_tf.types import EnvironmentSpec


class Launcher(Protocol):
    """Starts attempts somewhere and reports their ends. Its methods are called in this order, by one thread."""

    threads: int  # of each run
    ray_address: str  # of the cluster on which the runs' actors act; "" for the runs' own processes

    def check(self, memory: Sequence[int], actors: int) -> None:
        """Checks that cells with so many bytes of memory and at most `actors` each fit, before anything is written.

        Raises:
            SweepError: says what is needed, what there is, and what would fit.
        """

    def open(self, sweep_dir: Path) -> None:
        """Raises SweepError if a machine cannot use the sweep's folder, whose lock the caller holds."""

    def room(self, actors: int) -> int:
        """The number of attempts, with so many actors each, that can be started now."""

    def start(self, attempt: Attempt) -> None: ...

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        """The attempts that ended since the last call, by their cells' names."""

    def stop(self) -> None:
        """Asks all attempts to write a checkpoint and stop; `poll` still reports their ends."""

    def close(self) -> None:
        """Kills all processes that still run."""


class Needs(NamedTuple):
    """What a run needs of a machine."""

    settings: Settings  # resolved
    spec: EnvironmentSpec
    memory: int  # bytes, replay included


def needs_of(cells: Sequence[Cell], device: Device = CPU) -> list[Needs]:
    """What each cell needs on a device of this machine.

    Raises:
        SweepError: a cell's environment cannot be used or does not suit its agent, or a setting would have no effect.
    """
    # Imports TensorFlow, which takes seconds that errors in flags should not wait for.
    from acer_tf.training.build import replay_bytes, replay_rows, require_effect
    from acer_tf.training.resolve import resolve

    specs: dict[tuple[str, str], EnvironmentSpec] = {}
    found = []
    for cell in cells:
        settings = cell.train_settings
        key = settings.env, settings.atari_preset
        try:
            spec = specs[key] = specs.get(key) or envs.spec(settings.env, atari_preset=settings.atari_preset)
            settings = resolve(settings, spec, device=device)
            require_effect(settings, spec)
        except (InvalidEnvironment, SettingsError) as error:
            raise SweepError(f"'{cell.label}' cannot be run: {error}") from error
        memory = PROCESS_BYTES + replay_bytes(settings, spec, replay_rows(settings, spec))
        found.append(Needs(settings, spec, memory))
    return found
