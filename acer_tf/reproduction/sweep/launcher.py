"""Launchers: their interface, the one of this machine, and what a cell needs of a machine."""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from acer_tf import envs, resources
from acer_tf.envs.families import Family
from acer_tf.errors import InvalidEnvironment, SettingsError, SweepError
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.settings import Settings
from acer_tf.training.device import CPU, Device, gpu_count
from acer_tf.types import EnvironmentSpec


class Launcher(Protocol):
    """Starts attempts somewhere and reports their ends. Its methods are called in this order, by one thread."""

    threads: int  # in each run
    flags: tuple[str, ...] = ()  # given to all runs
    ray_address: str = ""  # of the cluster on which the runs' actors act; "" for the runs' own processes

    def check(self, memory: Sequence[int], actors: int = 0, actor_memory: int = 1) -> None:
        """Raises SweepError unless cells with so many bytes of memory, and at most `actors` of so many each, fit."""

    def open(self, sweep_dir: Path) -> None:
        """Raises SweepError if a machine cannot use the sweep's folder, whose lock the caller holds."""
        return None

    def room(self, actors: int) -> int:
        """The number of attempts, with so many actors each, that can be started now."""

    def start(self, attempt: Attempt) -> None: ...

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        """The attempts that ended since the last call, by their cells' names."""

    def stop(self) -> None:
        """Asks all attempts to write a checkpoint and stop; `poll` still reports their ends."""

    def close(self) -> None:
        """Kills all processes that still run."""


class LocalLauncher(Launcher):
    """Runs at most `processes` cells at a time.

    Args:
        processes: at least 1.
        threads: the number in each; 0 for an equal share of the cores.
        gpus_per_cell: the share of a GPU for each run, at most 1; 0 leaves the device to the run.
    """

    def __init__(self, processes: int = 1, threads: int = 0, *, gpus_per_cell: float = 0.0) -> None:
        self.threads = threads or max(1, resources.available_cores() // processes)
        self._processes, self._share = processes, gpus_per_cell
        self._attempts: dict[str, Attempt] = {}
        self._gpus = gpu_count() if gpus_per_cell else 0
        self._gpu_of: dict[str, int] = {}

    def check(self, memory: Sequence[int], actors: int = 0, actor_memory: int = 1) -> None:
        # Any cells may run together, so the largest ones must fit.
        largest = sorted(memory, reverse=True)[: self._processes]
        if self._share and (fits := self._gpus * int(1 / self._share + 1e-9)) < len(largest):
            raise SweepError(
                f"--gpus_per_cell={self._share:g}: {len(largest)} cells at a time do not fit on the {self._gpus} GPUs "
                f"that TensorFlow sees here; {f'at most --processes={fits} fits' if fits else 'leave it out'}"
            )
        available = resources.available_memory()
        if (fits := sum(total <= available for total in itertools.accumulate(largest))) < len(largest):
            raise SweepError(
                f"--processes={self._processes}: {len(largest)} cells at a time need up to "
                f"{resources.in_bytes(sum(largest))} of memory, but {resources.in_bytes(available)} are available; "
                + (f"at most --processes={fits} fits" if fits else f"one alone needs {resources.in_bytes(largest[0])}")
            )

    def room(self, actors: int) -> int:
        return self._processes - len(self._attempts)

    def start(self, attempt: Attempt) -> None:
        if self._share:
            taken = [self._gpu_of[name] for name in self._attempts]
            gpu = self._gpu_of[attempt.cell.name] = min(range(self._gpus), key=taken.count)
            attempt.command += (f"--device=gpu:{gpu}",)
        self._attempts[attempt.cell.name] = attempt

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        ended = [(name, end) for name, attempt in self._attempts.items() if (end := attempt.poll()) is not None]
        for name, _ in ended:
            del self._attempts[name]
        return ended

    def stop(self) -> None:
        for attempt in self._attempts.values():
            attempt.stop()

    def close(self) -> None:
        for attempt in self._attempts.values():
            attempt.close()


class Needs(NamedTuple):
    """The needs of a run on a machine."""

    settings: Settings  # resolved
    spec: EnvironmentSpec
    memory: int  # bytes, replay included
    actor_memory: int  # of each of its actors on a Ray cluster


def needs_of(folders: Sequence[CellFolder], device: Device = CPU, *, on_ray: bool = False) -> list[Needs]:
    """What the run in each cell's folder needs on a device of this machine, with its actors, or these `on_ray`.

    Raises:
        SweepError: a cell's environment cannot be used or does not suit its agent, a setting would have no effect, or
            --initialize_from does not suit it.
    """
    # Imports TensorFlow, which takes seconds that errors in flags should not wait for.
    from acer_tf.settings.effect import require_effect
    from acer_tf.training.build import actor_bytes, process_bytes, replay_bytes, replay_rows
    from acer_tf.training.initialize import require_source
    from acer_tf.training.resolve import resolve

    spec_of = functools.cache(envs.spec)
    first: dict[Family, str] = {}  # making each of 57 games would take many seconds, and they need the same
    found = []
    for folder in folders:
        try:
            settings = folder.settings()
            env = first.setdefault(settings.family, settings.env) if settings.family.alike else settings.env
            options: dict[str, Any] = {"atari_preset": settings.atari_preset, "action_masks": settings.action_masks}
            spec = spec_of(env, **options)
            settings = resolve(settings, spec, device=device)
            require_effect(settings, spec)
            # Actions differ between games that are alike in all else; the first game's spec is its own.
            new = not (folder.run_dir / "run.json").exists()
            if settings.initialize_from is not None and new and env == settings.env:
                require_source(settings, spec)
        except (InvalidEnvironment, SettingsError) as error:
            raise SweepError(f"'{folder.cell.label}' cannot be run: {error}") from error
        memory = process_bytes(settings, spec, on_ray=on_ray and settings.actors > 0)
        memory += replay_bytes(settings, spec, replay_rows(settings, spec))
        found.append(Needs(settings, spec, memory, actor_bytes(settings, spec)))
    return found
