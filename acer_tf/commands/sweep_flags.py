"""The flags of commands that run many cells, and how they run them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from acer_tf.commands import cli
from acer_tf.errors import SweepError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.sweep import LocalLauncher, RayLauncher, SlurmLauncher, run_sweep
from acer_tf.reproduction.sweep.attempt import PROGRAM
from acer_tf.reproduction.sweep.launcher import Launcher
from acer_tf.training.device import CPU, find_device

# Each launcher, with the flags that belong to it alone.
_LAUNCHERS = {"local": ("processes",), "ray": ("ray_address",), "slurm": ("slurm_partition", "slurm_time")}


def define(values: flags.FlagValues, sweep: str) -> None:
    """Adds --sweep_dir, --launcher and the flags that belong to them."""
    flag = cli.definers(values, "How it is run")
    flag.path("sweep_dir", f"runs/{sweep}", "folder of the cells; the same command continues them")
    flag.enum("launcher", "local", list(_LAUNCHERS), "processes on this machine, Ray tasks, or tasks of Slurm arrays")
    flag.integer("processes", None, "local: cells that run at the same time; by default 1", 1, cli.MOST_THREADS)
    where = "ray: auto (the default), the cluster that this machine belongs to; local, this machine alone; or host:port"
    flag.string("ray_address", None, where)
    flag.string("slurm_partition", None, "slurm: partition for the cells; by default the cluster's")
    limit = "slurm: minutes after which a cell is requeued from a checkpoint; by default the partition's"
    flag.integer("slurm_time", None, limit, lower_bound=1)
    gpu = (
        "share of a GPU for each cell (slurm: 0 or 1); 0: none (ray, slurm), or what train --device=auto takes (local)"
    )
    flag.float("gpus_per_cell", 0.0, gpu, 0.0, 1.0)
    flag.float("gpu_memory_gb", 0.0, "most GPU memory that each cell takes; 0 for as much as it needs", 0.0)
    share = "threads of each cell; 0: an even share of the machine's cores (local), or one thread (ray, slurm)"
    flag.integer("threads", 0, share, 0, cli.MOST_THREADS)
    flag.integer("retries", 2, "further attempts at a cell that failed", lower_bound=0)
    stall = "minutes without a row of progress.csv or a checkpoint after which a cell is stopped and counts as failed"
    flag.float("stall_minutes", 30.0, stall, lower_bound=0.01)
    flag.float("checkpoint_minutes", 10.0, "minutes between a cell's checkpoints", lower_bound=0.0)
    flag.float("progress_seconds", 60.0, "seconds between lines of progress", lower_bound=0.1)


def run(values: flags.FlagValues, sweep: str, cells: Sequence[Cell]) -> tuple[int, Mapping[str, str]]:
    """Runs `cells` as the flags say; returns the exit status, and why cells were given up, by name.

    The status is 0 if all cells are finished, 1 if some are not, 128 + the number of the signal that stopped it.

    Raises:
        SweepError: bad input.
    """
    require(values)
    require_gpu(values, cells)
    names = ("retries", "stall_minutes", "checkpoint_minutes", "progress_seconds")
    options: dict[str, Any] = {name: values[name].value for name in names} | {"cwd": Path.cwd()}
    program = [*PROGRAM, *([f"--gpu_memory_gb={values.gpu_memory_gb:g}"] if values.gpu_memory_gb else [])]
    try:
        end = run_sweep(sweep, cells, Path(values.sweep_dir), _launcher(values), program=program, **options)
    except OSError as error:
        return cli.fail(1, f"stopped: {error}; the same command continues"), {}
    return end.exit_code, end.given_up


def require(values: flags.FlagValues) -> None:
    """Raises SweepError for flags that do not fit together."""
    require_times(values)
    for launcher, names in _LAUNCHERS.items():
        for name in names:
            if values[name].value is not None and launcher != values.launcher:
                what = "; a cluster runs what it has room for" if launcher == "local" else ""
                raise SweepError(f"--{name}={values[name].value}: it goes with --launcher={launcher}{what}")


def require_gpu(values: flags.FlagValues, cells: Sequence[Cell]) -> None:
    """Raises SweepError if cells would refuse what only a GPU has an effect on, or has."""
    needed = f"--gpu_memory_gb={values.gpu_memory_gb:g}" if values.gpu_memory_gb else ""
    if not needed and any(cell.train_settings.precision == "tf32" for cell in cells):
        needed = "--setting=precision=tf32"
    if not needed or values.gpus_per_cell or (values.launcher == "local" and find_device() != CPU):
        return
    remedy = "TensorFlow finds no GPU here" if values.launcher == "local" else "give --gpus_per_cell"
    raise SweepError(f"{needed}: has no effect on cells that compute on the CPU; {remedy}")


def require_times(values: flags.FlagValues) -> None:
    """Raises SweepError unless a run writes checkpoints before it counts as stalled."""
    if values.stall_minutes <= values.checkpoint_minutes:
        raise SweepError(
            f"--stall_minutes={values.stall_minutes}: must be above "
            f"--checkpoint_minutes={values.checkpoint_minutes}, or runs that make progress may count as stalled"
        )


def _launcher(values: flags.FlagValues) -> Launcher:
    if values.launcher == "local":
        return LocalLauncher(values.processes or 1, values.threads, gpus_per_cell=values.gpus_per_cell)
    common: dict[str, Any] = {"threads": values.threads, "gpus_per_cell": values.gpus_per_cell}
    common |= {"executable": sys.executable, "cwd": Path.cwd()}
    if values.launcher == "ray":
        return RayLauncher("auto" if values.ray_address is None else values.ray_address, **common)
    return SlurmLauncher(values.slurm_partition, values.slurm_time, **common)
