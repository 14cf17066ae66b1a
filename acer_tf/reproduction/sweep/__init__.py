"""Sweeps: the cells of an experiment, each a run in its own folder, on this machine or on a Ray or Slurm cluster."""

from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.reproduction.sweep.launcher import LocalLauncher
from acer_tf.reproduction.sweep.ray_cluster import RayLauncher
from acer_tf.reproduction.sweep.runner import SweepEnd, run_sweep
from acer_tf.reproduction.sweep.slurm_cluster import SlurmLauncher

__all__ = ["CellFolder", "LocalLauncher", "RayLauncher", "SlurmLauncher", "SweepEnd", "run_sweep"]
