"""What a sweep asks of a launcher, and what a cell needs of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from acer_tf import envs
from acer_tf.reproduction.sweep.attempt import AttemptEnd, Job
from acer_tf.reproduction.sweep.cells import Cell, SweepError
from acer_tf.settings import Settings, SettingsError
from acer_tf.types import EnvironmentSpec


class Launcher(Protocol):
    """Starts attempts somewhere and says how they end. Used by one thread, in the order of the methods."""

    threads: int  # that each run is given

    def check(self, memory: Sequence[int]) -> None:
        """Refuses what cannot fit, before anything is written.

        Args:
            memory: bytes that each cell needs.

        Raises:
            SweepError: says what is needed, what there is, and what would fit.
        """

    def open(self, sweep_dir: Path) -> None:
        """Makes sure that every machine can use the sweep's folder, which the caller holds.

        Raises:
            SweepError: names the machine that cannot.
        """

    def room(self) -> int:
        """How many more attempts it takes now."""

    def start(self, job: Job) -> None:
        """Starts an attempt."""

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        """The attempts that ended since the last call, by their cells' names."""

    def stop(self) -> None:
        """Asks all attempts to stop behind a checkpoint; `poll` goes on to say how they end."""

    def close(self) -> None:
        """Kills what still runs."""


def resolved(cells: Sequence[Cell]) -> list[tuple[Settings, EnvironmentSpec]]:
    """The settings that each cell would run with on this machine, and its environment.

    Raises:
        SweepError: a cell's environment cannot be used, or does not suit its agent, or a setting would have no effect.
    """
    # TensorFlow comes with it: seconds that bad flags should not wait for.
    from acer_tf.training.build import require_effect, resolve

    specs: dict[tuple[str, str], EnvironmentSpec] = {}
    found = []
    for cell in cells:
        settings = cell.settings
        key = settings.env, settings.atari_preset
        try:
            if key not in specs:
                specs[key] = envs.spec(settings.env, atari_preset=settings.atari_preset)
            settings = resolve(settings, specs[key])
            require_effect(settings, specs[key])
            found.append((settings, specs[key]))
        except (envs.InvalidEnvironment, SettingsError) as error:
            raise SweepError(f"'{cell.label}' cannot be run: {error}") from error
    return found


def memory_of(settings: Settings, spec: EnvironmentSpec) -> int:
    """Bytes of memory that the process of a run with resolved `settings` needs, replay included."""
    from acer_tf.training.build import PROCESS_BYTES, replay_bytes, replay_rows  # see resolved

    return PROCESS_BYTES + replay_bytes(settings, spec, replay_rows(settings, spec))
