"""What a sweep would take of time, disk and memory, before it is started."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from acer_tf.reproduction.plan.cells import PlannedCell, planned
from acer_tf.reproduction.plan.measure import measured
from acer_tf.reproduction.plan.speed import Measure, paces
from acer_tf.reproduction.plan.work import makespan
from acer_tf.reproduction.sweep.cells import Cell, require_distinct
from acer_tf.reproduction.sweep.local import LocalLauncher

# Of every process, besides its steps: imports, compilation, export. It differs by machine, and matters to short cells.
START_SECONDS = 15.0


@dataclasses.dataclass(frozen=True)
class Row:
    """The cells of one method.

    Attributes:
        method: their label.
        cells: how many.
        finished: how many of these are finished.
        envs: how many different environments.
        steps: of one cell: the fewest and the most.
        steps_left: of all.
        steps_per_second: of one process, over the steps that are left; None where none is.
        seconds_left: of one process that runs them one after the other.
    """

    method: str
    cells: int
    finished: int
    envs: int
    steps: tuple[int, int]
    steps_left: int
    steps_per_second: float | None
    seconds_left: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a sweep would take. Times in seconds, disk and memory in bytes.

    Attributes:
        sweep_dir: its folder.
        rows: its cells by method.
        steps: of all cells.
        processes: side by side.
        threads: of each.
        seconds: until all cells are finished.
        longest_cell: seconds of the longest one.
        sources: where the rates come from, in sentences.
        disk_kept: that finished cells add to what is there.
        disk_peak: that is added while cells run, their checkpoints included.
        disk_free: at `disk_place`.
        disk_place: the sweep's folder, or the nearest one above that exists.
        memory: of the largest cells that may run together, their replay full.
        memory_available: of the machine.
        load: the machine's average over the minute before.
        cores: that this process may use.
    """

    sweep_dir: Path
    rows: tuple[Row, ...]
    steps: int
    processes: int
    threads: int
    seconds: float
    longest_cell: float
    sources: tuple[str, ...]
    disk_kept: int
    disk_peak: int
    disk_free: int
    disk_place: Path
    memory: int
    memory_available: int
    load: float
    cores: int

    @property
    def cells(self) -> int:
        return sum(row.cells for row in self.rows)

    @property
    def finished(self) -> int:
        return sum(row.finished for row in self.rows)

    @property
    def steps_left(self) -> int:
        return sum(row.steps_left for row in self.rows)

    @property
    def seconds_alone(self) -> float:
        """Of one process that runs all cells, as fast as one of `processes`."""
        return sum(row.seconds_left for row in self.rows)


def plan(
    cells: Sequence[Cell],
    sweep_dir: Path,
    *,
    processes: int = 1,
    threads: int = 0,
    checkpoint_minutes: float = 10.0,
    measure: Measure = measured,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
) -> Plan:
    """What `run_sweep` of `cells` by a `LocalLauncher` would take. No run is started, and nothing written.

    An interrupted cell counts from its last row of progress.csv; it goes on from its last checkpoint, which may be an
    interval earlier. Times leave out what `measured` does, and failures; a process's start counts `START_SECONDS`.

    Args:
        cells: of the sweep, in its order.
        sweep_dir: its folder, which need not exist.
        processes: cells side by side.
        threads: of each; 0 for an even share of the cores.
        checkpoint_minutes: between the checkpoints of each run.
        measure: gives the speed of cells that are alike, where no cell of this sweep has recorded it; takes half
            a minute for each such group.
        say: takes a line before each measurement.

    Raises:
        SweepError: cells that cannot be run, or whose speed cannot be measured.
    """
    require_distinct(cells)
    load = os.getloadavg()[0]
    threads = LocalLauncher(processes, threads).threads
    all_cells = planned(cells, sweep_dir)
    from acer_tf.reproduction.plan.disk import Footprints, bytes_in, existing
    from acer_tf.training.build import PROCESS_BYTES, available_memory  # see launcher.memory_of

    available = available_memory()
    unfinished = [cell for cell in all_cells if not cell.finished]
    pace, sources = paces(
        all_cells,
        threads=threads,
        copies=max(1, min(processes, len(unfinished), available // PROCESS_BYTES)),
        measure=measure,
        say=say,
    )
    stepping = {cell.folder.cell.name: own.seconds(cell.work) for cell, own in zip(unfinished, pace, strict=True)}
    seconds = {name: START_SECONDS + own for name, own in stepping.items()}
    footprints = Footprints(checkpoint_minutes)
    disk = [footprints.of(cell, own) for cell, own in zip(unfinished, pace, strict=True)]
    present = sum(
        min(bytes_in(cell.folder.path), size.kept + size.passing) for cell, size in zip(unfinished, disk, strict=True)
    )
    kept = sum(size.kept for size in disk)
    place = existing(sweep_dir)
    return Plan(
        sweep_dir=sweep_dir,
        rows=tuple(
            _row(method, [cell for cell in all_cells if cell.folder.cell.method == method], stepping)
            for method in dict.fromkeys(cell.method for cell in cells)
        ),
        steps=sum(cell.settings.total_steps for cell in cells),
        processes=processes,
        threads=threads,
        seconds=makespan(seconds.values(), processes),
        longest_cell=max(seconds.values(), default=0.0),
        sources=tuple(sources),
        disk_kept=max(0, kept - present),
        disk_peak=max(0, kept + _largest((size.passing for size in disk), processes) - present),
        disk_free=shutil.disk_usage(place).free,
        disk_place=place,
        memory=_largest((cell.memory for cell in unfinished), processes),
        memory_available=available,
        load=load,
        cores=len(os.sched_getaffinity(0)),
    )


def _row(method: str, cells: Sequence[PlannedCell], stepping: Mapping[str, float]) -> Row:
    steps = [cell.settings.total_steps for cell in cells]
    steps_left = sum(cell.work.steps for cell in cells)
    seconds = [stepping[cell.folder.cell.name] for cell in cells if not cell.finished]
    return Row(
        method=method,
        cells=len(cells),
        finished=sum(cell.finished for cell in cells),
        envs=len({cell.settings.env for cell in cells}),
        steps=(min(steps), max(steps)),
        steps_left=steps_left,
        steps_per_second=steps_left / sum(seconds) if steps_left else None,
        seconds_left=sum(seconds) + START_SECONDS * len(seconds),
    )


def _largest(sizes: Iterable[int], count: int) -> int:
    """The sum of the largest `count`: any may run together."""
    return sum(sorted(sizes, reverse=True)[:count])
