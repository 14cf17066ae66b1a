"""Experience replay in NumPy."""

from acer_tf.replay.chunks import ReplayCorrupt
from acer_tf.replay.trajectories import TrajectoryReplay

__all__ = ["ReplayCorrupt", "TrajectoryReplay"]
