"""The interface of launchers, and the settings and memory that a cell needs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

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


def resolved(cells: Sequence[Cell], device: Device = CPU) -> list[tuple[Settings, EnvironmentSpec]]:
    """Each cell's settings, resolved for a device of this machine, and its environment's spec.

    Raises:
        SweepError: a cell's environment cannot be used or does not suit its agent, or a setting would have no effect.
    """
    # Imports TensorFlow, which takes seconds that errors in flags should not wait for.
    from acer_tf.training.build import require_effect
    from acer_tf.training.resolve import resolve

    specs: dict[tuple[str, str], EnvironmentSpec] = {}
    found = []
    for cell in cells:
        settings = cell.train_settings
        key = settings.env, settings.atari_preset
        try:
            if key not in specs:
                specs[key] = envs.spec(settings.env, atari_preset=settings.atari_preset)
            settings = resolve(settings, specs[key], device=device)
            require_effect(settings, specs[key])
            found.append((settings, specs[key]))
        except (InvalidEnvironment, SettingsError) as error:
            raise SweepError(f"'{cell.label}' cannot be run: {error}") from error
    return found


def memory_of(settings: Settings, spec: EnvironmentSpec) -> int:
    """Bytes of memory that a run with resolved `settings` needs, replay included."""
    from acer_tf.training.build import replay_bytes, replay_rows  # see resolved

    return PROCESS_BYTES + replay_bytes(settings, spec, replay_rows(settings, spec))
